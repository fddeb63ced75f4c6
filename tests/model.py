"""The language in NumPy, written without the package: a kernel's text runs on it as plain Python.

`Tile` is a tile, with the language's typing rules in its operators; `MODEL` is the module that a kernel knows as tt.
What the language promises to the last bit is exact. Where functions such as exp or the order of a sum come in, each
element carries a bound of the error, and one whose bound is lost (an overflow that may or may not happen) an infinite
one.
"""

import operator
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import ml_dtypes
import numpy as np

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
ALL = ("bool", *INTS, *FLOATS)
MEMORY = {d: np.dtype(ml_dtypes.bfloat16 if d == "bfloat16" else d) for d in ALL}
REGISTER = {d: np.dtype("float32") if d in HALVES else MEMORY[d] for d in ALL}
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
INFO = {d: ml_dtypes.finfo(MEMORY[d]) for d in FLOATS}
BITS = {d: 8 * MEMORY[d].itemsize for d in ALL}
SUMMED = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def together(a, b):
    """The element type of an operation on two types, None where the language refuses it."""
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if (a in FLOATS) != (b in FLOATS):
        return a if a in FLOATS else b
    if (a in SIGNED) != (b in SIGNED) and a in INTS:
        s, u = (a, b) if a in SIGNED else (b, a)
        return s if BITS[s] > BITS[u] else None
    return None if BITS[a] == BITS[b] else max(a, b, key=BITS.get)


class Tile:
    """A tile or a scalar. ``err`` bounds how far an executor's elements may be off (None: not at all), ``wide`` is what
    an integer is as an offset, where its leaves are int64. ``weak`` is a float argument, whose type is still open;
    ``wide`` is what it is in 64 bits."""

    def __init__(self, v, d, err=None, wide=None, weak=False):
        self.v, self.d, self.err, self.weak = np.asarray(v), d, err, weak
        self.wide = wide if wide is not None or d not in INTS else self.v.astype(np.int64)
        assert self.v.dtype == REGISTER[d], (self.v.dtype, d)

    dtype = property(lambda self: self.d)
    shape = property(lambda self: self.v.shape)

    def __bool__(self):
        assert self.err is None and not self.shape
        return bool(self.v)

    def __getitem__(self, key):
        return Tile(self.v[key], self.d, at(self.err, self.shape, key), at(self.wide, self.shape, key))

    def to(self, d):
        return cast(self, d)

    astype = to

    def __neg__(self):
        return made(np.negative(self.v), self.d, self.err, None if self.wide is None else -self.wide)

    def __invert__(self):
        return made(np.invert(self.v), self.d, None, follow(np.invert, self))

    def __abs__(self):
        return made(np.abs(self.v), self.d, self.err, follow(np.abs, self))


def follow(function, *xs):
    """What signed integers are as an offset; unsigned ones are what has wrapped around."""
    return function(*(x.wide for x in xs)) if xs[0].d in SIGNED else None


def at(x, shape, key):
    return None if x is None else np.broadcast_to(x, shape)[key]


def made(v, d, err=None, wide=None):
    """A value rounded to its type; with a bound of the error, one that grows by the rounding of both sides."""
    if d in HALVES:
        v = np.asarray(v, np.float32).astype(MEMORY[d]).astype(np.float32)
    v = np.asarray(v).astype(REGISTER[d])
    if err is not None and d in FLOATS:
        size = np.abs(v.astype(np.float64)) + err
        err = err + 2 * UNIT[d] * size + float(INFO[d].smallest_normal)
        err = np.where(size * (1 + 4 * UNIT[d]) < float(INFO[d].max), err, np.inf)
    return Tile(v, d, err, wide)


def cast(x, d):
    if x.d == d and not x.weak:
        return x
    v = x.wide if x.weak and d == "float64" else x.v
    if d == "bool":
        v = v != 0
    elif d in INTS and x.d in FLOATS:
        low, high = np.iinfo(d).min, np.iinfo(d).max
        whole = np.trunc(np.where(np.isnan(v), 0, v).astype(np.float64))
        inside = (whole > low) & (whole < float(high))
        v = np.where(inside, whole, 0).astype(d)
        v = np.where(inside, v, np.where(whole > 0, np.array(high, d), np.array(low, d)))
        v = np.where(whole == 0, np.array(0, d), v)
    elif d in HALVES and (x.d in INTS or d == "bfloat16"):
        v = v.astype(np.float32)
    elif d == "float16" and x.d == "float64":
        v = v.astype(np.float16)
    assert x.err is None or d in FLOATS
    widens = x.d in INTS and d in INTS and BITS[d] > BITS[x.d]
    return made(v, d, x.err, x.wide if widens else None)


