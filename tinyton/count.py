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

from .ir import Op
from .ops import OPS
from .replay import Access, replay

SECTOR = 32
SAMPLE = 1024
BANKS, WORD = 32, 4  # of shared memory: so many columns of so many bytes, each of which serves one row at a time
NO_WORK = (
    "where",
    "cast",
    "bitcast",
    "neg",
    "abs",
    "copysign",
    "multiple_of",
    "max_contiguous",
    "max_constancy",
)  # elementwise, but no arithmetic


@dataclass(frozen=True)
class Count:
    """What a launch (or, added up, several) moves between its arrays and its threads.

    ``bytes_loaded``, ``bytes_stored``: of the elements that are on. ``sectors_loaded``, ``sectors_stored``: sectors of
    32 bytes, summed over the accesses of all warps. ``requests``: accesses of whole warps, of 1 to 16 bytes a lane.
    ``elements``, ``masked``: elements of all tiles that are loaded or stored, padding included, and how many of them
    are off. ``flops``: arithmetic on floats of whole tiles, elements that are off included; a multiply-add is two.
    ``shared_requests``: accesses of whole warps to shared memory, by ``shared_store`` and ``shared_load`` and where a
    tile changes its layout (what reductions and products do there is not counted); ``bank_conflicts``: how many passes
    these take more than if no lanes met in a bank. ``threads`` a program, as a GPU would run it. ``ran``: the programs
    that were run; the numbers are exact if that is all of them, else estimated from these.
    """

    bytes_loaded: int = 0
    bytes_stored: int = 0
    sectors_loaded: int = 0
    sectors_stored: int = 0
    requests: int = 0
    elements: int = 0
    masked: int = 0
    flops: int = 0
    shared_requests: int = 0
    bank_conflicts: int = 0
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
    def intensity(self) -> float:
        """Operations for each byte that is moved, in whole sectors: where the kernel stands under the roofs."""
        return self.flops / (SECTOR * self.sectors) if self.sectors else 0.0

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
        if self.shared_requests:
            shared = f"{self.shared_requests:,} warp accesses to shared memory, {self.bank_conflicts:,} bank conflicts"
            words.insert(3, shared)
        return "\n".join(words + [f"estimated from {self.ran:,} programs"] * (not self.exact))


def count(kernel: Any, grid: Any, *args: object, exact: bool | None = None, sample: int = SAMPLE, **meta: Any) -> Count:
    """What ``kernel[grid](*args, **meta)`` would move on a GPU; nothing is launched, no argument is changed.

    The programs run in the interpreter. ``exact=None`` runs all of up to ``sample`` programs and of more a sample of
    that many: the last one and, spread evenly, others, which stand for the rest; True runs all. Threads and vector
    widths are the plan's for a GPU, whatever executor is in use; ``num_warps=`` and ``num_threads=`` change them.
    Programs that share a warp run, and access memory, together. An array starts at a sector's first byte, as allocators
    see to.

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
        row, most = -(-cells[0] // several), max(sample // several, 2)
        total = row * cells[1] * cells[2]
        chosen: Iterable[int] = range(total)
        if not exact and total > (1 if exact is False else most):
            last = ((row - 1) * several, cells[1] - 1, cells[2] - 1)
            chosen = sorted({round(k) for k in np.linspace(0, total - 2, min(most, total) - 1)} | {total - 1})
            scale = (total - 1) / (len(chosen) - 1)
        firsts = [(k % row * several, k // row % cells[1], k // row // cells[1]) for k in chosen]
        ran = sum(min(several, cells[0] - x) for x, _, _ in firsts)
        return firsts

    def see(access: Access) -> None:
        seen[access.program == last] += _of(access)

    def add(program: tuple[int, int, int], op: Op) -> None:
        if (done := _flops(op)) and program != last:
            seen[False] += Count(flops=done)
        elif done:
            seen[True] += Count(flops=done)

    low, cells = replay(kernel, grid, args, meta, see, choose, add)
    total = prod(cells)
    numbers = {n: round(scale * v) + getattr(seen[True], n) for n, v in vars(seen[False]).items()}
    return replace(Count(**numbers), programs=total, launches=int(total > 0), threads=low.threads, ran=ran)


def _of(access: Access) -> Count:
    """What one access moves."""
    how = "loaded" if access.verb == "load" else "stored"
    size, moved, requests = access.dtype.itemsize, 0, 0
    if access.shared:
        met = [bank_passes(places * size, on, size) for places, on in access.warps()]
        return Count(shared_requests=sum(r for r, _ in met), bank_conflicts=sum(passes for _, passes in met))
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


def bank_passes(addresses: np.ndarray, on: np.ndarray, size: int) -> tuple[int, int]:
    """Accesses of warps to shared memory, and how many passes they take beyond the least because lanes want different
    words of one bank. ``addresses`` in bytes and ``on`` are of shape (…, lanes, 1); of 8 bytes, half a warp goes at
    once."""
    lanes = min(on.shape[-2], BANKS * WORD // max(size, WORD))
    words = np.where(on, addresses // WORD, -1).reshape(-1, lanes)
    words.sort(-1)
    new = (np.diff(words, axis=-1, prepend=-1) > 0) & (words >= 0)
    rows = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    met = np.zeros((len(words), BANKS), int)
    np.add.at(met, (rows[new], words[new] % BANKS), 1)
    passes = met.max(-1)
    return int(on.any((-2, -1)).sum()), int((passes - 1)[passes > 0].sum())


def _flops(op: Op) -> int:
    """Operations on floats that an op does."""
    types = [v.type for v in op.results]
    if not types or not types[0].dtype.is_float or types[0].pointer:
        return 0
    if op.name == "matmul":
        return 2 * prod(types[0].shape) * op.operands[0].type.shape[-1]
    if op.name in ("reduce", "scan"):
        return prod(op.operands[0].type.shape)
    if OPS[op.name].kind not in ("elementwise", "typed") or op.name in NO_WORK:
        return 0
    return prod(types[0].shape) * (2 if op.name == "fma" else 1)
