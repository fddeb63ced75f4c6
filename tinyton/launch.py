"""Launches: grids, thread counts, and the three ways to a launch configuration.

Two numbers that are easily taken for one: how much data a program covers (the tile, a constexpr of yours) and how many
threads it runs on (the compiler's choice, written into the binary). On a GPU, programs that take few threads share a
hardware block, unless ``num_warps`` or ``num_threads`` is given: then a program is a block, or where one more warp of a
block copies tiles for the others, one of several that it runs in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import index
from typing import Any, NamedTuple

import numpy as np

from .errors import LaunchError


def as_grid(grid: Any, meta: dict[str, object], limits: dict[str, int]) -> tuple[int, int, int]:
    """A grid as three numbers, checked against the device's limits. An int is one axis; a callable gets the kernel's
    constexpr values by name."""
    if callable(grid):
        grid = grid(meta)
    axes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    if not 1 <= len(axes) <= 3:
        raise LaunchError(f"a grid has one to three axes, not {len(axes)}: {grid!r}")
    out = []
    for axis, n in enumerate(axes):
        try:
            n = index(None if isinstance(n, (bool, np.bool_)) else n)
        except TypeError:
            what = f"{n!r}, a {type(n).__name__}"
            raise LaunchError(f"axis {axis} of the grid is {what}; it must be an int") from None
        limit = limits["xyz"[axis]]
        if n < 0 or n > limit:
            raise LaunchError(f"axis {axis} of the grid is {n}; it must be 0 to {limit}")
        out.append(n)
    return tuple(out) + (1,) * (3 - len(out))  # type: ignore[return-value]


class Asked(NamedTuple):
    """What a launch asks of the compiler: threads a program and stages of loops that multiply, or None, its choice; and
    blocks that run a program together."""

    threads: int | None = None
    stages: int | None = None
    ctas: int = 1


def check_options(options: dict[str, Any], limit: int) -> Asked:
    """What the options of a launch ask for. ``limit`` is the device's, in threads a program."""
    for word, n in options.items():
        counts = word != "stream" and n is not None
        if counts and (isinstance(n, (bool, np.ndarray)) or not hasattr(n, "__index__") or n < 1):
            raise LaunchError(f"{word} must be an int from 1 on, not {n!r}")
    if (ctas := options["num_ctas"]) not in (None, 1, 2, 4, 8, 16):
        raise LaunchError(f"num_ctas is one of 1, 2, 4, 8, 16, not {ctas}")
    num_threads, num_warps = options["num_threads"], options["num_warps"]
    if num_threads is not None and num_warps is not None and num_threads != 32 * num_warps:
        raise LaunchError(f"num_threads={num_threads} and num_warps={num_warps} disagree; give one of them")
    word, n, unit = ("num_warps", num_warps, 32) if num_warps is not None else ("num_threads", num_threads, 1)
    if n is None:
        return Asked(None, options["num_stages"], ctas or 1)
    if n & (n - 1):
        raise LaunchError(f"{word} must be a power of two, not {n}")
    if n * unit > limit:
        raise LaunchError(f"{word}={n} is {n * unit} threads a program; this device allows {limit}")
    return Asked(int(n) * unit, options["num_stages"], ctas or 1)


@dataclass(frozen=True)
class LaunchConfig:
    """How many programs (``grid``), threads a hardware block (``block``), and blocks that run a program together, as a
    cluster (``cluster``). The second number of ``block`` is how many programs share one, each with the first as its
    threads.

    >>> import tinyton as tt
    >>> config = tt.LaunchConfig(grid=100, block=(8, 16))
    >>> config.grid, config.blocks
    ((100, 1, 1), (7, 1, 1))
    """

    grid: Any
    block: Any = None
    cluster: Any = 1
    check: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        for name in ("grid", "block", "cluster"):
            value = getattr(self, name)
            if value is not None and not (name == "grid" and callable(value)):
                object.__setattr__(self, name, as_grid(value, {}, dict.fromkeys("xyz", 2**31 - 1)))

    @property
    def blocks(self) -> tuple[int, int, int]:
        """How many hardware blocks the grid is, which counts programs; or at most is, where blocks run one program
        after another."""
        if callable(self.grid) or self.block is None:
            raise LaunchError("a LaunchConfig tells its blocks once its grid is numbers and its block is given")
        x, y, z = self.grid
        return _cdiv(x, self.block[1]) * self.cluster[0], y, z

    @classmethod
    def with_grid(cls, grid: Any, compiled: Any) -> LaunchConfig:
        """Your grid, the threads that the binary was compiled for: the safe way. You know how much data a program
        covers, so you know the grid; the compiler knows the threads."""
        return cls(grid, compiled.reqntid, compiled.num_ctas)

    @classmethod
    def from_program(cls, n_elements: int, compiled: Any) -> LaunchConfig:
        """Threads from the binary, and as many programs as there are threads' worths in ``n_elements``: right only if
        a program handles one element a thread. A kernel whose tile is bigger gets too many programs, one whose tile is
        smaller too few."""
        return cls(_cdiv(n_elements, compiled.threads), compiled.reqntid, compiled.num_ctas)

    @classmethod
    def explicit(cls, n_elements: int, block_size: int, *, check: bool = True) -> LaunchConfig:
        """``block_size`` threads and elements a program, both from you. Refused at launch unless that is the thread
        count in the binary; ``check=False`` leaves the refusal to the driver."""
        return cls(_cdiv(n_elements, block_size), block_size, check=check)

    def block_for(self, compiled: Any) -> tuple[int, int, int]:
        """The block to launch with, checked against the binary."""
        block: tuple[int, int, int] = self.block or compiled.reqntid
        cluster, wanted = self.cluster, (compiled.num_ctas, 1, 1)
        instead = "from the binary: LaunchConfig.with_grid(grid, compiled)"
        if self.check and block != compiled.reqntid:
            what = f"{compiled.name} was compiled for a block of {compiled.reqntid} threads"
            raise LaunchError(f"{what} and cannot be launched with {block}; take the threads {instead}")
        if cluster not in (wanted, (1, 1, 1)):  # which is what a configuration has that says nothing
            what = f"{compiled.name} was compiled for a cluster of {wanted} blocks"
            raise LaunchError(f"{what} and cannot be launched with cluster={cluster}; take it {instead}")
        return block


def _cdiv(n_elements: int, block_size: int) -> int:
    for word, n, least in (("n_elements", n_elements, 0), ("block_size", block_size, 1)):
        if isinstance(n, bool) or not hasattr(n, "__index__") or n < least:
            raise LaunchError(f"{word} must be an int from {least} on, not {n!r}")
    return -(-n_elements // block_size)
