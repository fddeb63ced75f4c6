"""Reductions along axes, with the usual operations or with a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType, bool_, float32, int32
from ..errors import KernelSyntaxError, KernelTypeError
from ..ir import Builder, Type, Value
from ..ops import OPS
from ..ops import reduction as old
from ..ops.reduction import sum_type
from ..ops.scan import Tiles, fold
from ..ops.typing import Operand, axes_of, cast_value, describe, number, same_shape
from .create import implicit, typed
from .language import MEANINGS, function
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
    working = float32 if dtype.is_half else dtype

    def combine(x: Tiles, y: Tiles) -> Tiles:
        if mode or flush:
            return (special(b, name, (x[0], y[0]), mode, flush),)
        return (OPS[name].rule(b, x[0], y[0]),)

    return working, combine


def _reduced(
    b: Builder,
    how: str,
    x: Operand,
    axis: object,
    keepdims: bool,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Value:
    v = numeric(b, x)
    target = sum_type(v.type.dtype) if how in ("sum", "prod") else v.type.dtype
    v = cast_value(b, v, target)
    if not axes_of(axis, len(v.type.shape)):  # a scalar, or no axis
        return v
    if how in ("max", "min"):
        if flush_to_zero:
            v = special(b, "maximum", (v, v), "", True, propagate_nan=True)
        return old.reduce(b, v, how + "_nan" * bool(propagate_nan), axis, keepdims)
    if rounding_mode in (None, RoundingMode.RN) and not flush_to_zero and (rounding_mode is None or target.is_float):
        return old.reduce(b, v, how, axis, keepdims)
    working, combine = combiner(b, how, target, rounding_mode, flush_to_zero)
    (out,) = fold(b, (cast_value(b, v, working),), axis, combine, keepdims)
    return OPS["cast"].rule(b, out, target)


EXAMPLE = """

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.{name}(ct.load(x, (0, 0), (2, 2)), axis={axis}))
    >>> x, out = np.array([[1, 5], [3, 2]]), np.zeros(2, int)
    >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
    {result}
    """
AXES = """ along ``axis``: an int, a tuple of ints, or None for all. ``keepdims`` leaves extents of 1.

    A TileTypeError for an axis that the tile does not have, or has once and is named twice."""


def _summing(name: str, word: str, result: list[int]) -> None:
    def rule(
        b: Builder,
        x: Operand,
        axis: object = None,
        *,
        keepdims: bool = False,
        rounding_mode: RoundingMode | None = None,
        flush_to_zero: bool = False,
    ) -> Value:
        return _reduced(b, name, x, axis, keepdims, rounding_mode, flush_to_zero)

    rule.__doc__ = f"""The {word} of the elements{AXES}

    float16 and bfloat16 are combined in float32, bool and integers under 32 bits in int32 (or uint32), which is the
    type of the result. ``rounding_mode`` (RN, RZ, RM, RP, of floats) and ``flush_to_zero`` (float32) are those of each
    step.{EXAMPLE.format(name=name, axis=1, result=result)}"""
    function(name)(typed(rule))


def _extreme(name: str, word: str, result: list[int]) -> None:
    def rule(
        b: Builder,
        x: Operand,
        axis: object = None,
        *,
        keepdims: bool = False,
        flush_to_zero: bool = False,
        propagate_nan: bool = False,
    ) -> Value:
        return _reduced(b, name, x, axis, keepdims, None, flush_to_zero, propagate_nan)

    rule.__doc__ = f"""The {word} element{AXES}

    The result has the type of ``x`` (of bool, int32). NaN is ignored unless ``propagate_nan``; ``flush_to_zero``, of
    float32, takes subnormal numbers for 0.{EXAMPLE.format(name=name, axis=0, result=result)}"""
    function(name)(typed(rule))


def _place(name: str, how: str, word: str, result: list[int]) -> None:
    def rule(
        b: Builder, x: Operand, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False
    ) -> Value:
        v = numeric(b, x)
        if isinstance(axis, tuple):
            raise KernelTypeError(f"{name} goes along one axis, or along all (None); not {axis}", argument="axis")
        if not v.type.shape:
            v = OPS["reshape"].rule(b, v, 1)
        best = old.reduce(b, v, how + "_nan" * bool(propagate_nan), axis, bool(keepdims) and axis is not None)
        return old._place(b, v, best, axis, keepdims)

    rule.__doc__ = f"""Where the {word} element is along ``axis``, or in row-major order (None): int32, the first of
    equal ones. ``keepdims`` leaves extents of 1. NaN is ignored; with ``propagate_nan`` it is the first NaN.

    A TileTypeError for a tuple, and for an axis that the tile does not have.{
        EXAMPLE.format(name=name, axis=1, result=result)
    }"""
    function(name)(typed(rule))


_summing("sum", "sum", [6, 5])
_summing("prod", "product", [5, 6])
_extreme("max", "greatest", [3, 5])
_extreme("min", "least", [1, 2])
_place("argmax", "max", "greatest", [1, 0])
_place("argmin", "min", "least", [0, 1])


def tiles_of(b: Builder, x: object, identity: object) -> tuple[Tiles, tuple]:
    """The tiles that a function goes over, and a neutral number for each."""
    given = x if isinstance(x, tuple) else (x,)
    neutral = identity if isinstance(identity, tuple) else (identity,)
    if not given:
        raise KernelTypeError("there is no tile in the tuple", argument="x")
    if len(neutral) != len(given):
        what = f"there are {len(given)} tiles, and {len(neutral)} identities"
        raise KernelTypeError(what, argument="identity")
    tiles = tuple(number(b, v) for v in given)
    if len({t.type.shape for t in tiles}) > 1:
        what = f"the tiles have different shapes: {', '.join(str(t.type) for t in tiles)}"
        raise KernelTypeError(what, argument="x")
    for v, t in zip(neutral, tiles, strict=True):
        if implicit(b, v, t.type.dtype, "identity").type.shape:
            raise KernelTypeError(f"an identity is a number, not {describe(v)}", argument="identity")
    return tiles, neutral


def combining(b: Builder, func: Any, tiles: Tiles) -> Callable[[Tiles, Tiles], Tiles]:
    """The user's function of two elements, on two tuples of tiles. It is tried on scalars first: it may not branch,
    loop, touch memory or reduce, and gives a scalar for each tile."""

    rule = MEANINGS.get(func) if func in (max, min) else None

    def result(x: Tiles, y: Tiles) -> tuple:
        out = rule(b, *x, *y) if rule else b.call(func, *x, *y)
        return out if isinstance(out, tuple) else (out,)

    def checked(out: tuple) -> Tiles:
        if len(out) != len(tiles):
            what = f"the function gives {len(out)} values for {len(tiles)} tile{'s' * (len(tiles) > 1)}"
            raise KernelTypeError(what, argument="func")
        return tuple(implicit(b, v, t.type.dtype, "func") for v, t in zip(out, tiles, strict=True))

    if not callable(func):
        raise KernelTypeError(f"expected a function of {2 * len(tiles)} scalars, not {describe(func)}", argument="func")
    outer, b.ops = b.ops, []
    try:
        out = result(*(tuple(Value(Type(t.type.dtype)) for t in tiles) for _ in range(2)))
        for op in b.ops:
            entry = OPS[op.name]
            if op.blocks or entry.effect or entry.memory or entry.kind == "statement":
                what = f"a function that combines elements is made of plain arithmetic, without {op.name}"
                raise KernelSyntaxError(f"{what}; choose with ct.where", op.loc, "func")
        for v in checked(out):
            if v.type.shape:
                raise KernelTypeError(f"the function gives a tile ({v.type}) for two scalars", argument="func")
    finally:
        b.ops = outer
    return lambda x, y: same_shape(b, *checked(result(x, y)), x[0])[:-1]


@function()
@typed
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
    tiles, _ = tiles_of(b, x, identity)
    combine = combining(b, func, tiles)
    out = fold(b, tiles, axis, combine, keepdims) if axes_of(axis, len(tiles[0].type.shape)) else tiles
    return out if isinstance(x, tuple) else out[0]
