"""How integers and addresses run along the dimensions of a tile, what divides them, and how large they can be.

From this follow vector accesses (neighbours in the tile are neighbours in memory, and the first is aligned), the
order in which a layout walks a tile, and where 32 bits are enough."""

from __future__ import annotations

from typing import NamedTuple

from ..dtypes import DType, bool_, int64
from ..ir import LOOPS, Block, Kernel, Op, Value
from ..layout import remembered
from ..ops import OPS

VIEWS = ("expand", "broadcast", "permute")  # that keep dimensions whole
HINTS = ("multiple_of", "max_contiguous", "max_constancy", "within")
SIGNED = ("minimum", "maximum", "abs", "floordiv", "mod", "shl", "shr", "and", "or", "xor", "invert")
INF = float("inf")
BIG = 1 << 20  # "divisible by anything that matters"


def power(n: int) -> int:
    """The greatest power of two that divides ``n``."""
    return min(BIG, n & -n) if n else BIG


class Info(NamedTuple):
    """``steps[d]``: by how much the value grows with coordinate d (None: irregularly). ``divisor``: a power of two
    that divides what is left of the value without its regular steps. ``low``/``high``: bounds, as if computed without
    end."""

    steps: tuple[int | None, ...] = ()
    divisor: int = 1
    low: float = -INF
    high: float = INF
    heads: tuple[int, ...] = ()  # along each dimension, a power of two that divides the first element of a run

    def within(self, dtype: DType) -> bool:
        """True if the bounds show that every element fits ``dtype``; int64 is taken as endless."""
        return dtype is int64 or (dtype.is_int and dtype.range[0] <= self.low and self.high <= dtype.range[1])

    @property
    def uniform(self) -> bool:
        return all(s == 0 for s in self.steps)

    @property
    def total(self) -> int:
        """A power of two that divides every element."""
        return self.alignment(0, 1)

    def alignment(self, dim: int, width: int) -> int:
        """A power of two that divides the value wherever coordinate ``dim`` is a multiple of ``width``."""
        steps = (s * (width if d == dim else 1) for d, s in enumerate(self.steps) if s is not None)
        return min([self.divisor, *map(power, steps)])


replace = Info._replace


def meet(a: Info, b: Info) -> Info:
    steps = tuple(x if x == y else None for x, y in zip(a.steps, b.steps, strict=True))
    return Info(steps, _divisor(steps, a, b), min(a.low, b.low), max(a.high, b.high))


def _divisor(steps: tuple[int | None, ...], *xs: Info) -> int:
    """What divides the rest of a result with these steps: of ``xs``, their rests, and steps that it has not."""
    lost = (power(s) for x in xs for s, new in zip(x.steps, steps, strict=True) if new is None and s is not None)
    return min([*(x.divisor for x in xs), *lost])


def dimensions(op: Op) -> list[int | None]:
    """For each dimension of what one of the `VIEWS` looks at: which one of the result it is; None for extents of 1."""
    frame = OPS[op.name].emit(op, tuple((d,) for d in range(len(op.result.type.shape))))  # type: ignore[misc]
    return [f[0] if n > 1 else None for f, n in zip(frame, op.operands[0].type.shape, strict=True)]


def analyse(kernel: Kernel, divisors: dict[str, int]) -> dict[Value, Info]:
    """Facts about every value; ``divisors`` says what divides the arguments (of a pointer: in elements)."""
    facts: dict[Value, Info] = {}
    for v in kernel.params:
        low, high = (-INF, INF) if v.type.pointer or v.type.dtype.is_float else v.type.dtype.range
        # >>> stage 6
        low = max(low, 0) if ".shape" in v.name else low  # the extent of an array
        # <<<
        facts[v] = Info((), divisors.get(v.name, 1), low, high)
    _block(kernel.body, facts)
    return facts


def extend(kernel: Kernel, facts: dict[Value, Info]) -> None:
    """Adds the facts about values that a pass has put between the others."""
    for op in kernel.ops():
        for v in op.results:
            if v not in facts:
                facts[v] = _result(op, v, tuple(map(facts.__getitem__, op.operands)))


