"""Which thread and which register hold which element of a tile.

Every size is a power of two, so an element's place is a sum over bits: bit i of the register number moves the
coordinate by ``reg[i]``, bit i of the thread number by ``thread[i]``. A thread bit whose basis is zero holds a copy.
Blocked tiles, slices that reductions leave and broadcasts are all such maps. (The idea: *Linear Layouts*, arXiv
2505.23819.)"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

Basis = tuple[int, ...]
# How a reader looks at a tile: for each bit of each of the tile's coordinates, which of the reader's bits it is
# (dimension, bit), or a constant 0 or 1.
Frame = tuple[tuple[tuple[int, int] | int, ...], ...]

remembered = lru_cache(maxsize=1 << 12)  # of layouts and the like, which never change


@cache
def whole(shape: tuple[int, ...]) -> Frame:
    """The frame in which a tile of ``shape`` (powers of two) is looked at as it is."""
    return tuple(tuple((d, i) for i in range(log2(n))) for d, n in enumerate(shape))


def unit(rank: int, dim: int, bit: int) -> Basis:
    return tuple((1 << bit) * (d == dim) for d in range(rank))


def through(frame: Frame, basis: Basis) -> Basis:
    """How a step of the reader moves the coordinates of the tile."""
    return tuple(
        sum(1 << i for i, at in enumerate(bits) if isinstance(at, tuple) and basis[at[0]] >> at[1] & 1)
        for bits in frame
    )


def pinned(frame: Frame) -> list[tuple[Basis, int]]:
    """The bits that are constant, with their values."""
    places = ((d, i, at) for d, bits in enumerate(frame) for i, at in enumerate(bits))
    return [(unit(len(frame), d, i), at) for d, i, at in places if isinstance(at, int)]


def log2(n: int) -> int:
    return n.bit_length() - 1


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below ``n``: the tile extent that holds ``n`` elements.

    >>> import tinyton as tt
    >>> [tt.next_power_of_2(n) for n in (1, 10, 16, 17)]
    [1, 16, 16, 32]
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"next_power_of_2 takes an int, not {n!r}")
    return 1 << max(0, int(n) - 1).bit_length()


class Run(NamedTuple):
    """Neighbouring bits of one index that walk one dimension with doubling steps: bits ``low .. low+bits-1``, the first
    of which moves coordinate ``dim`` by ``step``."""

    low: int
    bits: int
    dim: int
    step: int


@dataclass(frozen=True)
class Layout:
    """A tile of ``shape`` (powers of two) spread over ``2**len(thread)`` threads with ``2**len(reg)`` elements each.

    >>> import tinyton as tt
    >>> rows = tt.layout.blocked((4, 8), threads=8, vector=4)
    >>> rows.registers, rows.threads, rows.at(thread=1, register=2)
    (4, 8, (0, 6))
    """

    shape: tuple[int, ...]
    reg: tuple[Basis, ...]
    thread: tuple[Basis, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.reg, self.thread))

    @property
    def registers(self) -> int:
        return 1 << len(self.reg)

    @property
    def threads(self) -> int:
        return 1 << len(self.thread)

    def at(self, thread: int, register: int) -> tuple[int, ...]:
        """The coordinate of the element that this register of this thread holds."""
        numbers = (thread, self.thread), (register, self.reg)
        used = [b for k, bits in numbers for i, b in enumerate(bits) if k >> i & 1]
        return tuple(sum(b[d] for b in used) for d in range(len(self.shape)))

    @remembered
    def runs(self) -> list[Run]:
        """The register bits as loops, the fastest first."""
        return _runs(self.reg)

    @remembered
    def thread_runs(self) -> list[Run]:
        return _runs(self.thread)

    @property
    def copies(self) -> int:
        """A mask of the thread bits that hold copies of what other threads hold."""
        return sum(1 << i for i, b in enumerate(self.thread) if not any(b))

    def vector(self, dim: int) -> int:
        """How many neighbouring registers hold neighbouring elements along ``dim``."""
        run = next(iter(self.runs()), None)
        return 1 << run.bits if run and run.dim == dim and run.step == 1 else 1

    @remembered
    def project(self, frame: Frame) -> Layout:
        """The layout of a tile that is looked at through ``frame``, such that each thread of a reader in this layout
        holds what it needs of it."""
        if frame == whole(self.shape) and all(map(any, self.reg)):
            return self
        reg = [b for b in (through(frame, b) for b in self.reg) if any(b)] + [b for b, _ in pinned(frame)]
        shape, thread = tuple(1 << len(bits) for bits in frame), tuple(through(frame, b) for b in self.thread)
        return Layout(shape, tuple(reg), thread)

    @remembered
    def restrict(self, frame: Frame, shape: tuple[int, ...]) -> Layout:
        """The layout in which a reader of ``shape`` finds a tile of this layout that it looks at through ``frame``.
        Coordinates of the reader that the tile does not have go to threads that hold copies, or to registers."""

        def back(basis: Basis) -> Basis:
            to = [0] * len(shape)
            for bits, x in zip(frame, basis, strict=True):
                for i, at in enumerate(bits):
                    if isinstance(at, tuple) and x >> i & 1:
                        to[at[0]] |= 1 << at[1]
            return tuple(to)

        reg, thread = [b for b in map(back, self.reg) if any(b)], [back(b) for b in self.thread]
        for basis in (unit(len(shape), d, i) for bits in whole(shape) for d, i in bits):  # type: ignore[misc]
            if basis not in reg and basis not in thread:
                idle = next((i for i, b in enumerate(thread) if not any(b)), None)
                if idle is None:
                    reg.append(basis)
                else:
                    thread[idle] = basis
        return Layout(shape, tuple(reg), tuple(thread))

    def without(self, axes: tuple[int, ...]) -> Layout:
        """The layout that is left when ``axes`` are reduced away."""
        return self.project(tuple(bits for d, bits in enumerate(whole(self.shape)) if d not in axes))

    @remembered
    def register_bits(self, other: Layout, frame: Frame) -> tuple[list[tuple[int, int]], int] | None:
        """For a tile laid out as ``other`` that is looked at as `project` does: pairs (bit of this register number,
        bit of that one), and what is added to that number. None if some thread lacks what it needs: then the tile must
        be moved."""
        seen = self.project(frame)
        if seen.shape != other.shape or seen.thread != other.thread or set(seen.reg) != set(other.reg):
            return None
        place = {b: i for i, b in enumerate(other.reg)}
        pick = [through(frame, b) for b in self.reg]
        return [(i, place[b]) for i, b in enumerate(pick) if any(b)], sum(k << place[b] for b, k in pinned(frame))

    def __str__(self) -> str:
        reg, thread = (" ".join(",".join(map(str, b)) for b in bits) or "-" for bits in (self.reg, self.thread))
        return f"{list(self.shape)} register bits {reg} | thread bits {thread}"


def _runs(bits: tuple[Basis, ...]) -> list[Run]:
    runs: list[Run] = []
    for i, basis in enumerate(bits):
        if not any(basis):
            continue
        dim = next(d for d, x in enumerate(basis) if x)
        last = runs[-1] if runs else None
        if last and last.dim == dim and last.low + last.bits == i and basis[dim] == last.step << last.bits:
            runs[-1] = Run(last.low, last.bits + 1, dim, last.step)
        else:
            runs.append(Run(i, 1, dim, basis[dim]))
    return runs


def blocked(shape: tuple[int, ...], threads: int, vector: int = 1, order: tuple[int, ...] | None = None) -> Layout:
    """``vector`` neighbours along ``order[0]`` in a thread, the threads of a warp next along ``order``, warps from the
    slowest dimension on, and what is left of the tile in more registers. Left-over threads hold copies."""
    order = order or tuple(reversed(range(len(shape))))
    left = [log2(n) for n in shape]
    done = [0] * len(shape)

    def take(count: int, dims: tuple[int, ...]) -> list[Basis]:
        out: list[Basis] = []
        for d in dims:
            while count > len(out) and left[d]:
                out.append(tuple(1 << done[d] if e == d else 0 for e in range(len(shape))))
                done[d] += 1
                left[d] -= 1
        return out

    bits = log2(threads)
    reg = take(log2(vector), order[:1])
    lanes = take(min(5, bits), order)
    warps = take(bits - len(lanes), order[::-1])
    thread = lanes + warps
    thread += [(0,) * len(shape)] * (bits - len(thread))
    return Layout(tuple(shape), tuple(reg + take(sum(left), order)), tuple(thread))


# >>> stage 8
def accumulators(
    shape: tuple[int, ...], threads: int, tall: bool = False, flip: bool = False, pairs: bool = False
) -> Layout:
    """The tile that tensor cores sum, 16 rows by 8 columns at a time, of which a thread has two neighbours in each of
    two rows (PTX ISA, *Matrix Fragments for mma.m16n8k16*). The warps share the longer side, so that each reads little;
    of ``tall`` ones, four have 64 rows together first (*wgmma*). With ``flip``, columns are what tensor cores take for
    rows. Those may be any; with ``pairs``, the two of a thread are neighbours, and a warp's threads read such pairs of
    a column (of 32 bits) from all banks."""
    rank, (m, n) = len(shape), map(log2, shape[:-3:-1] if flip else shape[-2:])
    row, column = (rank - 1, rank - 2) if flip else (rank - 2, rank - 1)
    below, *beside = (0, 1, 4, 2) if pairs else (3, 0, 1, 2)
    reg = [unit(rank, column, 0), unit(rank, row, below)]
    thread = [unit(rank, *at) for at in ((column, 1), (column, 2), *((row, i) for i in beside))]
    rows, columns = [unit(rank, row, i) for i in range(m)], [unit(rank, column, i) for i in range(3, n)]
    rows = [b for b in rows if b not in (*reg, *thread)]
    batch = [unit(rank, d, i) for d in range(rank - 2) for i in range(log2(shape[d]))]
    for k in range(log2(threads) - 5):
        longer = len(rows) >= len(columns) or len(columns) < 2 or (tall and k < 2)
        if rows and (longer or tall):
            thread.append(rows.pop(0))
        elif len(columns) > 1:
            thread.append(columns.pop())
        else:
            thread.append(batch.pop() if batch else (0,) * rank)
    return Layout(shape, (*reg, *columns, *rows, *batch), tuple(thread))


def outer(shape: tuple[int, ...], threads: int) -> Layout:
    """The tile that threads add up each for itself: four neighbours in some rows and columns. A warp has 4 rows by 32
    columns of those, so that it reads little of what it multiplies; warps share the longer side."""
    rank, (m, n) = len(shape), map(log2, shape[-2:])
    row, column = rank - 2, rank - 1
    reg, thread = [unit(rank, column, 0), unit(rank, column, 1)], []
    rows, columns = ([unit(rank, d, i) for i in range(a, b)] for d, a, b in ((row, 0, m), (column, 2, n)))
    batch = [unit(rank, d, i) for d in range(row) for i in range(log2(shape[d]))]
    for k in range(log2(threads)):
        wide = k < 3 or k >= 5 and len(columns) + 2 > len(rows)
        first, second = (columns, rows) if wide else (rows, columns)
        thread.append((first or second or batch or [(0,) * rank]).pop(0))
    return Layout(shape, (*reg, *columns, *rows, *batch), tuple(thread))


def gathered(sums: Layout, dim: int, width: int, line: int) -> Layout | None:
    """The tile with each warp's elements where they are in ``sums``: ``width`` neighbours along ``dim`` in a thread,
    and ``line`` in neighbouring threads. None if a warp has not so many."""
    free = [b for b in (*sums.reg, *sums.thread[:5]) if any(b)]
    first = [unit(len(sums.shape), dim, i) for i in range(log2(min(line, sums.shape[dim])))]
    others = sorted((b for b in free if b not in first), key=lambda b: (b[dim], b))
    lanes = (*first[log2(width) :], *others)[:5]
    if not all(b in free for b in first) or len(lanes) < 5 or len(sums.thread) < 5:
        return None
    reg = (*first[: log2(width)], *(b for b in (*first[log2(width) :], *others) if b not in lanes))
    return Layout(sums.shape, reg, (*lanes, *sums.thread[5:]))


def left_operand(shape: tuple[int, int], sums: Layout) -> Layout:
    """The layout in which the warps that have ``sums`` each have their rows of the left matrix, of 16-bit elements."""
    rows = [b for b in sums.reg[2:] if b[0]]
    reg = [unit(2, 1, 0), unit(2, 0, 3), *(unit(2, 1, i) for i in range(3, log2(shape[1]))), *rows]
    return Layout(shape, tuple(reg), (*sums.thread[:5], *((row, 0) for row, _ in sums.thread[5:])))


# <<<
