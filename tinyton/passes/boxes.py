"""Loads that are boxes of arrays: the rows and columns of a tile run along two dimensions of an array, and where the
box begins follows from scalars. Such a tile can be copied by one thread, which gives coordinates alone; what is to be
known of the array besides is known at a launch (PTX ISA, *Tensors*).

Integers are read as sums: of products of *atoms*, each with a number. An atom is a scalar (a parameter, the number of a
program, of a round) or, as an int, a dimension of the tile: the place along it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from itertools import product as corners
from math import isfinite, prod
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ..dtypes import bool_
from ..ir import Kernel, Op, Value, walk
from .axisinfo import HINTS, INF, VIEWS, Info, dimensions, ordered, power

Product = tuple[Value | int, ...]
Sum = dict[Product, int]
LENGTH = 12  # terms of a sum, at most
FAR = 1 << 10  # elements: what moves a box by more at once gets a dimension of its own, as places have but 31 bits
ENDLESS = 1 << 31  # the extent of a dimension without a limit
DIMENSIONS = 5  # of an array, at most
ROWS = 256  # of one box, at most
HERE = Info((), 1, 0, 0)  # a tile's own place


class Map(NamedTuple):
    """An array as a launch describes it for its copies, by the places of arguments: ``base`` is a pointer; extents and
    strides, from the fastest dimension on, are sums of products of integer arguments, in elements. ``box`` is what one
    copy takes, ``item`` the bytes of an element. ``stored`` are pointers that must not be the same one, and ``least``
    sums that must not be less than 0, for boxes would begin before the array."""

    name: str
    base: int
    offset: tuple[tuple[int, tuple[int, ...]], ...]
    extents: tuple[tuple[tuple[int, tuple[int, ...]], ...] | None, ...]
    strides: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    box: tuple[int, ...]
    item: int
    stored: tuple[int, ...] = ()
    least: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...] = ()
    rounds: bool = False  # what is copied, to tf32

    @property
    def swizzle(self) -> int:
        """The bytes of a row, whose parts of 16 are in another order in each row."""
        return self.box[0] * self.item

    def values(self, args: Sequence[object]) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
        """Address, extents and strides in bytes for the arguments of a launch; None if there is no such map."""

        def total(terms: tuple[tuple[int, tuple[int, ...]], ...]) -> int:
            return sum(k * prod(int(args[n]) for n in at) for k, at in terms)  # type: ignore[call-overload]

        address = int(args[self.base]) + total(self.offset) * self.item  # type: ignore[call-overload]
        extents = tuple(ENDLESS if terms is None else total(terms) for terms in self.extents)
        strides = tuple(total(terms) * self.item for terms in self.strides)
        least = min(map(total, self.least), default=0)
        if address % 16 or least < 0 or any(args[n] == args[self.base] for n in self.stored):
            return None
        if not all(1 <= n <= ENDLESS for n in extents) or not all(0 <= s < 1 << 40 and s % 16 == 0 for s in strides):
            return None
        return address, extents, strides


@dataclass(frozen=True, eq=False)
class Box:
    """A load as a box: ``fast`` is the dimension of the tile along which neighbours lie side by side. By dimension of
    the array, from the fastest on: ``extents`` (None: no limit), ``strides`` from the second on, and ``first``, where
    the box begins; that is not before the array if no sum of ``least`` is less than 0."""

    base: Value
    offset: Sum
    extents: tuple[Sum | None, ...]
    strides: tuple[Sum, ...]
    first: tuple[Sum, ...]
    fast: int
    least: tuple[Sum, ...]


class Unfit(Exception):
    """A load is no box."""


_seen: WeakKeyDictionary[Value, int] = WeakKeyDictionary()  # values by when they were first looked at
_numbers = count()


def plus(x: Sum, y: Sum, factor: int = 1) -> Sum:
    out = dict(x)
    for product, n in y.items():
        out[product] = out.get(product, 0) + factor * n
    return {product: n for product, n in out.items() if n}


def times(x: Sum, y: Sum) -> Sum:
    out: Sum = {}
    for a, m in x.items():
        for b, n in y.items():
            out = plus(out, {tuple(sorted((*a, *b), key=_order)): m * n})
    return out


def _order(atom: Value | int) -> tuple[int, int]:
    """The same in every process, so that a kernel's text is."""
    return (0, atom) if isinstance(atom, int) else (1, _seen.setdefault(atom, next(_numbers)))


