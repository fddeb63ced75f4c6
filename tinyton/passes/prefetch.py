"""Loads that run ahead: what a round of a loop loads is asked for before the work of the round before it, which then
goes on while memory answers. (The idea: Lam, *Software pipelining*, 1988.)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from math import prod

from ..dtypes import bool_
from ..ir import Block, Builder, Kernel, Op, Type, Value, rewrite, walk
from ..ops import OPS
from .fold import fold
from .plan import padded

HELD_BYTES = 128  # of a thread's registers, at most: more would cost occupancy


def prefetch(kernel: Kernel, threads: int) -> Kernel:
    """Before: ``for k: x = load p + k; ...``. After: ``a = load_ahead p + low; for k, a: x = loaded a;
    a = load_ahead p + next k; ...``, where nothing is loaded for a round that there is not. That is done where a
    ``tt.range(..., num_stages=2)`` asks for it, to loads whose addresses follow from the number of the round."""
    slots, constants = count(), {op.result for op in kernel.ops() if op.name == "const"}

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        ahead = op.name == "for" and op.attrs.get("stages", 1) > 1  # type: ignore[operator]
        loads = _loads(op, threads) if ahead else []
        if loads:
            b.ops.append(_rotated(b, op, loads, slots, constants))
        return bool(loads)

    new = rewrite(kernel, visit) if threads > 1 else kernel
    return fold(new) if next(slots) else kernel


def _loads(loop: Op, threads: int) -> list[Op]:
    """The loads of a loop that run ahead: as many as there is room for."""
    room, found = HELD_BYTES, []
    for op in early(loop):
        size = max(1, prod(padded(op.result.type.shape)) // threads) * op.result.type.dtype.itemsize
        if size <= room:
            room -= size
            found.append(op)
    return found


def early(loop: Op) -> Iterator[Op]:
    """The loads in a loop's body itself that may run ahead, as their addresses follow from the number of the round.
    They pass no effect but the stores of a round, and those only in a loop that asks for it."""
    if "stops" in loop.attrs:
        return
    (body,) = loop.blocks
    for op in walk(body):
        entry = OPS[op.name]
        free = op.blocks or entry.moves and (not entry.writes or "stages" in loop.attrs) or op.name == "assume"
        if entry.effect and not free or op.name == "inline_asm":
            return
    known, changing = known_early(loop)
    for op in body.ops:
        if op.name == "load" and "volatile" not in op.attrs and not op.operands[0].type.shared:
            if known.issuperset(op.operands) and not changing.isdisjoint(op.operands):
                yield op


def known_early(loop: Op) -> tuple[set[Value], set[Value]]:
    """The values that the next round will have and that are easy to tell a round earlier; and those of them that change
    from round to round."""
    (body,) = loop.blocks
    made = {v for op in body.ops for v in op.results}.union(body.params)
    fixed = {v for op in body.ops for v in (*op.operands, *body.yields)} - made
    params = set(body.params)
    while True:
        known, changing = fixed | params, set(params)
        for op in body.ops:
            entry = OPS[op.name]
            easy = entry.cheap or entry.kind in ("view", "index") or op.results and not op.result.type.shape
            if easy and entry.kind != "statement" and known.issuperset(op.operands):
                known.update(op.results)
                if not changing.isdisjoint(op.operands):
                    changing.update(op.results)
        kept = {body.params[0]}.union(p for _, p, end, _ in loop.carried if p in params and end in known)
        if kept == params:
            return known, changing
        params = kept


def needed(body: Block, values: list[Value]) -> set[Value]:
    """``values`` and all that they are made of."""
    found = set(values)
    for op in reversed(body.ops):
        if not found.isdisjoint(op.results):
            found.update(op.operands)
    return found


def again(b: Builder, body: Block, values: list[Value], given: dict[Value, Value]) -> dict[Value, Value]:
    """Appends what computes ``values`` again, for a round that begins with ``given``, and adds the results to that."""
    made_of, new = needed(body, values), dict(given)
    for op in body.ops:
        if not made_of.isdisjoint(op.results):
            new[op.result] = Value(op.result.type)
            b.ops.append(replace(op, operands=tuple(new.get(v, v) for v in op.operands), results=(new[op.result],)))
    return new


def _rotated(b: Builder, loop: Op, loads: list[Op], slots: Iterator[int], constants: set[Value]) -> Op:
    """The loop with ``loads`` a round ahead; what comes before it is appended."""
    (body,) = loop.blocks
    index, (low, stop, step) = body.params[0], loop.head
    wanted = [v for op in loads for v in op.operands]
    carried = [(start, p, end) for start, p, end, _ in loop.carried if p in needed(body, wanted)]
    inner, numbers = Builder(), [next(slots) for _ in loads]
    b.loc = None

    def ask(b: Builder, there: Value, given: dict[Value, Value]) -> tuple[Value, ...]:
        """The loads for the round that begins with ``given``, if it is ``there``."""
        new, found = again(b, body, wanted, given), []
        for op, slot in zip(loads, numbers, strict=True):
            b.loc = op.loc
            ptr, *rest = (new.get(v, v) for v in op.operands)
            found.append(b.add("load_ahead", (ptr, there, *rest), op.result.type, slot=slot, **op.attrs))
        return tuple(found)

    def begins(b: Builder, k: Value, first: bool) -> tuple[Value, Value]:
        """Whether there is a round after the one of ``k`` (or from ``k`` on), and its number."""
        there, after = Value(Type(bool_), "more"), Value(k.type, "" if first else f"next_{index.name}")
        b.ops.append(Op("more", (k, stop, step), (there,), {"first": first}))
        b.ops.append(Op("following", (k, there, step, stop), (after,), {"first": first}))
        return there, after

    some, k = begins(b, low, True)
    first = ask(b, some, {index: low if low in constants else k} | {p: start for start, p, _ in carried})
    held = tuple(Value(v.type, op.result.name) for v, op in zip(first, loads, strict=True))
    for v, op, slot in zip(held, loads, numbers, strict=True):
        inner.ops.append(Op("loaded", (v,), op.results, {"slot": slot}, (), op.loc))
    more, k = begins(inner, index, False)
    ends = again(inner, body, [end for _, _, end in carried], {})
    then = ask(inner, more, {index: k} | {p: ends.get(end, end) for _, p, end in carried})
    rest = (op for op in body.ops if op not in loads)
    new = Block((*body.params, *held), (*inner.ops, *rest), (*body.yields, *then))
    results = (*loop.results, *(Value(v.type) for v in held))
    return replace(loop, operands=(*loop.operands, *first), results=results, blocks=(new,))
