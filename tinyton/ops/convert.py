"""Moving a tile from one layout to another, where two demands on it differ."""

from __future__ import annotations

from ..ir import Builder, Value
from . import op


def _convert(run, op, x):
    return x


def _emit_convert(e, op):
    """Moves a tile between two layouts through shared memory; rows are one element longer, against bank conflicts."""
    (x,) = op.operands
    source, target, dtype = e.layout_of(x), e.layout_of(op.result), op.result.type.dtype
    pitch = source.shape[-1] + (len(source.shape) > 1)
    size = pitch
    for n in source.shape[:-1]:
        size *= n
    memory = e.shared(dtype, size)
    with e.once_per_element(source), e.loop(source, [op]) as s:
        s.line(f"{memory}[{s.position((*source.shape[:-1], pitch))}] = {s.get(x)};")
    e.barrier()
    with e.loop(target, [op]) as s:
        s.line(f"{e.cell(op.result, s)} = {memory}[{s.position((*source.shape[:-1], pitch))}];")


@op(numpy=_convert, emit=_emit_convert, kind="statement", public=False)
def convert(b: Builder, x: Value) -> Value:
    """The same tile in another layout."""
    return b.add("convert", (x,), x.type)
