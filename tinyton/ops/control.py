"""Loops and branches as ops that hold blocks."""

from __future__ import annotations

from ..ir import Builder
from . import op


def _for(run, op, low, high, step, *carried):
    for k in range(int(low), int(high), int(step)) if step else ():
        if op.attrs.get("stops") and not carried[0]:
            break
        carried = run.block(op.blocks[0], (op.blocks[0].params[0].type.dtype.numpy.type(k), *carried))
    return carried


ROUNDS = """
{fn} {U} {name}({T} low, {T} high, {T} step) {{  // how many a range has; in unsigned arithmetic, nothing overflows
    if (step > 0 && low < high) return (({U})high - ({U})low - 1) / ({U})step + 1;
    if (step < 0 && low > high) return (({U})low - ({U})high - 1) / (({U})0 - ({U})step) + 1;
    return 0;
}}"""


def _carry(e, op) -> str:
    """Declares what goes round; gives the C of the flag that a loop goes on by."""
    for start, param, _, result in op.carried:
        # >>> stage 7
        if start in e.made and e.made[start].name in ("load_ahead", "hold"):
            e.alias(param, start)
        # <<<
        e.declare(param)
        e.materialise(start, *e.arrays[param])
        e.alias(result, param)
    return e.scalar(op.carried[0][1]) if op.name == "while" or "stops" in op.attrs else ""


def _round(e, op) -> None:
    (body,) = op.blocks
    e.in_place(op)
    with e.rounds():
        e.block(body)
    e.assign(tuple(param for _, param, _, _ in op.carried), body.yields)
    e.shut()


def _emit_for(e, op):
    low, high, step = (e.atom(v) for v in op.operands[:3])
    index = op.blocks[0].params[0]
    going = "".join(f" && {flag}" for flag in [_carry(e, op)] if flag)
    name, dtype, ctype = e.name(index), index.type.dtype, e.c(index.type.dtype)
    if e.constant(op.operands[2]) == 1:
        e.open(f"for ({ctype} {name} = {low}; {name} < {high}{going}; ++{name}) {{", op)
    else:  # by its rounds: the step past the end may not fit the index
        left, unsigned = e.fresh("rounds"), e.unsigned(dtype)
        rounds = f"{unsigned} {left} = {e.helper('rounds', ROUNDS, dtype)}({low}, {high}, {step})"
        e.line(f"{ctype} {name} = {low};")
        after = f"{name} = ({ctype})(({unsigned}){name} + ({unsigned}){step})"
        e.open(f"for ({rounds}; {left} > 0{going}; --{left}, {after}) {{", op)
    e.text[index] = name
    _round(e, op)


@op(numpy=_for, emit=_emit_for, kind="statement", effect=True, public=False)
def for_(b: Builder) -> None:
    """``for k in range(low, high, step)`` at run time; the block gives the carried values of the next round. With
    ``stops``, the first of them says whether there is one."""


def _while(run, op, *carried):
    while carried[0]:
        carried = run.block(op.blocks[0], carried)
    return carried


def _emit_while(e, op):
    e.open(f"while ({_carry(e, op)}) {{", op)
    _round(e, op)


@op(numpy=_while, emit=_emit_while, kind="statement", effect=True, public=False)
def while_(b: Builder) -> None:
    """Rounds for as long as the first carried value holds."""


def _if(run, op, condition):
    return run.block(op.blocks[0 if condition else 1], ())


def _emit_if(e, op):
    for result in op.results:
        e.declare(result)
    first, second = (bool(b.ops or b.yields) for b in op.blocks)
    e.open(f"if ({e.scalar(op.operands[0]) if first else '!' + e.atom(op.operands[0])}) {{", op)
    for k, branch in enumerate(op.blocks):
        if k and first and second:
            e.reopen("} else {")
        e.block(branch)
        e.assign(op.results, branch.yields)
    e.shut()


@op(numpy=_if, emit=_emit_if, kind="statement", effect=True, public=False)
def if_(b: Builder) -> None:
    """One of two blocks, chosen by a scalar."""