def _block(block: Block, facts: dict[Value, Info]) -> None:
    for op in block.ops:
        if op.name in LOOPS:
            _loop(op, facts)
            continue
        for inner in op.blocks:
            facts |= dict.fromkeys(inner.params, Info())
            _block(inner, facts)
        xs = tuple(map(facts.__getitem__, op.operands))
        for k, v in enumerate(op.results):
            ends = [facts[b.yields[k]] for b in op.blocks] if op.name == "if" else []
            facts[v] = meet(*ends) if ends else _result(op, v, xs)


def _loop(op: Op, facts: dict[Value, Info]) -> None:
    (body,) = op.blocks
    if op.head:
        facts[body.params[0]] = _counter(body.params[0].type.dtype, *(facts[v] for v in op.head))
    start = [_start(param, facts[first]) for first, param, _, _ in op.carried]
    while True:  # the facts only get weaker, so this ends
        for (_, param, _, _), info in zip(op.carried, start, strict=True):
            facts[param] = info
        _block(body, facts)
        after = [meet(a, facts[end]) for a, (_, _, end, _) in zip(start, op.carried, strict=True)]
        after = [  # a bound that moves has no end
            replace(n, low=n.low if n.low == o.low else -INF, high=n.high if n.high == o.high else INF)
            for n, o in zip(after, start, strict=True)
        ]
        if after == start:
            break
        start = after
    for v, info in zip(op.results, start, strict=True):
        facts[v] = info


def _counter(dtype: DType, low: Info, stop: Info, step: Info) -> Info:
    """Facts about what counts from ``low`` on."""
    rises = step.low > 0 and step.within(dtype) and low.within(dtype)
    bounds = (low.low, max(low.low, stop.high - 1)) if rises else (-INF, INF)
    return _held(dtype, min(low.divisor, step.divisor), *bounds)


def _held(dtype: DType, divisor: int, low: float, high: float) -> Info:
    """Facts about an integer as it is, whatever may have wrapped around: ``i + arange(0, 8)`` fits if 8 divides i."""
    high = min(high, dtype.range[1])
    return Info((), divisor, max(low, dtype.range[0]), high - high % divisor)


def _start(param: Value, first: Info) -> Info:
    """Facts about what a loop carries, in its first round; of floats there are none that last."""
    t = param.type
    return first if t.pointer or t.dtype.is_int else Info((None,) * len(t.shape))


@remembered
def _result(op: Op, v: Value, xs: tuple[Info, ...]) -> Info:
    """Facts about a result, which most analyses of a kernel share. Integers that may wrap around run irregularly, but
    what divides them still does; int64 is taken as endless."""
    info, t = _endless(op, v, xs), v.type
    if t.pointer or not t.dtype.is_int or t.dtype is bool_ or info.within(t.dtype):
        return info
    return replace(info, steps=tuple(s and None for s in info.steps), divisor=min(info.total, 1 << t.dtype.bits - 1))