def operands(*xs):
    """Values and Python numbers brought to one type."""
    typed = [x for x in xs if isinstance(x, Tile) and not x.weak]
    d = None
    for x in typed:
        d = x.d if d is None else together(d, x.d)
    strong = d
    for x in xs:
        if isinstance(x, Tile) and x.weak or isinstance(x, float):
            mine = strong if strong in FLOATS else "float32"
        elif isinstance(x, bool):
            mine = strong or "bool"
        elif isinstance(x, int):
            mine = strong if strong not in (None, "bool") else "int32"
        else:
            continue
        d = mine if d is None else together(d, mine)
    return [typed_as(x, d) for x in xs]


def typed_as(x, d):
    """A tile, or a Python number that takes the type at once."""
    if isinstance(x, Tile):
        return cast(x, d)
    return made(np.float64(x).astype(np.float32) if d in HALVES else REGISTER[d].type(x), d)


def error(*xs):
    """The bounds of the operands, 0 for the exact; None if all are exact."""
    if all(x.err is None for x in xs):
        return None
    return [np.zeros(()) if x.err is None else x.err for x in xs]


def arithmetic(name, function):
    def run(x, y):
        if isinstance(x, Pointer) or isinstance(y, Pointer):
            p, offset = (x, y) if isinstance(x, Pointer) else (y, x)
            return p.moved(offset, -1 if name == "sub" else 1)
        x, y = operands(x, y)
        errs, wide = error(x, y), None
        if x.d in INTS and name in ("add", "sub", "mul"):
            wide = function(x.wide, y.wide)
        if name == "truediv" and x.d not in FLOATS:
            x, y = cast(x, "float32"), cast(y, "float32")
        v = function(x.v, y.v)
        if errs:
            ex, ey = errs
            a, b = np.abs(x.v.astype(np.float64)), np.abs(y.v.astype(np.float64))
            if name in ("add", "sub"):
                errs = ex + ey
            elif name == "mul":
                errs = a * ey + b * ex + ex * ey
            else:
                assert name == "truediv"
                errs = np.where(b > ey, (ex + a / b * ey) / (b - ey), np.inf)
        return made(v, x.d, errs, wide)

    return run


def only_exact(function):
    def run(x, y):
        x, y = operands(x, y)
        assert error(x, y) is None
        return made(function(x.v, y.v), x.d, None, follow(function, x, y))

    return run


def compare(function):
    def run(x, y):
        x, y = operands(x, y)
        assert error(x, y) is None
        return Tile(function(x.v, y.v), "bool")

    return run


def shift(left):
    def bits(x, s):
        wide = x.astype(object) if left else x
        inside = (s >= 0) & (s < 8 * x.itemsize)
        s = np.where(inside, s, 0).astype(x.dtype)
        if left:
            out = (np.asarray(wide, object) * (2 ** s.astype(object))) % (1 << 8 * x.itemsize)
            v = np.asarray(out, object).astype(np.uint64).astype(x.dtype)
            return np.where(inside, v, np.zeros((), x.dtype))
        return np.where(inside, x >> s, np.where(x < 0, -1, 0).astype(x.dtype))

    return only_exact(bits)


OPERATORS = {
    "add": arithmetic("add", np.add),
    "sub": arithmetic("sub", np.subtract),
    "mul": arithmetic("mul", np.multiply),
    "truediv": arithmetic("truediv", np.divide),
    "floordiv": only_exact(np.floor_divide),
    "mod": only_exact(np.remainder),
    "and": only_exact(np.bitwise_and),
    "or": only_exact(np.bitwise_or),
    "xor": only_exact(np.bitwise_xor),
    "lshift": shift(True),
    "rshift": shift(False),
}
for _name, _run in OPERATORS.items():
    setattr(Tile, f"__{_name}__", lambda x, y, run=_run: run(x, y))
    setattr(Tile, f"__r{_name}__", lambda x, y, run=_run: run(y, x))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Tile, f"__{_name}__", compare(getattr(operator, _name)))


@dataclass
class Array:
    """Memory of an argument, elements first and bounds of their errors beside them."""

    data: np.ndarray
    d: str
    err: np.ndarray | None = None


class Pointer:
    def __init__(self, array, offsets=0):
        self.array, self.offsets = array, np.asarray(offsets, np.int64)

    def moved(self, offset, sign):
        wide = offset.wide if isinstance(offset, Tile) else np.int64(offset)
        return Pointer(self.array, self.offsets + sign * wide)

    def __add__(self, offset):
        return self.moved(offset, 1)

    __radd__ = __add__


