"""What `passes.prefetch` makes of a load that runs ahead: one for the next round of a loop, and what takes its elements
when that round has come. In between they are kept as they lie in memory."""

from __future__ import annotations

import numpy as np

from ..dtypes import pack, uint16
from ..ir import Builder, Value
from ..layout import Layout
from . import op
from .memory import _vectors

HELD = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}  # of a struct, nvcc would wait for the parts


def _more(run, op, k, stop, step):
    k, stop, step = int(k), int(stop), int(step)
    return (stop - k) * (1 if step > 0 else -1) > (0 if op.attrs["first"] else abs(step)) and step != 0


def _emit_more(e, op, k, stop, step):
    dtype, (at, _, by) = op.operands[0].type.dtype, (e.plan.facts[v] for v in op.operands)
    rising, falling = (by.within(dtype) and x for x in (by.low > 0, by.high < 0))
    if op.attrs["first"]:
        up, down = f"{k} < {stop}", f"{k} > {stop}" if falling else f"{step} < 0 && {k} > {stop}"
    elif rising and at.low >= 0:
        up = down = f"{stop} - {k} > {step}"
    else:  # without a sign, the difference of any two integers fits their type
        k, stop, by = (f"({e.unsigned(dtype)}){x}" for x in (k, stop, step))
        up, down = f"{stop} - {k} > {by}", f"{k} - {stop} > 0 - {by}"
    return up if rising else down if falling else f"({step} > 0) ? ({up}) : ({down})"


@op(numpy=_more, emit=_emit_more, kind="typed", exact=True, public=False)
def more(b: Builder, k: Value, stop: Value, step: Value, first: bool) -> None:
    """Whether a range that has come to ``k`` goes on; ``first``: whether it has any number, if it starts there."""


def _following(run, op, k, more, step, stop):
    return k + step if more and not op.attrs["first"] else k


def _emit_following(e, op, k, more, step, stop):
    return k if op.attrs["first"] else f"{more} ? {k} + {step} : {k}"


@op(numpy=_following, emit=_emit_following, kind="typed", exact=True, public=False)
def following(b: Builder, k: Value, more: Value, step: Value, stop: Value, first: bool) -> None:
    """The index of a loop in the next round, if there is one; ``first``: in the first round."""


def _slot(e, op) -> tuple[Value, int]:
    """What holds the elements: the result of the first load into the same registers, and in vectors of how many."""
    loads = [o for o in e.kernel.ops() if o.name == "load_ahead" and o.attrs["slot"] == op.attrs["slot"]]
    return loads[0].result, min(e.plan.vectors.get(o, 1) for o in loads)


def _kind(e, dtype, width: int) -> str:
    """The type of a vector, as it is held."""
    if width == 1:
        return e.dialect.stored(dtype)
    struct, size = f"{dtype.name}x{width}", width * dtype.itemsize
    text = f"typedef struct __attribute__((aligned({size}))) {{ {e.dialect.stored(dtype)} at[{width}]; }} {struct};"
    e.helpers.setdefault(struct, text)
    return HELD[size] if e.dialect.name == "cuda" else struct


def _helper(e, verb: str, dtype, width: int) -> str:
    """The function that will "take" the elements of a vector, or that gives a "full" one, all of one element."""
    struct, kind, stored = f"{dtype.name}x{width}", _kind(e, dtype, width), e.dialect.stored(dtype)
    name, same = f"{verb}_{struct}", kind == struct
    if verb == "take":
        head = f"void {name}({e.c(dtype)}* to, const {kind} {'v' if same else 'bits'})"
        body = [] if same else [f"const {struct} v = *(const {struct}*)&bits;"]
        body.append(" ".join(f"to[{k}] = {e.load_text(f'v.at[{k}]', dtype)};" for k in range(width)))
    else:
        head = f"{kind} {name}({stored} x)"
        body = [f"const {struct} v = {{{{{', '.join(['x'] * width)}}}}};"]
        body.append(f"return {'v' if same else f'*(const {kind}*)&v'};")
    return e.function(name, f"{head} {{", *body)


