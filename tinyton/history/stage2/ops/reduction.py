"""Reductions of a whole tile through shared memory: half of the threads add their neighbours', then a quarter, ..."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType, bool_, float32, int32, uint32
from ..errors import KernelTypeError
from ..ir import Builder, Type, Value
from . import op
from .typing import Operand, cast_value, number

UFUNC = {"sum": np.add, "max": np.fmax}


def combine(e, how: str, dtype: DType, x: str, y: str) -> str:
    """C for two partial results made one."""
    if how == "sum":
        wrapped = f"({e.c(dtype)})(({e.unsigned(dtype)}){x} + ({e.unsigned(dtype)}){y})"
        return f"{x} + {y}" if dtype.is_float else wrapped
    return f"{e.math('fmax', dtype)}({x}, {y})" if dtype.is_float else f"{x} > {y} ? {x} : {y}"


def _reduce(run, op, x):
    with np.errstate(all="ignore"):
        how, dtype = op.attrs["combine"], op.result.type.dtype.register.numpy
        return np.add.reduce(x, dtype=dtype) if how == "sum" else UFUNC[how].reduce(x)


def _emit_reduce(e, op):
    """Any number of threads will do: with 27, those from 16 on go to 0 to 10, then 8 to 15 to 0 to 7, and so on."""
    (x,) = op.operands
    how, dtype, half = op.attrs["combine"], op.result.type.dtype, 1
    if e.threads == 1:
        e.declare(op.result, e.get(x))
        return
    while half * 2 < e.threads:
        half *= 2
    partial, step = e.fresh("partial"), e.fresh("step")
    space = "__local " if e.dialect.name == "opencl" else ""
    e.line(f"{space}{e.c(dtype)}* const {partial} = {e.shared(dtype, e.threads)};")
    e.line(f"{partial}[thread] = {e.get(x)};")
    e.line(e.dialect.barrier)
    e.line(f"for (int {step} = {half}; {step} > 0; {step} >>= 1) {{")
    e.line(f"    if (thread < {step} && thread + {step} < {e.threads})")
    both = combine(e, how, dtype, f"{partial}[thread]", f"{partial}[thread + {step}]")
    e.line(f"        {partial}[thread] = {both};")
    e.line(f"    {e.dialect.barrier}")
    e.line("}")
    e.declare(op.result, f"{partial}[0]")


@op(numpy=_reduce, emit=_emit_reduce, kind="statement", public=False)
def reduce(b: Builder, x: Operand, how: str) -> Value:
    """Combines all elements of a tile."""
    v = number(b, x)
    if not v.type.shape:
        raise KernelTypeError(f"there is nothing to reduce in a scalar ({v.type})")
    target = v.type.dtype
    if how == "sum":
        target = int32 if target is bool_ or (target.kind == "i" and target.bits < 32) else target
        target = uint32 if target.kind == "u" and target.bits < 32 else target
    working = float32 if target.is_narrow else target
    return cast_value(b, b.add("reduce", (cast_value(b, v, working),), Type(working), combine=how), target)


@op(numpy=None, emit=None, kind="macro")
def reduce_sum(b: Builder, x: Operand) -> Value:
    """The sum of all elements of a tile: a scalar. 16-bit floats are added in float32; bool and narrow integers in 32
    bits."""
    return reduce(b, x, "sum")


@op(numpy=None, emit=None, kind="macro")
def reduce_max(b: Builder, x: Operand) -> Value:
    """The greatest of all elements of a tile: a scalar. NaN is ignored."""
    return reduce(b, x, "max")