def load(p, mask=None, other=None):
    on = np.asarray(True) if mask is None else mask.v
    shape = np.broadcast_shapes(p.offsets.shape, on.shape)
    on, places, d = np.broadcast_to(on, shape), np.broadcast_to(p.offsets, shape), p.array.d
    fill = typed_as(0 if other is None else other, d) if other is not None or d != "bool" else Tile(np.False_, d)
    v = np.array(np.broadcast_to(fill.v, shape))
    v[on] = p.array.data[inside(places[on], p.array)].astype(REGISTER[d])
    if p.array.err is None and fill.err is None:
        return Tile(v, d)
    err = np.array(np.broadcast_to(np.zeros(()) if fill.err is None else fill.err, shape))
    err[on] = 0 if p.array.err is None else p.array.err[places[on]]
    return Tile(v, d, err)


def store(p, value, mask=None):
    x = typed_as(value, p.array.d)
    on = np.broadcast_to(np.asarray(True) if mask is None else mask.v, p.offsets.shape)
    places = inside(p.offsets[on], p.array)
    assert len(np.unique(places)) == places.size, "the generator stores twice to one address"
    p.array.data[places] = np.broadcast_to(x.v, p.offsets.shape)[on].astype(MEMORY[p.array.d])
    assert x.err is None or p.array.err is not None
    if p.array.err is not None:
        p.array.err[places] = np.broadcast_to(np.zeros(()) if x.err is None else x.err, p.offsets.shape)[on]


def inside(places, array):
    assert places.size == 0 or (places.min() >= 0 and places.max() < array.data.size), "the generator leaves an array"
    return places


def where(c, x, y):
    x, y = operands(x, y)
    errs = error(x, y)
    wide = np.where(c.v, x.wide, y.wide) if x.d in INTS else None
    return Tile(np.where(c.v, x.v, y.v), x.d, None if errs is None else np.where(c.v, *errs), wide)


def extreme(ignoring, keeping):
    def run(x, y, propagate_nan=False):
        x, y = operands(x, y)
        errs = error(x, y)
        function = keeping if propagate_nan else ignoring
        return made(function(x.v, y.v), x.d, None if errs is None else np.maximum(*errs), follow(function, x, y))

    return run


def total(x, axis=None, keep_dims=False):
    d = SUMMED.get(x.d, x.d)
    if d not in FLOATS:
        return made(np.add.reduce(x.v, axis=axis, dtype=d, keepdims=keep_dims), d)
    wide = x.v.astype(np.longdouble)
    size = np.add.reduce(np.abs(wide), axis=axis, keepdims=keep_dims).astype(np.float64)
    kept = np.broadcast_to(np.zeros(()) if x.err is None else x.err, x.shape)
    count = x.v.size if axis is None else x.shape[axis]
    unit, most = (UNIT[d], float(INFO[d].max)) if d == "float64" else (UNIT["float32"], float(INFO["float32"].max))
    err = np.add.reduce(kept, axis=axis, keepdims=keep_dims) + count * unit * size
    err = np.where(size < most, err, np.inf)
    return made(np.add.reduce(wide, axis=axis, keepdims=keep_dims).astype(np.float64), d, err)


def reduction(ignoring, keeping, two):
    def run(x, axis=None, keep_dims=False, propagate_nan=False):
        if isinstance(axis, (Tile, float)):
            return two(x, axis, propagate_nan)
        v = (keeping if propagate_nan else ignoring).reduce(x.v, axis=axis, keepdims=keep_dims)
        if x.err is None:
            return Tile(v, x.d)
        return Tile(v, x.d, np.maximum.reduce(np.broadcast_to(x.err, x.shape), axis=axis, keepdims=keep_dims))

    return run


def position(greatest):
    def run(x, axis=None, keep_dims=False):
        assert x.err is None
        v, axis = (x.v.ravel(), 0) if axis is None else (x.v, axis)
        most = (np.fmax if greatest else np.fmin).reduce(v, axis=axis, keepdims=True)
        return Tile(np.argmax((v == most) & (v == v), axis=axis).astype(np.int32), "int32")

    return run


def running(ufunc):
    def run(x, axis=0, reverse=False):
        turn = (slice(None),) * (axis % len(x.shape)) + (slice(None, None, -1 if reverse else 1),)
        d = SUMMED.get(x.d, x.d)
        return Tile(ufunc.accumulate(x.v[turn], axis=axis, dtype=d)[turn], d)

    return run