def _held(e, v: Value, s, width: int) -> str:
    """C for the vector of the slot ``v`` to which the place in a loop over registers belongs."""
    name, layout = e.arrays[v]
    if layout.registers <= width:
        return name
    parts = []
    for run in reversed(s.loops):
        k = (1 << run.low) // width
        parts.append(s.variable(run) + (f" * {k}" if k > 1 else "" if k else f" / {width}"))
    return f"{name}[{' + '.join(parts)}]"


def _other(e, op, s) -> str:
    """What takes the place of an element that is off, as it would lie in memory."""
    dtype = op.result.type.dtype
    if len(op.operands) < 4:
        return "0"
    value = e.made.get(e.root(op.operands[3]))
    if dtype.is_narrow and value and value.name == "const":
        return e.dialect.literal(int(pack(np.float32(value.attrs["value"]), dtype).view(f"u{dtype.itemsize}")), uint16)
    return e.bits_text(s.get(op.operands[3]), dtype)


def _emit_ahead(e, op):
    (ptr, more, *_), v, dtype = op.operands, op.result, op.result.type.dtype
    slot, width = _slot(e, op)
    kind, cache = _kind(e, dtype, width), op.attrs.get("cache") if e.dialect.name == "cuda" else None
    if slot is v:
        name = e.names[v] = e.text[v] = e.fresh(f"{v.name or 'load'}_ahead")
        layout = e.plan.layouts[v] if v.type.shape else Layout((), (), ())
        e.arrays[v], e.sizes[v] = (name, layout), layout.registers * dtype.itemsize
        count = layout.registers // width
        e.line(f"{kind} {name}{f'[{count}]' if count > 1 else ''};")
    e.alias(v, slot)
    layout = e.arrays[v][1]

    def vector(e, op, s, width: int, condition: str = "") -> str:
        text = f"(const {e.dialect.memory}{kind}*)({s.get(ptr)})"
        text = f"__ld{cache}({text})" if cache else f"*{text}"
        if condition:
            text = f"({condition}) ? {text} : {_helper(e, 'full', dtype, width)}({_other(e, op, s)})"
        return f"{_held(e, slot, s, width)} = {text};"

    def element(e, op, s) -> str:
        cell, condition = _held(e, slot, s, width), s.condition(op)
        cell = f"(({e.dialect.stored(dtype)}*)&{cell})[{s.offset}]" if width > 1 else cell
        text = f"__ld{cache}(&{s.pointer(ptr)})" if cache else s.pointer(ptr)
        return f"{cell} = {f'({condition}) ? {text} : {_other(e, op, s)}' if condition else text};"

    with e.guard("" if e.constant(more) is True else e.scalar(more)):
        alike = len(op.operands) < 4 or not e.root(op.operands[3]).type.shape
        if width > 1 and not (alike and e.even(op, layout, width)):
            return _vectors(e, op, layout, width, vector, element)
        with e.loop(layout, [op], step=width) as s:
            s.line(vector(e, op, s, width, s.condition(op)) if width > 1 else element(e, op, s))


def _ahead(run, op, ptr, more, mask=None, other=None):
    if not more:  # no round, no access
        return np.zeros(op.result.type.shape, op.result.type.dtype.register.numpy)
    return run.load(op, ptr, more if mask is None else mask & more, other)


@op(numpy=_ahead, emit=_emit_ahead, kind="statement", public=False, reads=True, mask=2)
def load_ahead(b: Builder, ptr: Value, more: Value, *rest: Value, slot: int, **hints: object) -> None:
    """A `load` for the next round, if there is one."""


def _emit_loaded(e, op):
    slot, width = _slot(e, op)
    dtype = op.result.type.dtype
    if width == 1:
        return e.join(op, lambda e, op, s: s.define(op.result, e.load_text(_held(e, slot, s, 1), dtype)))
    e.declare(op.result)
    with e.loop(e.arrays[op.result][1], [op], step=width) as s:
        s.line(f"{_helper(e, 'take', dtype, width)}(&{e.cell(op.result, s)}, {_held(e, slot, s, width)});")


@op(numpy=lambda run, op, x: x, emit=_emit_loaded, kind="statement", public=False)
def loaded(b: Builder, x: Value, slot: int) -> None:
    """What `load_ahead` has asked for, in the round that needs it."""
