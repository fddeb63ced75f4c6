"""Loops and branches as ops that hold blocks."""

from __future__ import annotations

from ..ir import Builder
from . import op


def _for(run, op, low, high, step, *carried):
    values = carried
    for k in range(int(low), int(high), int(step)) if step else ():
        values = run.block(op.blocks[0], (op.blocks[0].params[0].type.dtype.numpy.type(k), *values))
    return values


def _emit_for(e, op):
    low, high, step = (e.atom(v) for v in op.operands[:3])
    (body,) = op.blocks
    index, carried = body.params[0], body.params[1:]
    for param, start, result in zip(carried, op.operands[3:], op.results, strict=True):
        e.carry(param, start)
        e.alias(result, param)
    name, ctype = e.name(index), e.c(index.type.dtype)
    by = e.constant(op.operands[2])
    if by is not None and by == 1:
        e.open(f"for ({ctype} {name} = {low}; {name} < {high}; ++{name}) {{", op)
    else:  # counted in 64 bits: the step past the end may not fit the index
        wide, count = e.dialect.c(e.dialect.wide), e.fresh(f"{name}_at")
        test = f"{count} {'<' if by is not None and by > 0 else '>'} {high}"
        test = test if by is not None else f"{step} > 0 ? {count} < {high} : {step} < 0 && {count} > {high}"
        e.open(f"for ({wide} {count} = {low}; {test}; {count} += {step}) {{", op)
        e.line(f"const {ctype} {name} = ({ctype}){count};")
    e.bind(index, name)
    e.block(body)
    e.assign(carried, body.yields)
    e.shut()


@op(numpy=_for, emit=_emit_for, kind="statement", effect=True, public=False)
def for_(b: Builder) -> None:
    """``for k in range(low, high, step)`` at run time; the block gives the carried values of the next round."""


def _if(run, op, condition):
    return run.block(op.blocks[0 if condition else 1], ())


def _emit_if(e, op):
    for result in op.results:
        e.declare_for(result)
    e.open(f"if ({e.scalar(op.operands[0])}) {{", op)
    for k, branch in enumerate(op.blocks):
        if k and (branch.ops or branch.yields):
            e.reopen("} else {")
        e.block(branch)
        e.assign(op.results, branch.yields)
    e.shut()


@op(numpy=_if, emit=_emit_if, kind="statement", effect=True, public=False)
def if_(b: Builder) -> None:
    """One of two blocks, chosen by a scalar."""
