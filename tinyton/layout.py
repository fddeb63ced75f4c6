"""Which thread and which register hold which element of a tile.

Every size is a power of two, so an element's place is a sum over bits: bit i of the register number moves the
coordinate by ``reg[i]``, bit i of the thread number by ``thread[i]``. A thread bit whose basis is zero holds a copy.
Blocked tiles, slices that reductions leave and broadcasts are all such maps. (The idea: *Linear Layouts*, arXiv
2505.23819.)"""

from __future__ import annotations

from dataclasses import dataclass

Basis = tuple[int, ...]


def log2(n: int) -> int:
    return n.bit_length() - 1


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below ``n``: the tile extent that holds ``n`` elements.

    >>> [next_power_of_2(n) for n in (1, 10, 16, 17)]
    [1, 16, 16, 32]
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"next_power_of_2 takes an int, not {n!r}")
    return 1 << max(0, int(n) - 1).bit_length()


@dataclass(frozen=True)
class Run:
    """Neighbouring bits of one index that walk one dimension with doubling steps: bits ``low .. low+bits-1``, the first
    of which moves coordinate ``dim`` by ``step``."""

    low: int
    bits: int
    dim: int
    step: int


@dataclass(frozen=True)
class Layout:
    """A tile of ``shape`` (powers of two) spread over ``2**len(thread)`` threads with ``2**len(reg)`` elements each.

    >>> rows = blocked((4, 8), threads=8, vector=4)
    >>> rows.registers, rows.threads, rows.at(thread=1, register=2)
    (4, 8, (0, 6))
    """

    shape: tuple[int, ...]
    reg: tuple[Basis, ...]
    thread: tuple[Basis, ...]

    @property
    def registers(self) -> int:
        return 1 << len(self.reg)

    @property
    def threads(self) -> int:
        return 1 << len(self.thread)

    def at(self, thread: int, register: int) -> tuple[int, ...]:
        """The coordinate of the element that this register of this thread holds."""
        used = [
            b for k, bits in ((thread, self.thread), (register, self.reg)) for i, b in enumerate(bits) if k >> i & 1
        ]
        return tuple(sum(b[d] for b in used) for d in range(len(self.shape)))

    def runs(self) -> list[Run]:
        """The register bits as loops, the fastest first."""
        return _runs(self.reg)

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

    def project(self, dims: tuple[int | None, ...]) -> Layout:
        """The layout of a tile whose dimension k is dimension ``dims[k]`` of this one (None: of extent 1), such that
        each thread holds what it needs of it."""
        pick = [tuple(0 if d is None else b[d] for d in dims) for b in self.reg]
        threads = tuple(tuple(0 if d is None else b[d] for d in dims) for b in self.thread)
        return Layout(tuple(1 if d is None else self.shape[d] for d in dims), tuple(b for b in pick if any(b)), threads)

    def without(self, axes: tuple[int, ...]) -> Layout:
        """The layout that is left when ``axes`` are reduced away."""
        return self.project(tuple(d for d in range(len(self.shape)) if d not in axes))

    def register_bits(self, other: Layout, dims: tuple[int | None, ...]) -> list[tuple[int, int]] | None:
        """For a tile laid out as ``other`` that is looked at as ``project`` does: pairs (bit of this register number,
        bit of that one). None if some thread lacks what it needs: then the tile must be moved."""
        seen = self.project(dims)
        if seen.shape != other.shape or seen.thread != other.thread or set(seen.reg) != set(other.reg):
            return None
        place = {b: i for i, b in enumerate(other.reg)}
        pick = [tuple(0 if d is None else b[d] for d in dims) for b in self.reg]
        return [(i, place[b]) for i, b in enumerate(pick) if any(b)]

    def expanded(self, axis: int) -> Layout:
        """The same registers, seen as a tile with a dimension of extent 1 at ``axis``."""

        def widen(t: tuple[int, ...], x: int) -> tuple[int, ...]:
            return t[:axis] + (x,) + t[axis:]

        return Layout(
            widen(self.shape, 1),
            tuple(widen(b, 0) for b in self.reg),
            tuple(widen(b, 0) for b in self.thread),
        )

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