def without(product: Product, atoms: Product) -> Product | None:
    """A product divided by others, if it is divisible."""
    left = list(product)
    for atom in atoms:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


class Boxes:
    """Finds the boxes of a kernel. ``divisors`` says what divides its arguments (of a pointer: in elements); ``needs``
    becomes those for which that matters."""

    def __init__(self, kernel: Kernel, facts: Mapping[Value, Info], divisors: Mapping[str, int]):
        self.params, self.facts, self.divisors = set(kernel.params), facts, divisors
        self.made = {v: op for op in kernel.ops() for v in op.results}
        self.round: dict[Value, tuple[Op, Value, Value]] = {}  # what a loop carries: the loop, its first and next value
        self.ends: dict[Value, tuple[Value, int]] = {}  # of counters: one end, and by how much the least is more
        for op in (op for op in kernel.ops() if op.name == "for"):
            if "stops" not in op.attrs:
                self.round |= {param: (op, start, end) for start, param, end, _ in op.carried}
            low, stop, step = op.head
            if facts[step].low > 0 or facts[step].high < 0:
                self.ends[op.blocks[0].params[0]] = (low, 0) if facts[step].low > 0 else (stop, 1)
        self.needs: set[str] = set()
        self.sums: dict[Value, Sum] = {}
        self.places: dict[Value, tuple[Value, Sum]] = {}

    # -- values as sums --------------------------------------------------------------------------------------------

    def sum(self, v: Value) -> Sum:
        if v not in self.sums:
            try:
                self.sums[v] = self._sum(v)
            except Unfit:
                if v.type.shape:
                    raise
                self.sums[v] = {(v,): 1}
        return self.sums[v]

    def _sum(self, v: Value) -> Sum:
        if v.type.pointer or not v.type.dtype.is_int or v.type.dtype is bool_:
            raise Unfit
        if v in self.round:
            return self._carried(v, self.sums, {(v,): 1}, self.sum)
        if v not in self.made:
            raise Unfit
        op = self.made[v]
        if op.name == "const":
            return plus({}, {(): int(op.attrs["value"])})  # type: ignore[call-overload]
        if not (self.facts[v].within(v.type.dtype) or v.type.dtype.kind == "i" and v.type.dtype.bits >= 32):
            raise Unfit  # it may well wrap around
        if op.name == "arange":
            return plus({(0,): 1} if v.type.shape != (1,) else {}, {(): int(op.attrs["start"])})  # type: ignore[call-overload]
        if op.name in HINTS or op.name == "cast" and (of := op.operands[0].type.dtype).is_int and of is not bool_:
            return self.sum(op.operands[0])
        if op.name in ("add", "sub"):
            return self.short(plus(self.sum(op.operands[0]), self.sum(op.operands[1]), -1 if op.name == "sub" else 1))
        if op.name == "mul":
            return self.short(times(self.sum(op.operands[0]), self.sum(op.operands[1])))
        if op.name == "neg":
            return plus({}, self.sum(op.operands[0]), -1)
        return seen(op, self.sum(op.operands[0])) if op.name in VIEWS else self.unfit()

    def unfit(self) -> Sum:
        raise Unfit

    def short(self, x: Sum) -> Sum:
        return x if len(x) <= LENGTH else self.unfit()

    def place(self, v: Value) -> tuple[Value, Sum]:
        """The pointer argument to which a pointer is relative, and how far it is from that, in elements."""
        if v not in self.places:
            self.places[v] = self._place(v)
        return self.places[v]

    def _place(self, v: Value) -> tuple[Value, Sum]:
        if v in self.params:
            return v, {}
        if v in self.round:
            start, more = self.place(self.round[v][1])
            return start, plus(more, self._carried(v, self.places, (v, {}), self.place))
        op = self.made.get(v)
        if op is None or not op.operands or not op.operands[0].type.pointer:
            raise Unfit
        base, far = self.place(op.operands[0])
        if op.name == "addptr":
            return base, self.short(plus(far, self.sum(op.operands[1])))
        if op.name in HINTS:
            return base, far
        return (base, seen(op, far)) if op.name in VIEWS else (base, self.unfit())

    def _carried(self, v: Value, memo: dict, itself: object, read) -> Sum:
        """What a loop carries, if it grows by the same in each round, which its counter counts from 0 on. Of a pointer,
        only by how much it has grown."""
        loop, start, end = self.round[v]
        (body,), (low, _, step) = loop.blocks, loop.head
        before, inside = dict(memo), {x for op in walk(body) for x in op.results}.union(body.params)
        memo[v] = itself
        try:
            more = read(end)
        finally:
            memo.clear()
            memo.update(before)
        if v.type.pointer:
            base, more = more
            if base is not v:
                raise Unfit
        else:
            more = plus(more, {(v,): 1}, -1)
        if not inside.isdisjoint(atom for product in more for atom in product):
            raise Unfit
        low_at, by = self.sum(low), self.sum(step)
        if low_at or set(by) != {()} or any(n % by[()] for n in more.values()):
            raise Unfit
        grown = times({p: n // by[()] for p, n in more.items()}, {(body.params[0],): 1})
        return grown if v.type.pointer else plus(self.sum(start), grown)

    def limits(self, v: Value) -> list[Sum]:
        """Sums that are less than 0 where a mask is on, and only there."""
        op = self.made.get(v)
        if op and op.name == "and":
            return self.limits(op.operands[0]) + self.limits(op.operands[1])
        if op and op.name in VIEWS:
            return [seen(op, x) for x in self.limits(op.operands[0])]
        if not op or not ordered(op) or not ordered(op)[0].type.dtype.is_int:
            raise Unfit
        small, large = (self.sum(x) for x in ordered(op))
        return [plus(plus(small, large, -1), {(): int(op.name in ("le", "ge"))}, -1)]

    # -- boxes -----------------------------------------------------------------------------------------------------

    def aligned(self, terms: Sum, item: int) -> bool:
        """True if that many elements are a multiple of 16 bytes."""
        found = True
        for product, n in terms.items():
            names = [v.name for v in product if isinstance(v, Value)]
            self.needs.update(names if n * item % 16 else ())
            found &= power(n) * prod(self.divisors.get(name, 1) for name in names) * item % 16 == 0
        return found

    def box(self, load: Op) -> Box | None:
        try:
            return self._box(load)
        except Unfit:
            return None

    def _box(self, load: Op) -> Box:
        t, (ptr, *masked) = load.result.type, load.operands
        base, far = self.place(ptr)
        if len(t.shape) != 2 or self.divisors.get(base.name, 1) * t.dtype.itemsize < 16:
            raise Unfit
        if len(masked) > 1 and self.sum_or_zero(masked[1]):
            raise Unfit
        strides = [self._stride(far, d) for d in range(2)]
        fast = next((d for d in (1, 0) if strides[d] == (1, ())), None)
        if fast is None:
            raise Unfit
        slow, (step, along), one = 1 - fast, strides[1 - fast], far.get((), 0)
        first: list[Sum] = [{}, {}]
        upper, lower = self._masks(self.limits(masked[0]) if masked else [])
        extents: list[Sum | None] = [None, None]
        for d in range(2):
            # what is added to the place along d, as far as the address tells
            row = far.get(along, 0) // step if d == slow else one if along else one - one // step * step
            if d in lower:
                first[d] = lower[d]
            elif d in upper:
                first[d] = plus({p: n for p, n in upper[d].items() if not self.params.issuperset(p)}, {(): row})
            else:
                first[d] = {(d,): 1}
            if d in upper:
                extents[d] = plus(first[d], upper[d], -1)
                if not all(map(self.params.issuperset, extents[d])):  # type: ignore[arg-type]
                    raise Unfit
        rest = far
        for d, (n, product) in enumerate(strides):
            rest = plus(rest, times(first[d], {product: n}), -1)
        offset, outer = {}, {}
        for product, n in rest.items():
            if any(isinstance(atom, int) for atom in product):
                raise Unfit
            inner = without(product, along)
            device = tuple(x for x in product if x not in self.params)
            if {slow}.isdisjoint((*upper, *lower)) and inner is not None and n % step == 0 and (device or not inner):
                first[slow] = plus(first[slow], {inner: n // step})
            elif fast not in upper and fast not in lower and device == product and abs(n) < FAR:
                first[fast] = plus(first[fast], {product: n})
            elif not device:
                offset[product] = n
            else:
                key = n, without(product, device)
                outer[key] = plus(outer.get(key, {}), {device: 1})
        sums: list[Sum] = [{along: step}, *({p: n} for n, p in outer)]  # type: ignore[dict-item]
        whole = all([self.aligned(x, t.dtype.itemsize) for x in (offset, *sums)])
        begins: list[Sum] = [first[fast], first[slow], *outer.values()]
        free = [x for d, x in zip((fast, slow, *outer), begins, strict=True) if d not in lower]
        for x in free:
            falls = [p for p, n in x.items() if p and n < 0]  # what moves the array may be what outweighs those
            if not self.positive(x) or falls and (offset or len(falls) == len(x)):
                raise Unfit
        if not whole or len(begins) > DIMENSIONS or any(n < 0 for x in sums for n in x.values()):
            raise Unfit
        places = tuple({p: n for p, n in x.items() if not any(isinstance(a, int) for a in p)} for x in begins)
        limits = (extents[fast], extents[slow], *[None] * len(outer))
        return Box(base, offset, limits, tuple(sums), places, fast, tuple(y for x in free for y in self.least(x)))

    def sum_or_zero(self, v: Value) -> bool:
        """True for what is not 0 everywhere."""
        while v in self.made and self.made[v].name in VIEWS:
            v = self.made[v].operands[0]
        op = self.made.get(v)
        return op is None or op.name != "const" or op.attrs["value"] != 0

    def _stride(self, far: Sum, d: int) -> tuple[int, Product]:
        """By how many elements an address grows along a dimension: a number times arguments."""
        found = [(n, without(product, (d,))) for product, n in far.items() if d in product]
        if len(found) != 1 or found[0][0] < 1 or not self.params.issuperset(found[0][1]):  # type: ignore[arg-type]
            raise Unfit
        return found[0]  # type: ignore[return-value]

    def _masks(self, limits: list[Sum]) -> tuple[dict[int, Sum], dict[int, Sum]]:
        """By dimension, of masks: what is less than 0; and, where that is told too, what is not."""
        upper: dict[int, Sum] = {}
        lower: dict[int, Sum] = {}
        for x in limits:
            dims = {atom for product in x for atom in product if isinstance(atom, int)}
            if len(dims) != 1 or abs(x.get((d := dims.pop(),), 0)) != 1:
                raise Unfit
            side, value = (upper, x) if x[d,] > 0 else (lower, plus({(): -1}, x, -1))
            if side.setdefault(d, value) != value:
                raise Unfit
        return upper, lower

    def positive(self, x: Sum) -> bool:
        """True unless it shows that a place may be less than 0, where a copy would give zeros: what comes from
        parameters, and could be anything, does not."""
        low = 0.0
        for product, n in x.items():
            ends = [(0 if a in self.params else f.low, f.high) for a in product if (f := self.facts.get(a, HERE))]
            low += min(n * prod(corner) for corner in corners(*ends)) if all(map(isfinite, chain(*ends))) else -INF
        return not -(1 << 30) < low < 0

    def least(self, x: Sum) -> list[Sum]:
        """What of arguments must not be less than 0, for else a place may be: factors, and the least of counters."""
        found: list[Sum] = [{own: 1} for p in x if (own := tuple(a for a in p if a in self.params))]
        total: Sum = {(): x.get((), 0)}
        for p in (p for p, n in x.items() if len(p) == 1 and n > 0 and p[0] in self.ends):
            end, more = self.ends[p[0]]
            known = {q: m for q, m in self.sum(end).items() if self.params.issuperset(q)}
            total = plus(total, plus(known, {(): more}), x[p])
        return [*found, total] if any(total) else found


def seen(op: Op, x: Sum) -> Sum:
    """A sum through a view: its dimensions are counted in another way."""
    new = dimensions(op)
    return {tuple(sorted((new[a] if isinstance(a, int) else a for a in p), key=_order)): n for p, n in x.items()}


def terms(x: Sum, places: Mapping[Value, int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """A sum of what is known at a launch, by the places of arguments."""
    return tuple((n, tuple(places[a] for a in p)) for p, n in x.items())  # type: ignore[index]


def described(box: Box, name: str, places: Mapping[Value, int], rows: int, item: int, width: int) -> Map:
    """The map of a box that comes in pieces of ``width`` elements."""
    limits = tuple(None if x is None else terms(x, places) for x in box.extents)
    sizes = (width, min(rows, ROWS), *[1] * (len(limits) - 2))
    strides, least = (tuple(terms(x, places) for x in sums) for sums in (box.strides, box.least))
    return Map(name, places[box.base], terms(box.offset, places), limits, strides, sizes, item, least=least)