def _endless(op: Op, v: Value, xs: tuple[Info, ...]) -> Info:
    t, entry = v.type, OPS[op.name]
    rank = len(t.shape)
    if entry.kind == "elementwise" and t.dtype.is_float and not t.pointer:
        return Info(_flat(xs, rank))
    if op.name == "const":
        value = op.attrs["value"]
        return Info((), power(int(value)) if t.dtype.is_int else 1, value, value)  # type: ignore[arg-type]
    if op.name == "arange":
        start: int = op.attrs["start"]  # type: ignore[assignment]
        return Info((1,), power(start), start, start + t.shape[0] - 1)
    if op.name in ("program_id", "num_programs", "block", "blocks"):
        return Info((), 1, int(op.name in ("num_programs", "blocks")), (1 << 31) - 1)
    # >>> stage 9
    if op.name == "rank":
        return Info((), 1, 0, op.attrs["blocks"] - 1)  # type: ignore[operator]
    # <<<
    if op.name in HINTS:
        return _promised(op, xs[0])
    if op.name in ("convert", "within"):
        return xs[0]
    # >>> stage 7
    if op.name == "following":
        return _counter(t.dtype, xs[0], xs[3], xs[2])
    # <<<
    if op.name in VIEWS:
        at = dict(zip(dimensions(op), xs[0].steps, strict=True))
        return replace(xs[0], steps=tuple(at.get(d, 0) for d in range(rank)), heads=())
    if op.name == "cast" and t.dtype.is_int and op.operands[0].type.dtype.is_int and t.dtype is not bool_:
        source, target = op.operands[0].type.dtype.range, t.dtype.range
        if max(source[0], target[0]) <= xs[0].low and xs[0].high <= min(source[1], target[1]):
            return xs[0]
    if t.dtype.is_int and t.dtype is not bool_ or t.pointer:
        if op.name in ("add", "sub", "addptr"):
            return _sum(xs[0], xs[1], -1 if op.name == "sub" else 1)
        if op.name == "mul":
            return _product(xs[0], xs[1])
        if op.name == "neg":
            return _sum(Info((0,) * rank, BIG, 0, 0), xs[0], -1)
        if op.name == "shl" and xs[1].uniform and 0 <= xs[1].low == xs[1].high < t.dtype.bits:
            factor = 1 << int(xs[1].low)
            return _product(xs[0], replace(xs[1], divisor=power(factor), low=factor, high=factor))
        if op.name in ("minimum", "maximum") and xs[0].uniform and xs[1].uniform:
            pick = min if op.name == "minimum" else max
            return Info((0,) * rank, min(x.divisor for x in xs), pick(x.low for x in xs), pick(x.high for x in xs))
    if entry.kind == "view":  # the same elements in other places
        steps = (0 if xs[0].uniform else None,) * rank
    else:
        steps = (None,) * rank if entry.writes or entry.apart or op.blocks else _flat(xs, rank)
    if t.pointer or not t.dtype.is_int:
        return Info(steps)
    known = op.name != "shl" and all(x.within(v.type.dtype) for x, v in zip(xs, op.operands, strict=True))
    follows = op.name in ("where", "reshape") or (op.name in SIGNED and t.dtype.kind == "i")
    low, high = t.dtype.range if known or not follows else (-INF, INF)
    if known and op.name in ("floordiv", "mod"):  # by 0, both are 0
        ends = _quotients(*xs) if op.name == "floordiv" else (xs[1].low + 1, xs[1].high - 1)
        low, high = max(low, min(0, *ends)), min(high, max(0, *ends))
    return Info(steps, 1, low, high)


