"""Program order between the threads of a program: where one thread may read or write what another has written or read
before, a barrier goes in between, as if the program were one thread."""

from __future__ import annotations

from typing import NamedTuple

from ..ir import LOOPS, Block, Kernel, Op, Value
from ..ir import walk as ops_of
from ..layout import Layout
from ..ops import OPS
from .axisinfo import HINTS, Info


class Access(NamedTuple):
    """One access: through which pointer argument (None: unknown), and at which place: who accesses which element."""

    store: bool
    root: Value | str | None
    place: tuple
    ptr: Value | None = None
    strides: tuple[tuple[int, int], ...] | None = None  # of a tile at (layout, way, offset): with the extents, falling

    def disturbs(self, other: Access) -> bool:
        """True if the two must not swap. Different arguments are taken to be different memory, or the same elements at
        the same places, as in a kernel that works in place."""
        same_memory = self.root is None or other.root is None or self.root is other.root
        if not (self.store or other.store) or not same_memory or self.place == other.place:
            return False
        if self.strides is None or other.strides is None or self.place[1] != other.place[1]:
            return True
        return _meet(other.place[2] - self.place[2], self.strides)


def _meet(far: int, strides: tuple[tuple[int, int], ...]) -> bool:
    """True if two elements of a tile can be ``far`` apart."""
    if not strides:
        return far == 0
    (stride, n), *shorter = strides
    rest = sum(s * (m - 1) for s, m in shorter)
    ways = range(max(1 - n, -((rest - far) // stride)), min(n - 1, (far + rest) // stride) + 1)
    return any(_meet(far - k * stride, tuple(shorter)) for k in ways)


def _endless(v: Value) -> bool:
    """True for what may grow and never wraps around: pointers, and integers that are as good as those."""
    return v.type.pointer or v.type.dtype.is_int and v.type.dtype.bits >= 32


class Rounds:
    """How values change from round to round of a loop."""

    def __init__(self, loop: Op, facts: dict[Value, Info]):
        self.facts = facts
        self.made = {v: op for op in ops_of(loop.blocks[0]) for v in op.results}
        self.paces: dict[Value, int | None] = dict.fromkeys(loop.blocks[0].params)
        for op in ops_of(loop.blocks[0]):
            self.paces |= dict.fromkeys(p for b in op.blocks for p in b.params)
        step = facts[loop.head[2]] if loop.head else Info(low=1, high=1)
        if loop.head:
            self.paces[loop.blocks[0].params[0]] = int(step.low) if step.low == step.high else 1
        for _, param, end, _ in loop.carried if step.low == step.high else ():
            by = self.made.get(end)
            if by and by.name in ("add", "addptr") and param is by.operands[0] and _endless(param):
                much = facts[by.operands[1]]
                self.paces[param] = int(much.low) if much.low == much.high else None

    def pace(self, v: Value) -> int | None:
        """By how much a value grows in a round, or, if the loop's step is not known, with the loop's index; None if it
        changes otherwise."""
        if v not in self.paces:
            self.paces[v] = self._pace(self.made[v]) if v in self.made else 0
        return self.paces[v]

    def _pace(self, op: Op) -> int | None:
        xs = [self.pace(v) for v in op.operands]
        if None in xs or op.blocks or OPS[op.name].memory:
            return None
        if not any(xs):
            return 0
        if not _endless(v := op.result) and not all(self.facts[x].within(v.type.dtype) for x in (v, *op.operands)):
            return None
        if op.name in ("add", "addptr", "sub", "neg"):
            signs = (1, -1) if op.name == "sub" else (-1,) if op.name == "neg" else (1, 1)
            return sum(s * x for s, x in zip(signs, xs, strict=True))  # type: ignore[operator]
        if op.name == "mul":
            for x, v in zip(xs, reversed(op.operands), strict=True):
                if self.facts[v].low == self.facts[v].high:
                    return x * int(self.facts[v].low)  # type: ignore[operator]
        return xs[0] if op.name in ("broadcast", "expand", "cast", *HINTS) else None

    def apart(self, ptr: Value) -> bool:
        """True if what ``ptr`` points at in one round is pointed at by the same thread, or nobody, in another: it stays
        where it is, or moves on by more than its tile is long."""
        pace, steps = self.pace(ptr), self.facts[ptr].steps
        if not pace or None in steps:
            return pace == 0
        return abs(pace) > sum(abs(s) * (n - 1) for s, n in zip(steps, ptr.type.shape, strict=True))  # type: ignore[arg-type]

    def again(self, a: Access) -> Access:
        """An access as the next round sees it."""
        if not a.ptr or self.pace(a.ptr) == 0:
            return a
        return a._replace(strides=None) if self.apart(a.ptr) else a._replace(strides=None, place=(object(),))


def fences(kernel: Kernel, layouts: dict[Op, Layout], facts: dict[Value, Info]) -> set[Op]:
    """The loads and stores that a barrier must precede. ``layouts`` has the layout of each access to a tile."""
    found: set[Op] = set()
    ops = tuple(kernel.ops())
    made = {v: op for op in ops for v in op.results}
    carried = {param: (start, end) for op in ops for start, param, end, _ in op.carried}

    def split(v: Value) -> tuple[object, int]:
        """What an integer is made of, if not of constants alone, and the constant that is added to that."""
        op, info = made.get(v), facts[v]
        if not info.within(v.type.dtype) or info.low == info.high:
            return (None, int(info.low)) if info.low == info.high else (v, 0)
        if op and op.name == "add":
            (x, m), (y, n) = map(split, op.operands)
            return x if y is None else y if x is None else (op.name, x, y), m + n
        if op and op.name in ("broadcast", "expand", "cast") and facts[op.operands[0]].within(v.type.dtype):
            of, constant = split(op.operands[0])
            return (op.name, of, v.type), constant
        return v, 0

    def trace(ptr: Value) -> tuple[Value | str | None, tuple, int]:
        """The argument, the way from there, and a constant offset that the way leaves out."""
        op = made.get(ptr)
        if op is None and ptr in carried:  # moved on in each round
            start, end = carried[ptr]
            while end in made and made[end].name in ("addptr", *HINTS):
                end = made[end].operands[0]
            return trace(start)[0] if end is ptr else None, (ptr,), 0
        if op is None:
            return (ptr, (), 0) if ptr in kernel.params else (None, (ptr,), 0)
        if op.name == "shared":
            return "shared", (), 0
        if op.name in ("addptr", "broadcast", "expand", *HINTS):
            root, way, offset = trace(op.operands[0])
            more, constant = split(op.operands[1]) if op.name == "addptr" else (None, 0)
            same = more is None and op.result.type.shape == op.operands[0].type.shape
            return root, way if same else (*way, more, op.result.type.shape), offset + constant
        return None, (ptr,), 0

    def access(op: Op) -> tuple[Access, Access]:
        """What ``op`` may not overtake, and what may not overtake it. An atomic that releases waits for everything, and
        everything waits for one that acquires."""
        (root, *way), entry, layout = trace(op.operands[0]), OPS[op.name], layouts.get(op)
        shared = entry.writes and (layout is None or layout.copies)  # one thread writes for several
        moves = op.operands[0] if layout or not shared else None
        steps, shape = facts[op.operands[0]].steps, op.operands[0].type.shape
        strides = None if shared or None in steps else tuple(sorted(zip(map(abs, steps), shape, strict=True))[::-1])
        strides = strides and tuple(s for s in strides if s[0])
        here = Access(entry.writes, root, (op,) if shared else (layout, *way), moves, strides)
        if not (entry.reads and entry.writes):
            return here, here
        how, sem = op.attrs["how"], op.attrs["sem"]
        here = Access(True, root, (how,) if not op.results and how not in ("xchg", "cas") else (object(),))
        known = Access(True, None, (object(),))
        return here if sem in ("relaxed", "acquire") else known, known if op.results and sem[:3] == "acq" else here

    def waits(reduce: Op) -> bool:
        """True if warps tell each other what is left of a whole tile, which they do by a barrier."""
        return not reduce.result.type.shape and any(any(basis) for basis in layouts[reduce].thread[5:])

    written = {trace(op.operands[0])[0] for op in ops if OPS[op.name].writes}
    constant = set() if None in written else set(kernel.params) - written

    def walk(block: Block, before: frozenset[Access]) -> frozenset[Access]:
        for op in block.ops:
            if op.name in LOOPS and "programs" not in op.attrs:  # which may overtake each other
                rounds, inner = Rounds(op, facts), walk(op.blocks[0], before)
                inner = {rounds.again(a) for a in inner}
                before |= walk(op.blocks[0], before | inner)  # a round follows a round, or there is none
            elif op.name == "debug_barrier" or op.name == "reduce" and waits(op):
                before = frozenset()
            elif op.blocks:
                before = frozenset().union(*(walk(b, before) for b in op.blocks))
            elif OPS[op.name].memory:
                here, left = access(op)
                if here.root in constant and not here.store:
                    continue
                if op in found or any(here.disturbs(other) for other in before):
                    found.add(op)
                    before = frozenset()
                before |= {left}
        return before

    walk(kernel.body, frozenset())
    return found
