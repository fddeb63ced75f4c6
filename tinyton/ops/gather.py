"""Elements by computed places, through shared memory."""

from __future__ import annotations

import numpy as np

from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from . import op
from .convert import pitched, room, stage
from .rearrange import full_tile
from .typing import axis_of, number


def _gather(run, op, x, index):
    axis = op.attrs["axis"]
    n = x.shape[axis]
    if index.size and not (0 <= index.min() and index.max() < n):
        wrong = int(index[(index < 0) | (index >= n)].flat[0])
        raise KernelValueError(f"program {run.program} gathers element {wrong} of an axis of {n}", op.loc)
    return np.take_along_axis(x, index.astype(np.int64), axis)


def _emit_gather(e, op):
    x, index = op.operands
    shape, axis, layout = e.own_layout(x).shape, op.attrs["axis"], e.layout_of(op.result)
    memory = e.shared(x.type.dtype, room(shape))
    stage(e, op, x, memory)
    e.barrier()
    e.declare(op.result)
    with e.loop(layout, [op]) as s:
        at = list(s.coordinates)
        at[axis] = f"({s.atom(index)} & {shape[axis] - 1})"  # never outside
        s.line(f"{e.cell(op.result, s)} = {memory}[{s.position(pitched(shape), at)}];")


@op(numpy=_gather, emit=_emit_gather, kind="statement", exact=True, apart=(0,))
def gather(b: Builder, src: Value, index: Value, axis: int) -> Value:
    """Element ``index[..., i, ...]`` of ``src`` along ``axis``, for each element i of the int tile ``index``, whose
    other extents are those of ``src``. An index outside is an error in the interpreter, and some element of the axis
    elsewhere.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.gather(i * 10, 3 - i, 0))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [30, 20, 10, 0]
    """
    x, at = full_tile(number(b, src)), full_tile(number(b, index))
    k, shape = axis_of(axis, len(x.type.shape)), at.type.shape
    if not at.type.dtype.is_int or at.type.dtype.kind == "b":
        raise KernelTypeError(f"an index is an int tile, not {at.type}", argument="index")
    if (*shape[:k], *shape[k + 1 :]) != (*x.type.shape[:k], *x.type.shape[k + 1 :]):
        what = f"the index is {at.type}: apart from axis {k}, its extents must be those of {x.type}"
        raise KernelTypeError(what, argument="index")
    return b.add("gather", (x, at), x.type.with_shape(shape), axis=k)
