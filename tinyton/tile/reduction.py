"""Reductions along axes, with the usual operations or with a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..dtypes import DType, bool_, float32, int32
from ..errors import KernelTypeError
from ..ir import Builder, Value
from ..ops import OPS
from ..ops import reduction as old
from ..ops.reduction import sum_type
from ..ops.scan import Tiles, fold, on_scalars, tiles_in
from ..ops.typing import Operand, axes_of, cast_value, describe, number, same_shape
from .create import implicit
from .language import MEANINGS, about, function, made
from .math import RoundingMode, mode_of, special

PLAIN = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


def numeric(b: Builder, x: object) -> Value:
    """A tile to be reduced; of bools, int32."""
    v = number(b, x)
    return cast_value(b, v, int32) if v.type.dtype is bool_ else v


def combiner(b: Builder, how: str, dtype: DType, rounding_mode: object, flush: bool) -> tuple[DType, Callable]:
    """In which type tiles are combined by a sum or a product, and what combines two; the mode is checked."""
    mode, name = mode_of(PLAIN[how], rounding_mode), PLAIN[how]
    if flush and dtype is not float32 or mode and not dtype.is_float:
        only, what = ("float32", "flush_to_zero") if flush else ("floats", "rounding_mode")
        raise KernelTypeError(f"{what} is for {only}, not {dtype}", argument=what)
    working = float32 if dtype.is_narrow else dtype

    def combine(x: Tiles, y: Tiles) -> Tiles:
        if mode or flush:
            return (special(b, name, (x[0], y[0]), mode, flush),)
        return (OPS[name].rule(b, x[0], y[0]),)

    return working, combine


def _reduced(
    how: str, b: Builder, x: Operand, axis: object, *, keepdims: bool, flush_to_zero: bool, **more: object
) -> Value:
    v, mode, nan = numeric(b, x), more.get("rounding_mode"), more.get("propagate_nan")
    if how in ("max", "min") and isinstance(axis, (Value, float)):
        what = f"{how} goes along axes of one tile; of two, element by element, there is ct.{PLAIN[how]}(x, y)"
        raise KernelTypeError(what, argument="axis")
    target = sum_type(v.type.dtype) if how in ("sum", "prod") else v.type.dtype
    v = cast_value(b, v, target)
    if not axes_of(axis, len(v.type.shape)):  # a scalar, or no axis
        return v
    if how in ("max", "min") and flush_to_zero:
        v = special(b, "maximum", (v, v), "", True, propagate_nan=True)
    if how in ("max", "min") or not flush_to_zero and (mode is None or mode is RoundingMode.RN and target.is_float):
        return old.reduce(b, v, how + "_nan" * bool(nan), axis, keepdims)
    working, combine = combiner(b, how, target, mode, flush_to_zero)
    (out,) = fold(b, (cast_value(b, v, working),), axis, combine, keepdims)
    return OPS["cast"].rule(b, out, target)


def _place(name: str, b: Builder, x: Operand, axis: int | None, *, keepdims: bool, propagate_nan: bool) -> Value:
    v, how = numeric(b, x), name.removeprefix("arg") + "_nan" * bool(propagate_nan)
    if isinstance(axis, tuple):
        raise KernelTypeError(f"{name} goes along one axis, or along all (None); not {axis}", argument="axis")
    v = v if v.type.shape else OPS["reshape"].rule(b, v, 1)
    return old._place(b, v, old.reduce(b, v, how, axis, keepdims), axis, keepdims)


EXAMPLE = """

>>> import numpy as np, tinyton.tile as ct
>>> @ct.kernel
... def k(x, out): ct.store(out, 0, ct.{}(ct.load(x, (0, 0), (2, 2)), axis={}))
>>> x, out = np.array([[1, 5], [3, 2]]), np.zeros(2, int)
>>> ct.launch(None, (1,), k, (x, out)); out.tolist()
{}"""
AXES = """ along ``axis``: an int, a tuple of ints, or None for all. ``keepdims`` leaves extents of 1.

A TileTypeError for an axis that the tile does not have, or has once and is named twice.