def scan(xs, axis, combine, reverse=False):
    """One element after the other, from the first (``reverse``: the last) on."""
    tiles = xs if isinstance(xs, tuple) else (xs,)
    axis %= len(tiles[0].shape)
    places = [(slice(None),) * axis + (k,) for k in range(tiles[0].shape[axis])][:: -1 if reverse else 1]
    out = [np.array(t.v) for t in tiles]
    for before, place in pairwise(places):
        pair = (Tile(v[at], t.d) for at in (before, place) for v, t in zip(out, tiles, strict=True))
        both = combine(*pair)
        for v, y in zip(out, both if isinstance(both, tuple) else (both,), strict=True):
            v[place] = y.v
    out = tuple(Tile(v, t.d) for v, t in zip(out, tiles, strict=True))
    return out if isinstance(xs, tuple) else out[0]


def histogram(x, bins, mask=None):
    on = (x.v >= 0) & (x.v < bins) & (True if mask is None else mask.v)
    return Tile(np.bincount(x.v[on].astype(np.int64), minlength=bins).astype(np.int32), "int32")


def dot(x, y):
    return Tile(x.v.astype(np.int32) @ y.v.astype(np.int32), "int32")


def sort(x, dim=-1, descending=False):
    turn = (slice(None),) * (dim % len(x.shape)) + (slice(None, None, -1 if descending else 1),)
    assert x.err is None
    return Tile(np.sort(x.v, axis=dim)[turn], x.d)


def moved(function):
    """What only moves elements: the errors and the offsets move along."""

    def run(x, *args):
        err, wide = (None if e is None else function(np.broadcast_to(e, x.shape), *args) for e in (x.err, x.wide))
        return Tile(function(x.v, *args), x.d, err, wide)

    return run


def atomic(ufunc):
    def run(p, value, mask=None):
        x = typed_as(value, p.array.d)
        on = np.broadcast_to(np.asarray(True) if mask is None else mask.v, p.offsets.shape)
        places, old = inside(p.offsets[on], p.array), np.zeros(p.offsets.shape, p.array.data.dtype)
        old[on] = p.array.data[places]  # so it is where no two are one
        ufunc.at(p.array.data, places, np.broadcast_to(x.v, p.offsets.shape)[on])
        return Tile(old, p.array.d)

    return run


def smooth(function, slope, ulps=8):
    """A function that executors compute nearly right. ``slope(v, x, e)`` bounds its change when x is off by e."""

    def run(x):
        x = x if x.d in FLOATS and not x.weak else cast(x, x.d if x.d in FLOATS else "float32")
        wide = x.v.astype(np.longdouble)
        v = function(wide)
        unit = UNIT["float64" if x.d == "float64" else "float32"]
        err = 2 * ulps * unit * np.abs(v).astype(np.float64) + float(INFO["float32"].smallest_normal)
        if x.err is not None:
            err = err + slope(np.abs(v).astype(np.float64), x.v.astype(np.float64), x.err)
        return made(v.astype(np.float64), x.d, err)

    return run


def rounded_once(function):
    def run(x):
        x = x if x.d in FLOATS else cast(x, "float32")
        assert x.err is None
        return made(function(x.v), x.d)

    return run


def beyond(x, e, slope):
    return np.where(x > e, slope, np.inf)


SMOOTH = {
    "exp": smooth(np.exp, lambda v, x, e: v * np.expm1(e)),
    "exp2": smooth(np.exp2, lambda v, x, e: v * np.expm1(e)),
    "log": smooth(np.log, lambda v, x, e: beyond(x, e, e / (x - e))),
    "tanh": smooth(np.tanh, lambda v, x, e: e),
    "sigmoid": smooth(lambda x: 1 / (1 + np.exp(-x)), lambda v, x, e: e),
    "rsqrt": smooth(lambda x: 1 / np.sqrt(x), lambda v, x, e: beyond(x, e, e * (x - e) ** -1.5)),
}
ROUNDED = {"sqrt": rounded_once(np.sqrt), "floor": rounded_once(np.floor), "ceil": rounded_once(np.ceil)}
PROGRAM = [0, 0, 0]
GRID = [1, 1, 1]


def int32(x):
    return Tile(np.int32(x), "int32")


def counted(*bounds, num_stages=None):
    """Python's range for scalars of the model."""
    bounds = [int(b.v) if isinstance(b, Tile) else b for b in bounds]
    return (int32(k) for k in range(*bounds))


