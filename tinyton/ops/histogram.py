"""How often each number is in a tile: the threads count together in shared memory."""

from __future__ import annotations

import numpy as np

from ..dtypes import int32
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value
from . import OPS, op
from .atomic import instruction
from .memory import as_mask
from .typing import Operand, cast_value, constant_int, number


def _histogram(run, op, x):
    bins = op.result.type.shape[0]
    return np.bincount(x[(x >= 0) & (x < bins)].astype(np.int64), minlength=bins).astype(np.int32)


def _emit_histogram(e, op):
    (x,) = op.operands
    bins, source, layout = op.result.type.shape[0], e.own_layout(x), e.layout_of(op.result)
    memory = e.shared(int32, layout.shape[0])
    with e.once_per_element(layout), e.loop(layout, [op]) as s:
        s.line(f"{memory}[{s.position(layout.shape)}] = 0;")
    e.barrier()
    with e.once_per_element(source), e.loop(source, [op]) as s:
        value, off = s.atom(x), s.padding(x.type.shape)
        count = f"++{memory}[{value}]" if e.threads == 1 else f"{instruction(e, 'add', 32)}({memory} + {value}, 1)"
        s.line(f"if ({f'!({off}) && ' if off else ''}({e.unsigned(x.type.dtype)}){value} < {bins}) {count};")
    e.barrier()
    e.declare(op.result)
    with e.loop(layout, [op]) as s:
        s.line(f"{e.cell(op.result, s)} = {memory}[{s.position(layout.shape)}];")


@op(numpy=_histogram, emit=_emit_histogram, kind="statement", exact=True, apart=(0,))
def histogram(b: Builder, input: Value, num_bins: int, mask: Operand | None = None) -> Value:
    """How often each of 0, 1, … ``num_bins`` - 1 is in an int tile of any shape: int32[num_bins].

    Elements that are in no bin, or where ``mask`` is off, are not counted.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 8)
    ...     tt.store(out + tt.arange(0, 4), tt.histogram(i % 3, 4))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [3, 3, 2, 0]
    """
    x, bins = number(b, input), constant_int(num_bins, "num_bins")
    if not x.type.dtype.is_int or not x.type.shape:
        raise KernelTypeError(f"a histogram is of a tile of integers, not of {x.type}", argument="input")
    if bins < 1:
        raise KernelValueError(f"num_bins is {bins}; there must be one at least", argument="num_bins")
    x = x if x.type.dtype.bits >= 32 else cast_value(b, x, int32)
    if mask is not None:
        x = OPS["where"].rule(b, as_mask(b, mask), x, -1 if x.type.dtype.kind == "i" else x.type.dtype.range[1])
    return b.add("histogram", (x,), Type(int32, (bins,)))
