"""Reductions along axes, with the usual operations or with a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
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
from .language import MEANINGS, about, function
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


def _sum(how: str, word: str, result: list[int]) -> Callable:
    def rule(
        b: Builder, x: Operand, axis: object = None, *, keepdims=False, rounding_mode=None, flush_to_zero: bool = False
    ) -> Value:
        """The {} of the elements along ``axis``: an int, a tuple of ints, or None for all. ``keepdims`` leaves extents
        of 1.

        A TileTypeError for an axis that the tile does not have, or has once and is named twice.

        float16 and bfloat16 are combined in float32, bool and integers under 32 bits in int32 (or uint32), which is the
        type of the result. ``rounding_mode`` (RN, RZ, RM, RP, of floats) and ``flush_to_zero`` (float32) are those of
        each step.

        >>> import numpy as np, tinyton.tile as ct
        >>> @ct.kernel
        ... def k(x, out): ct.store(out, 0, ct.{}(ct.load(x, (0, 0), (2, 2)), axis=1))
        >>> x, out = np.array([[1, 5], [3, 2]]), np.zeros(2, int)
        >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
        {}
        """
        v = numeric(b, x)
        target = sum_type(v.type.dtype)
        v = cast_value(b, v, target)
        if not axes_of(axis, len(v.type.shape)):  # a scalar, or no axis
            return v
        if not flush_to_zero and (rounding_mode is None or rounding_mode is RoundingMode.RN and target.is_float):
            return old.reduce(b, v, how, axis, keepdims)
        working, combine = combiner(b, how, target, rounding_mode, flush_to_zero)
        (out,) = fold(b, (cast_value(b, v, working),), axis, combine, keepdims)
        return OPS["cast"].rule(b, out, target)

    return function(how, strict=True, words=(word, how, result))(rule)


def _most(how: str, word: str, result: list[int]) -> Callable:
    def rule(
        b: Builder, x: Operand, axis: object = None, *, keepdims=False, flush_to_zero=False, propagate_nan: bool = False
    ) -> Value:
        """The {} element along ``axis``: an int, a tuple of ints, or None for all. ``keepdims`` leaves extents of 1.

        A TileTypeError for an axis that the tile does not have, or has once and is named twice.

        The result has the type of ``x`` (of bool, int32). NaN is ignored unless ``propagate_nan``; ``flush_to_zero``,
        of float32, takes subnormal numbers for 0.

        >>> import numpy as np, tinyton.tile as ct
        >>> @ct.kernel
        ... def k(x, out): ct.store(out, 0, ct.{}(ct.load(x, (0, 0), (2, 2)), axis=0))
        >>> x, out = np.array([[1, 5], [3, 2]]), np.zeros(2, int)
        >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
        {}
        """
        v = numeric(b, x)
        if isinstance(axis, (Value, float)):
            what = f"{how} goes along axes of one tile; of two, element by element, there is ct.{PLAIN[how]}(x, y)"
            raise KernelTypeError(what, argument="axis")
        if not axes_of(axis, len(v.type.shape)):  # a scalar, or no axis
            return v
        v = special(b, "maximum", (v, v), "", True, propagate_nan=True) if flush_to_zero else v
        return old.reduce(b, v, how + "_nan" * bool(propagate_nan), axis, keepdims)

    return function(how, strict=True, words=(word, how, result))(rule)


def _place(name: str, how: str, word: str, result: list[int]) -> Callable:
    def rule(b: Builder, x: Operand, axis: int | None = None, *, keepdims=False, propagate_nan: bool = False) -> Value:
        """Where the {} element is along ``axis``, or in row-major order (None): int32, the first of equal ones.
        ``keepdims`` leaves extents of 1. NaN is ignored; with ``propagate_nan`` it is the first NaN.

        A TileTypeError for a tuple, and for an axis that the tile does not have.

        >>> import numpy as np, tinyton.tile as ct
        >>> @ct.kernel
        ... def k(x, out): ct.store(out, 0, ct.{}(ct.load(x, (0, 0), (2, 2)), axis=1))
        >>> x, out = np.array([[1, 5], [3, 2]]), np.zeros(2, int)
        >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
        {}
        """
        v = numeric(b, x)
        if isinstance(axis, tuple):
            raise KernelTypeError(f"{name} goes along one axis, or along all (None); not {axis}", argument="axis")
        v = v if v.type.shape else OPS["reshape"].rule(b, v, 1)
        best = old.reduce(b, v, how + "_nan" * bool(propagate_nan), axis, keepdims)
        return old._place(b, v, best, axis, keepdims)

    return function(name, strict=True, words=(word, name, result))(rule)


_sum("sum", "sum", [6, 5])
_sum("prod", "product", [5, 6])
_most("max", "greatest", [3, 5])
_most("min", "least", [1, 2])
_place("argmax", "max", "greatest", [1, 0])
_place("argmin", "min", "least", [0, 1])


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