def broadcast(x, shape):
    err, wide = (None if e is None else np.broadcast_to(e, shape) for e in (x.err, x.wide))
    return Tile(np.broadcast_to(x.v, shape), x.d, err, wide)


def full(shape, value, d):
    return broadcast(typed_as(value, d), shape)


MAXIMUM, MINIMUM = extreme(np.fmax, np.maximum), extreme(np.fmin, np.minimum)
MODEL = SimpleNamespace(
    jit=lambda f: f,
    constexpr=None,
    bool_="bool",
    **{d: d for d in ALL if d != "bool"},
    arange=lambda a, b: Tile(np.arange(a, b, dtype=np.int32), "int32"),
    program_id=lambda axis: int32(PROGRAM[axis]),
    num_programs=lambda axis: int32(GRID[axis]),
    static_range=range,
    range=counted,
    full=full,
    zeros=lambda shape, d: full(shape, 0 if d != "bool" else False, d),
    load=load,
    store=store,
    where=where,
    abs=abs,
    maximum=MAXIMUM,
    minimum=MINIMUM,
    sum=total,
    max=reduction(np.fmax, np.maximum, MAXIMUM),
    min=reduction(np.fmin, np.minimum, MINIMUM),
    cdiv=lambda x, y: -(-x // y),
    argmax=position(True),
    argmin=position(False),
    cumsum=running(np.add),
    cumprod=running(np.multiply),
    sort=sort,
    associative_scan=scan,
    histogram=histogram,
    dot=dot,
    trans=moved(np.transpose),
    reshape=moved(np.reshape),
    flip=moved(np.flip),
    atomic_add=atomic(np.add),
    atomic_max=atomic(np.maximum),
    atomic_min=atomic(np.minimum),
    atomic_xor=atomic(np.bitwise_xor),
    **SMOOTH,
    **ROUNDED,
)


# -- what tinyton.tile has beside that ---------------------------------------------------------------------------------


def within(array, place, mask=None):
    """An element's place, and where it is inside of the array and ``mask`` is on."""
    wide = place.wide if isinstance(place, Tile) else np.int64(place)
    on = (wide >= 0) & (wide < array.data.size)
    return Pointer(array, np.where(on, wide, 0)), Tile(on if mask is None else on & mask.v, "bool")


def gather(array, place, mask=None, padding_value=None):
    return load(*within(array, place, mask), padding_value)


def scatter(array, place, value, mask=None):
    pointer, on = within(array, place, mask)
    shape = np.broadcast_shapes(pointer.offsets.shape, on.shape)
    pointer.offsets = np.broadcast_to(pointer.offsets, shape)
    store(pointer, value, on)


def tile(array, index, n, padding_mode=0.0):
    start = (index.wide if isinstance(index, Tile) else np.int64(index)) * n
    return gather(array, Tile(start + np.arange(n), "int64"), None, padding_mode if array.d in FLOATS else None)


def extract(x, index, shape):
    return x[tuple(slice(k * n, k * n + n) for k, n in zip(index, shape, strict=True))]


def cat(parts, axis):
    x, y = parts
    pairs = (None if a is None else (np.broadcast_to(a, x.shape), b) for a, b in ((x.err, y.err), (x.wide, y.wide)))
    err, wide = (None if p is None else np.concatenate([p[0], np.broadcast_to(p[1], y.shape)], axis) for p in pairs)
    return Tile(np.concatenate([x.v, y.v], axis), x.d, err, wide)


def changed(name):
    return lambda array, place, value: getattr(MODEL, name)(Pointer(array) + place, value)


def kept(function):
    return lambda x, axis=None, keepdims=False, **more: function(x, axis, keepdims, **more)


class Padding:
    ZERO, NEG_ZERO, NAN, POS_INF, NEG_INF = 0.0, -0.0, float("nan"), float("inf"), float("-inf")


TILE = SimpleNamespace(**vars(MODEL))
vars(TILE).update(
    kernel=lambda f: f,
    Constant={int: None},
    PaddingMode=Padding,
    bid=MODEL.program_id,
    num_blocks=MODEL.num_programs,
    static_iter=lambda items: items,
    arange=lambda n, start, dtype: Tile(np.arange(start, start + n, dtype=dtype), dtype),
    load=tile,
    gather=gather,
    scatter=scatter,
    transpose=MODEL.trans,
    extract=extract,
    cat=cat,
    **{f"atomic_{how}": changed(f"atomic_{how}") for how in ("add", "max", "min", "xor")},
    sum=kept(total),
    max=kept(MODEL.max),
    min=kept(MODEL.min),
)
