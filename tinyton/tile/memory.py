"""Tiles in memory: loads and stores by tile index."""

from __future__ import annotations

import math
from enum import Enum

from .. import dtypes
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from ..ops import OPS, memory
from ..ops.arithmetic import add, and_, ge, lt, mul
from ..ops.create import tile_shape
from ..ops.program import arange
from ..ops.shape import expand
from ..ops.typing import Operand, broadcast, constant_int, describe, value_of
from .array import Array
from .language import NAMES, function


class PaddingMode(Enum):
    """What a load gives outside of the array. UNDETERMINED is zero, too."""

    UNDETERMINED = "undetermined"
    ZERO = "zero"
    NEG_ZERO = "neg_zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


PADDING = {PaddingMode.UNDETERMINED: None, PaddingMode.ZERO: None, PaddingMode.NEG_ZERO: -0.0}
PADDING |= {PaddingMode.NAN: math.nan, PaddingMode.POS_INF: math.inf, PaddingMode.NEG_INF: -math.inf}
NAMES["PaddingMode"] = PaddingMode


def as_array(x: object) -> Array:
    if not isinstance(x, Array):
        raise KernelTypeError(f"expected an array argument, not {describe(x)}", argument="array")
    return x


def shape_of(shape: object) -> tuple[int, ...]:
    """A tile's shape; what is wrong with one is a TypeError here."""
    try:
        return tile_shape(shape)
    except KernelValueError as error:
        raise KernelTypeError(error.message, argument=error.argument) from None


def places(b: Builder, array: Array, starts: tuple, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple:
    """The pointers of a tile whose dimension d runs from ``starts[d]`` along axis ``axes[d]`` of the array, and the
    mask of what is inside the array (None: there is nothing to be outside of)."""
    pointer, mask = array.base, None
    for d, (start, n, axis) in enumerate(zip(starts, shape, axes, strict=True)):
        at = along(b, add(b, start, arange(b, 0, n)), d, len(shape))
        inside = and_(b, ge(b, at, 0), lt(b, at, array.shape[axis]))
        mask = inside if mask is None else and_(b, mask, inside)
        stride = array.strides[axis]
        pointer = add(b, pointer, at if isinstance(stride, int) and stride == 1 else mul(b, at, stride))
    return pointer, mask


def along(b: Builder, v: Value, dim: int, rank: int) -> Value:
    """A tile of one dimension as dimension ``dim`` of a tile of ``rank``."""
    for d in range(rank):
        if d != dim:
            v = expand(b, v, d)
    return v


def axes_of(order: object, rank: int) -> tuple[int, ...]:
    """Which axis of the array each dimension of a tile runs along."""
    if order in ("C", "F"):
        return tuple(range(rank))[:: 1 if order == "C" else -1]
    axes = tuple(constant_int(k, "order") for k in (order if isinstance(order, tuple) else (order,)))
    if sorted(axes) != list(range(rank)):
        what = f'the order is "C", "F" or the axes 0 to {rank - 1}, each once, not {order!r}'
        raise KernelTypeError(what, argument="order")
    return axes


def index_of(b: Builder, index: object, rank: int) -> tuple[Value, ...]:
    """A tile's index, in tiles: an int scalar for each axis."""
    found = index if isinstance(index, tuple) else (index,)
    if len(found) != rank:
        raise KernelTypeError(f"the index has {len(found)} entries, the array has {rank} dimensions", argument="index")
    out = tuple(value_of(b, x) for x in found)
    for v in out:
        if v.type.shape or v.type.pointer or v.type.dtype.kind not in "iu":
            raise KernelTypeError(f"an index is made of int scalars, not of {v.type}", argument="index")
    return out


def tile_at(b: Builder, array: object, index: object, shape: tuple[int, ...], order: object, check: bool) -> tuple:
    """The pointers of a tile of an array, and their mask (None: all are inside, or nobody looks)."""
    a = as_array(array)
    at, axes = index_of(b, index, a.ndim), axes_of(order, a.ndim)
    if shape and len(shape) != a.ndim:
        raise KernelTypeError(f"the tile has {len(shape)} dimensions, the array has {a.ndim}", argument="shape")
    extents = shape or (1,) * a.ndim
    starts = tuple(v if n == 1 else mul(b, v, n) for v, n in zip(at, extents, strict=True))
    pointer, mask = places(b, a, starts, extents, axes)
    return pointer, mask if check else None


@function()
def load(
    b: Builder,
    array: Array,
    index: object,
    shape: object,
    *,
    order: object = "C",
    padding_mode: PaddingMode = PaddingMode.UNDETERMINED,
    check_bounds: bool = True,
    latency: int | None = None,
    allow_tma: bool | None = None,
) -> Value:
    """The tile of ``shape`` (powers of two) that is the ``index``-th along each axis, in units of tiles."""
    extents = shape_of(shape)
    pointer, mask = tile_at(b, array, index, extents, order, check_bounds)
    fill = PADDING[padding_mode] if mask is not None else None
    v = memory.load(b, pointer, mask, fill)
    return v if extents else OPS["reshape"].rule(b, v)


@function()
def store(
    b: Builder, array: Array, index: object, tile: Operand, *, order: object = "C", check_bounds: bool = True
) -> None:
    """Writes a tile where `load` reads it; nothing outside of the array."""
    a, v = as_array(array), value_of(b, tile, as_array(array).dtype)
    if dtypes.promote(v.type.dtype, a.dtype) is not a.dtype:
        raise KernelTypeError(f"{v.type} does not widen to {a.dtype}; write .astype(ct.{a.dtype})", argument="tile")
    pointer, mask = tile_at(b, a, index, v.type.shape, order, check_bounds)
    memory.store(b, pointer, broadcast(b, v, pointer.type.shape), mask)