"""
SUM = f"""The {{}} of the elements{AXES}float16 and bfloat16 are combined in float32, bool and integers under 32 bits in
int32 (or uint32), which is the type of the result. ``rounding_mode`` (RN, RZ, RM, RP, of floats) and ``flush_to_zero``
(float32) are those of each step."""
MOST = f"""The {{}} element{AXES}The result has the type of ``x`` (of bool, int32). NaN is ignored unless
``propagate_nan``; ``flush_to_zero``, of float32, takes subnormal numbers for 0."""
PLACE = """Where the {} element is along ``axis``, or in row-major order (None): int32, the first of equal ones.
``keepdims`` leaves extents of 1. NaN is ignored; with ``propagate_nan`` it is the first NaN.

A TileTypeError for a tuple, and for an axis that the tile does not have."""
SUMS = {"keepdims": False, "rounding_mode": None, "flush_to_zero": False}
EXTREMES = {"keepdims": False, "flush_to_zero": False, "propagate_nan": False}
PLACES = {"keepdims": False, "propagate_nan": False}
for _name, _rule, _doc, _word, _options, _axis, _result in (
    ("sum", _reduced, SUM, "sum", SUMS, 1, [6, 5]),
    ("prod", _reduced, SUM, "product", SUMS, 1, [5, 6]),
    ("max", _reduced, MOST, "greatest", EXTREMES, 0, [3, 5]),
    ("min", _reduced, MOST, "least", EXTREMES, 0, [1, 2]),
    ("argmax", _place, PLACE, "greatest", PLACES, 1, [1, 0]),
    ("argmin", _place, PLACE, "least", PLACES, 1, [0, 1]),
):
    _doc = _doc.format(_word) + EXAMPLE.format(_name, _axis, _result)
    function(strict=True)(made(_name, "x axis", partial(_rule, _name), _doc, axis=None, **_options))


def tiles_of(b: Builder, x: object, identity: object) -> Tiles:
    """The tiles that a function goes over; there is a neutral number for each."""
    with about("x"):
        tiles = tiles_in(b, x)
    neutral = identity if isinstance(identity, tuple) else (identity,)
    if len(neutral) != len(tiles):
        what = f"there are {len(tiles)} tiles, and {len(neutral)} identities"
        raise KernelTypeError(what, argument="identity")
    for v, t in zip(neutral, tiles, strict=True):
        if implicit(b, v, t.type.dtype, "identity").type.shape:
            raise KernelTypeError(f"an identity is a number, not {describe(v)}", argument="identity")
    return tiles


def combining(b: Builder, func: Any, tiles: Tiles) -> Callable[[Tiles, Tiles], Tiles]:
    """The user's function of two elements, on two tuples of tiles. It is tried on scalars first: it may not branch,
    loop, touch memory or reduce, and gives a scalar for each tile."""

    rule = MEANINGS.get(func) if func in (max, min) else None
    if not callable(func):
        raise KernelTypeError(f"expected a function of {2 * len(tiles)} scalars, not {describe(func)}", argument="func")

    def combine(x: Tiles, y: Tiles) -> Tiles:
        found = rule(b, *x, *y) if rule else b.call(func, *x, *y)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(tiles):
            what = f"the function gives {len(found)} values for {len(tiles)} tile{'s' * (len(tiles) > 1)}"
            raise KernelTypeError(what, argument="func")
        out = tuple(implicit(b, v, t.type.dtype, "func") for v, t in zip(found, tiles, strict=True))
        return same_shape(b, *out, x[0])[:-1]

    on_scalars(b, tiles, combine, "func", "ct.where")
    return combine


@function(strict=True)
def reduce(b: Builder, x: object, axis: object, func: Callable, identity: object, *, keepdims: bool = False) -> object:
    """The elements along ``axis`` (an int, a tuple, None for all) combined by ``func``, an associative function of two
    scalars, with ``identity``, a number that changes nothing.

    Of a tuple of N tiles of one shape, ``func`` takes the N elements of the one side and then of the other, and gives
    N; there are N identities, and a tuple is the result. A TileSyntaxError if it branches, loops, touches memory or
    reduces; a TileTypeError if it gives tiles, or values that do not widen to the elements' types.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.reduce(ct.load(x, (0, 0), (2, 2)), 1, ct.bitwise_or, 0))
    >>> x, out = np.array([[1, 4], [3, 2]]), np.zeros(2, int)
    >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
    [5, 3]
    """
    tiles = tiles_of(b, x, identity)
    combine = combining(b, func, tiles)
    out = fold(b, tiles, axis, combine, keepdims) if axes_of(axis, len(tiles[0].type.shape)) else tiles
    return out if isinstance(x, tuple) else out[0]