def _quotients(x: Info, y: Info) -> list[float]:
    """The quotients of ``x`` and ``y``, rounded down, that are farthest from 0: by the smallest divisors."""
    least = max(1, y.low, y.total)
    ends = [x.low, x.high] if y.low >= 0 else [x.low, x.high, -x.low, -x.high]
    return [end // least if abs(end) < INF else end for end in ends]


def _flat(xs: tuple[Info, ...], rank: int) -> tuple[int | None, ...]:
    """Along which dimensions the same in all places gives the same."""
    columns = list(zip(*(x.steps for x in xs), strict=False))
    if len(columns) != rank or any(len(x.steps) != rank for x in xs):
        return (None,) * rank
    return tuple(0 if column.count(0) == len(xs) else None for column in columns)


def _promised(op: Op, x: Info) -> Info:
    """Facts about a value by what the user says of it. Groups that are smaller than the tile say nothing."""
    if op.name == "within":
        return x
    values: tuple[int, ...] = op.attrs["values"]  # type: ignore[assignment]
    t = op.result.type
    if op.name == "multiple_of":
        heads = tuple(power(n // t.dtype.itemsize if t.pointer else n) for n in values)
        regular = None not in x.steps
        return replace(x, heads=heads, divisor=max(x.divisor, *heads) if regular else x.divisor)
    steps, divisor = list(x.steps), x.divisor
    for d, n in enumerate(t.shape):
        if values[d] >= n > 1 and steps[d] is None:
            steps[d] = 1 if op.name == "max_contiguous" else 0
            if x.heads and steps[d]:
                others = [power(s) for e, s in enumerate(steps) if e != d and s is not None]
                divisor = max(divisor, min([x.heads[d], *others]))
    return replace(x, steps=tuple(steps), divisor=divisor)


def _sum(x: Info, y: Info, sign: int) -> Info:
    steps = tuple(None if a is None or b is None else a + sign * b for a, b in zip(x.steps, y.steps, strict=True))
    low, high = (y.low, y.high) if sign > 0 else (-y.high, -y.low)
    return Info(steps, _divisor(steps, x, y), x.low + low, x.high + high)


def _product(x: Info, y: Info) -> Info:
    corners = [0.0 if 0 in (a, b) else a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    ends = min(corners), max(corners)  # of a power, beyond what a float can be
    low, high = (x if abs(x) < 1 << 128 else INF if x > 0 else -INF for x in ends)
    for a, b in ((x, y), (y, x)):
        if b.uniform and b.low == b.high:  # a known constant
            k = int(b.low)
            if abs(k) >= 1 << 31:  # no stride, but a hash, which wraps around in 64 bits
                return Info(tuple(s and None for s in a.steps), min(BIG, a.total * power(k)))
            return Info(tuple(None if s is None else s * k for s in a.steps), min(BIG, a.divisor * power(k)), low, high)
    steps = tuple(0 if a == 0 and b == 0 else None for a, b in zip(x.steps, y.steps, strict=True))
    return Info(steps, min(BIG, x.total * y.total), low, high)


def ordered(op: Op) -> tuple[Value, ...]:
    """The operands of a comparison for order, the one that is to be less first; none of another op."""
    return {"l": op.operands, "g": op.operands[::-1]}[op.name[0]] if op.name in ("lt", "le", "gt", "ge") else ()


def holds(op: Op, facts: dict[Value, Info], endless: bool = False) -> bool:
    """True for a comparison that holds for all elements, whatever the values are; or, if integers are ``endless``,
    unless they wrap around."""
    if not ordered(op) or not (endless or all(facts[v].within(v.type.dtype) for v in op.operands)):
        return False
    small, large = (facts[v] for v in ordered(op))
    return small.high < large.low or (small.high == large.low and op.name in ("le", "ge"))


def monotone(kernel: Kernel, facts: dict[Value, Info]) -> set[Value]:
    """Masks that can only turn off as a coordinate grows: such a mask holds on a whole box if it holds at its far
    corner."""
    found: set[Value] = set()
    stored: set[Value] = set()  # tiles that are not computed anew for the corner
    for op in kernel.ops():
        if OPS[op.name].kind == "statement" or not stored.isdisjoint(op.operands):
            stored.update(v for v in op.results if v.type.shape)
        elif pair := ordered(op):
            small, large = pair
            rising = all(s is not None and s >= 0 for s in facts[small].steps)
            if rising and all(s is not None and s <= 0 for s in facts[large].steps):
                found.add(op.result)
        elif op.name in ("and", "expand", "broadcast") and all(v in found or facts[v].uniform for v in op.operands):
            found.add(op.result)
    return found


def even(kernel: Kernel, facts: dict[Value, Info]) -> dict[Value, tuple[int, ...]]:
    """For masks, along each dimension: groups of how many neighbours, a power of two from a multiple of it on, agree.
    So do 8 lanes of ``j < n`` if 8 divides n."""
    found: dict[Value, tuple[int, ...]] = {}

    def groups(small: Info, large: Info, d: int) -> int:
        if small.steps[d] == large.steps[d] == 0:
            return BIG
        if small.steps[d] != 1 or large.steps[d] != 0:
            return 1
        return next(w for w in (16, 8, 4, 2, 1) if min(small.alignment(d, w), large.alignment(d, w)) >= w)

    for op in kernel.ops():
        if not op.results or op.result.type.dtype is not bool_:
            continue
        rank = len(op.result.type.shape)
        if op.name in ("lt", "ge", "gt", "le"):  # i < n and i >= n, or the other way round
            pair = [facts[v] for v in (op.operands if op.name in ("lt", "ge") else op.operands[::-1])]
            found[op.result] = tuple(groups(*pair, d) for d in range(rank))
            continue
        of = [found.get(v, ()) or (BIG if facts[v].uniform else 1,) * len(v.type.shape) for v in op.operands]
        if op.name in ("expand", "broadcast"):
            at = dict(zip(dimensions(op), of[0], strict=True))
            found[op.result] = tuple(at.get(d, BIG) for d in range(rank))
        elif op.name in ("and", "or", "xor", "invert"):
            found[op.result] = tuple(map(min, *of)) if len(of) > 1 else of[0]
    return found
