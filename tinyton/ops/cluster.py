"""Blocks of a cluster, which run a program together: what each has of a sum is added up by the first, which reads it in
the shared memory of the others (PTX ISA, *mapa*, *barrier.cluster*)."""

from __future__ import annotations

from ..ir import Builder, Op, Value
from . import op


@op(
    numpy=None,
    emit=lambda e, op: f"(int)(blockIdx.x % {op.attrs['blocks']})",
    kind="index",
    cheap=True,
    public=False,
)
def rank(b: Builder, blocks: int) -> None:
    """Which of the ``blocks`` that run a program together this is."""


def _emit_gathered(e, op):
    """A thread leaves its registers, as many at a time as one access takes, beside those of its neighbours."""
    (x,), first, blocks, dtype = op.operands, op.attrs["first"], op.attrs["blocks"], op.result.type.dtype
    e.alias(op.result, x)
    (name, layout), before = e.arrays[op.result], e.own_bytes
    count = layout.registers
    width = min(count, 16 // dtype.itemsize)
    left, theirs, more, r, other = map(e.fresh, ("left", "theirs", "more", "r", "other"))
    cells = [f"{name}[{r} + {k}]" if count > 1 else name for k in range(width)]
    mine = f" + thread * {width}" if e.threads > 1 else ""
    place = f"({r} * {e.threads}{mine}) * {dtype.itemsize}"
    head = f"for (int {r} = 0; {r} < {count}; {r} += {width})"
    if not first:  # what others have left of a sum before has been read
        e.line(f"{e.use('blocks_meet')}();")
    e.line(f"char* const {left} = (char*){e.shared(dtype, count * e.threads, keep=True)};")
    e.open(f"if (blockIdx.x % {blocks} != 0) {{")
    e.line("#pragma unroll")
    e.line(f"{head} {e.access('put', dtype, width)}({left} + {place}, {', '.join(cells)});")
    e.shut()
    e.line(f"{e.use('blocks_meet')}();")
    e.open(f"for (int {other} = 1; {other} < {blocks} && blockIdx.x % {blocks} == 0; ++{other}) {{")
    e.line(f"const char* const {theirs} = {e.use('in_block')}({left}, {other});")
    e.line("#pragma unroll")
    e.open(f"{head} {{")
    e.line(f"{e.c(dtype)} {more}[{width}];")
    e.line(f"{e.access('get', dtype, width)}({more}, {theirs} + {place});")
    add = Op("add", (x, x), op.results)
    for k, cell in enumerate(cells):
        e.line(f"{cell} = {e.expression(add, [cell, f'{more}[{k}]'])};")
    e.shut()
    e.shut()
    e.most_bytes, e.own_bytes = max(e.most_bytes, e.own_bytes), before


@op(numpy=None, emit=_emit_gathered, kind="statement", effect=True, public=False)
def gathered(b: Builder, x: Value, blocks: int, first: bool) -> None:
    """In the first block of a cluster, the sum of what all have: the ``first`` such sum of a program, or another."""


def _emit_leave(e, op):
    e.line(f"{e.use('blocks_arrive')}();")
    e.open(f"if ({e.atom(op.operands[0])} != 0) {{  // the first block reads what this one has left")
    e.line(f"{e.use('blocks_wait')}();")
    e.line("return;")
    e.shut()


@op(numpy=None, emit=_emit_leave, kind="statement", effect=True, public=False)
def leave(b: Builder, rank: Value) -> None:
    """The blocks of a cluster end here, but the first."""
