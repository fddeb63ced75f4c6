"""``tt.count(kernel, grid, *args)``: what a launch moves, counted and not timed: bytes, 32-byte sectors, warp accesses.

Memory moves in sectors of 32 bytes. A warp's access costs as many sectors as its lanes touch, however few bytes of
them it wants; the lower the share of wanted bytes, the less coalesced the access.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any

import numpy as np

from .replay import Access, replay

SECTOR = 32
SAMPLE = 1024


@dataclass(frozen=True)
class Count:
    """What a launch (or, added up, several) moves between its arrays and its threads.

    ``bytes_loaded``, ``bytes_stored``: of the elements that are on. ``sectors_loaded``, ``sectors_stored``: sectors of
    32 bytes, summed over the accesses of all warps. ``requests``: accesses of whole warps, of 1 to 16 bytes a lane.
    ``elements``, ``masked``: elements of all tiles that are loaded or stored, padding included, and how many of them
    are off. ``threads`` a program, as a GPU would run it. ``ran``: the programs that were run; the numbers are exact if
    that is all of them, else estimated from these.
    """

    bytes_loaded: int = 0
    bytes_stored: int = 0
    sectors_loaded: int = 0
    sectors_stored: int = 0
    requests: int = 0
    elements: int = 0
    masked: int = 0
    programs: int = 0
    launches: int = 0
    threads: int = 0
    ran: int = 0

    @property
    def bytes(self) -> int:
        return self.bytes_loaded + self.bytes_stored

    @property
    def sectors(self) -> int:
        return self.sectors_loaded + self.sectors_stored

    @property
    def coalescing(self) -> float:
        """The share of the moved bytes that was wanted: 1 if every sector is used whole. More than 1 if lanes of one
        access share elements."""
        return self.bytes / (SECTOR * self.sectors) if self.sectors else 1.0

    @property
    def utilisation(self) -> float:
        """The share of the tiles' elements that is on."""
        return 1 - self.masked / self.elements if self.elements else 1.0

    @property
    def exact(self) -> bool:
        return self.ran == self.programs

    def __add__(self, other: Count) -> Count:
        """Two launches, one after the other."""
        total = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Count(**total | {"threads": max(self.threads, other.threads)})

    def __repr__(self) -> str:
        words = [
            f"{self.bytes_loaded:,} bytes loaded, {self.bytes_stored:,} stored",
            f"{self.sectors:,} sectors ({self.coalescing:.0%} wanted) in {self.requests:,} warp accesses",
            f"{self.masked:,} of {self.elements:,} elements off",
            f"{self.launches} launch{'es' * (self.launches != 1)}, "
            f"{self.programs:,} programs of {self.threads} threads",
        ]
        return "\n".join(words + [f"estimated from {self.ran:,} programs"] * (not self.exact))


def count(kernel: Any, grid: Any, *args: object, exact: bool | None = None, **meta: Any) -> Count:
    """What ``kernel[grid](*args, **meta)`` would move on a GPU; nothing is launched, no argument is changed.

    The programs run in the interpreter. ``exact=None`` runs all of up to 1024 programs and of more a sample of that
    many: the last one and, spread evenly, others, which stand for the rest; True runs all. Threads and vector widths
    are the plan's for a GPU, whatever executor is in use; ``num_warps=`` and ``num_threads=`` change them. Programs
    that share a warp run, and access memory, together. An array starts at a sector's first byte, as allocators see to.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def copy(x, out, n, BLOCK: tt.constexpr):
    ...     i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    ...     tt.store(out + i, tt.load(x + i, mask=i < n), mask=i < n)
    >>> x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    >>> tt.count(copy, tt.cdiv(1000, 512), x, out, 1000, BLOCK=512)
    4,000 bytes loaded, 4,000 stored
    250 sectors (100% wanted) in 16 warp accesses
    48 of 2,048 elements off
    1 launch, 2 programs of 128 threads
    """
    last: tuple[int, int, int] | None = None
    seen = {True: Count(), False: Count()}  # of the last program (or warp of programs) of a sample, of the others
    scale, ran = 1.0, 0

    def choose(cells: tuple[int, int, int], several: int) -> list[tuple[int, int, int]]:
        nonlocal last, scale, ran
        row, sample = -(-cells[0] // several), SAMPLE // several
        total = row * cells[1] * cells[2]
        chosen: Iterable[int] = range(total)
        if not exact and total > (1 if exact is False else sample):
            last = ((row - 1) * several, cells[1] - 1, cells[2] - 1)
            chosen = sorted({round(k) for k in np.linspace(0, total - 2, min(sample, total) - 1)} | {total - 1})
            scale = (total - 1) / (len(chosen) - 1)
        firsts = [(k % row * several, k // row % cells[1], k // row // cells[1]) for k in chosen]
        ran = sum(min(several, cells[0] - x) for x, _, _ in firsts)
        return firsts

    def see(access: Access) -> None:
        seen[access.program == last] += _of(access)

    low, cells = replay(kernel, grid, args, meta, see, choose)
    total = prod(cells)
    numbers = {n: round(scale * v) + getattr(seen[True], n) for n, v in vars(seen[False]).items()}
    return replace(Count(**numbers), programs=total, launches=int(total > 0), threads=low.threads, ran=ran)


def _of(access: Access) -> Count:
    """What one access moves."""
    how = "loaded" if access.verb == "load" else "stored"
    size, moved, requests = access.dtype.itemsize, 0, 0
    for places, on in access.warps():
        moved += sectors(places * size, on)
        requests += int(on.any((-2, -1)).sum())
    found = {f"bytes_{how}": access.active * size, f"sectors_{how}": moved}
    return Count(**found, requests=requests, elements=access.elements, masked=access.elements - access.active)


def sectors(addresses: np.ndarray, on: np.ndarray) -> int:
    """Sectors touched by accesses of warps: ``addresses`` in bytes and ``on``, both of shape (…, lanes, elements)."""
    numbers = np.where(on, addresses // SECTOR, -1).reshape(*on.shape[:-2], -1)
    numbers.sort(-1)
    new = np.diff(numbers, axis=-1, prepend=-1) > 0
    return int((new & (numbers >= 0)).sum())
