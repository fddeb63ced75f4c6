"""Reductions: first the registers of a thread, then the lanes of a warp by shuffles, then the warps by shared
memory."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType, bool_, float32, int32, uint32
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import op
from .arithmetic import maximum, minimum
from .typing import Operand, cast_value, constant_int, number

UFUNC = {"sum": np.add, "max": np.fmax, "min": np.fmin, "max_nan": np.maximum, "min_nan": np.minimum}


def combine(e, how: str, dtype: DType, x: str, y: str) -> str:
    """C for two partial results made one."""
    if how == "sum":
        return (
            f"{x} + {y}" if dtype.is_float else f"({e.c(dtype)})(({e.unsigned(dtype)}){x} + ({e.unsigned(dtype)}){y})"
        )
    symbol = ">" if how.startswith("max") else "<"
    if dtype.is_float and how.endswith("_nan"):
        return f"{x} != {x} || {x} {symbol} {y} ? {x} : {y}"
    if dtype.is_float:
        return f"{e.math('fmax' if symbol == '>' else 'fmin', dtype)}({x}, {y})"
    return f"{x} {symbol} {y} ? {x} : {y}"


def identity(how: str, dtype: DType) -> float | int:
    """What changes nothing: lanes that are off hold it. NaN for a maximum that ignores NaN, so that an all-NaN tile
    gives NaN."""
    if how == "sum":
        return 0
    if dtype.is_float:
        return float("nan") if not how.endswith("_nan") else float("-inf" if how.startswith("max") else "inf")
    return dtype.range[0 if how.startswith("max") else 1]


def _reduce(run, op, x):
    with np.errstate(all="ignore"):
        axes, how = op.attrs["axes"], op.attrs["combine"]
        dtype = op.result.type.dtype.register.numpy
        if how == "sum":
            return np.add.reduce(x, axis=axes, dtype=dtype)
        return UFUNC[how].reduce(x, axis=axes)


def _emit_reduce(e, op):
    (x,) = op.operands
    how, axes, dtype = op.attrs["combine"], op.attrs["axes"], op.result.type.dtype
    layout = e.reduce_layout(op)
    rest = layout.without(axes)
    zero = e.dialect.literal(identity(how, dtype), dtype)
    e.declare(op.result, rest, zero)
    kept = tuple(d for d in range(len(layout.shape)) if d not in axes)

    def element(e, op, s):
        value, off = s.atom(x), s.padding(x.type.shape, axes)
        value = f"({off} ? {zero} : {value})" if off else value
        cell = e.cell_in(op.result, s, kept)
        s.line(f"{cell} = {combine(e, how, dtype, cell, value)};")

    e.close_with(op, layout, element)
    moving = [i for i, basis in enumerate(layout.thread) if any(basis[d] for d in axes)]
    lanes = [i for i in moving if e.dialect.shuffle and i < 5]
    warps = [i for i in moving if i not in lanes]
    if lanes:
        with e.loop(rest, [op]) as s:
            cell = e.cell(op.result, s)
            for i in lanes:
                other = e.fresh("other")  # a shuffle in a branch would miss the lanes that take the other way
                s.line(f"const {e.c(dtype)} {other} = {e.shuffle(cell, 1 << i, dtype)};")
                s.line(f"{cell} = {combine(e, how, dtype, cell, other)};")
    if warps:
        _across_warps(e, op, rest, warps, lanes)


def _across_warps(e, op, rest, warps, lanes) -> None:
    """Each warp leaves its partial results in a slot of shared memory; then every thread combines all slots, in the
    same order."""
    how, dtype, size = op.attrs["combine"], op.result.type.dtype, 1
    for n in rest.shape:
        size *= n
    memory = e.shared(dtype, size << len(warps))
    slot = e.bits_of_thread(warps, size)
    first = sum(1 << i for i in lanes)
    spare = first | (rest.copies & ~sum(1 << i for i in warps))
    with e.guard(f"(thread & {spare}) == 0" if spare else ""):
        with e.loop(rest, [op]) as s:
            s.line(f"{memory}[{slot} + {s.position(rest.shape)}] = {e.cell(op.result, s)};")
    e.barrier()
    with e.loop(rest, [op]) as s:
        cell = e.cell(op.result, s)
        s.line(f"{cell} = {memory}[{s.position(rest.shape)}];")
        k = e.fresh("warp")
        s.line(f"for (int {k} = 1; {k} < {1 << len(warps)}; ++{k})")
        s.line(f"    {cell} = {combine(e, how, dtype, cell, f'{memory}[{k} * {size} + {s.position(rest.shape)}]')};")


@op(numpy=_reduce, emit=_emit_reduce, kind="statement", public=False)
def reduce(b: Builder, x: Operand, how: str, axis: object, keep_dims: bool) -> Value:
    """Combines the elements of a tile along ``axis`` (None: all)."""
    v = number(b, x)
    rank = len(v.type.shape)
    if not rank:
        raise KernelTypeError(f"there is nothing to reduce in a scalar ({v.type})")
    axes = tuple(range(rank)) if axis is None else (_axis(axis, rank),)
    target = v.type.dtype
    if how == "sum":
        target = int32 if target is bool_ or (target.kind == "i" and target.bits < 32) else target
        target = uint32 if target.kind == "u" and target.bits < 32 else target
    working = float32 if target.is_half else target
    shape = tuple(n for d, n in enumerate(v.type.shape) if d not in axes)
    out = b.add("reduce", (cast_value(b, v, working),), Type(working, shape), combine=how, axes=axes)
    out = cast_value(b, out, target)
    if keep_dims:
        for d in axes:
            out = b.add("expand", (out,), out.type.with_shape((*out.type.shape[:d], 1, *out.type.shape[d:])), axis=d)
    return out


def _axis(axis: object, rank: int) -> int:
    k = constant_int(axis, "axis")
    if not -rank <= k < rank:
        raise KernelValueError(f"a tile of {rank} dimension{'s' * (rank > 1)} has no axis {k}", argument="axis")
    return k % rank


@op(numpy=None, emit=None, kind="macro")
def reduce_sum(b: Builder, x: Operand) -> Value:
    """The sum of all elements of a tile: a scalar. 16-bit floats are added in float32; bool and narrow integers in 32
    bits."""
    return reduce(b, x, "sum", None, False)


@op(numpy=None, emit=None, kind="macro")
def reduce_max(b: Builder, x: Operand) -> Value:
    """The greatest of all elements of a tile: a scalar. NaN is ignored."""
    return reduce(b, x, "max", None, False)


@op(numpy=None, emit=None, kind="macro")
def sum_(b: Builder, x: Operand, axis: int | None = None, keep_dims: bool = False) -> Value:
    """The sum along ``axis`` (None: of all elements, a scalar).

    16-bit floats are added in float32 and the result has their type again; bool and integers under 32 bits give int32
    (or uint32). ``keep_dims`` leaves an extent of 1.
    """
    return reduce(b, x, "sum", axis, keep_dims)


def _extreme(b: Builder, how: str, x: Operand, axis: object, keep_dims: bool, propagate_nan: bool) -> Value:
    elementwise = isinstance(axis, (float, bool)) or isinstance(axis, Value)
    if elementwise or (isinstance(x, Value) and not x.type.shape and axis is not None):
        return (maximum if how == "max" else minimum)(b, x, axis, propagate_nan)  # type: ignore[arg-type]
    return reduce(b, x, how + "_nan" * bool(propagate_nan), axis, keep_dims)


@op(numpy=None, emit=None, kind="macro")
def max_(b: Builder, x: Operand, axis: object = None, keep_dims: bool = False, propagate_nan: bool = False) -> Value:
    """The greatest element along ``axis``, an int constant (None: of all). Given a tile or a float instead of an axis,
    the greater of the two, element by element.

    NaN is ignored unless ``propagate_nan``.
    """
    return _extreme(b, "max", x, axis, keep_dims, propagate_nan)


@op(numpy=None, emit=None, kind="macro")
def min_(b: Builder, x: Operand, axis: object = None, keep_dims: bool = False, propagate_nan: bool = False) -> Value:
    """The least element along ``axis``, an int constant (None: of all). Given a tile or a float instead of an axis, the
    lesser of the two, element by element.

    NaN is ignored unless ``propagate_nan``.
    """
    return _extreme(b, "min", x, axis, keep_dims, propagate_nan)
