"""Loops that are skewed: a product that takes what another one of its round gives is sent in the next round, behind the
first product of that: tensor cores are busy with it while the threads compute what comes between the two (Shah et al.,
*FlashAttention-3*, 2024)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..dtypes import bool_
from ..ir import Block, Builder, Op, Type, Value
from ..ops import OPS
from .prefetch import needed

WHY = "; it is sent a round later, while what comes before it is computed for the next"


def late(loop: Op, alone: Iterable[Op], count_of: dict[Value, int]) -> tuple[Op, Op, list[Op]] | None:
    """Of products that are ``alone`` in reading a ring, one that can be sent a round later; another one of which its
    left operand is made; and what changes its sums before it, element by element. Nothing else reads those."""
    (body,) = loop.blocks
    for product in alone:
        left, _, start = product.operands
        first = [op for op in body.ops if op.attrs.get("how") == "wgmma" and op.result in needed(body, [left])]
        scale, read = [], {param for _, param, end, _ in loop.carried if end is product.result}
        for op in body.ops:
            if op is not product and not read.isdisjoint(op.operands):
                scale.append(op)
                read.update(op.results)
        simple = all(OPS[op.name].kind in ("elementwise", "typed") for op in scale)
        known = all(count_of[v] == sum(op.operands.count(v) for op in body.ops) for v in read)
        if first and simple and known and start in read and count_of[left] == count_of[product.result] == 1:
            return product, first[0], scale
    return None


def skew(b: Builder, loop: Op, product: Op, first: Op, scale: list[Op], ring: int) -> None:
    """Appends a loop that is served. Before: ``for k: s = x @ K; p = f s; o = p @ V + g o``. After: ``if there is a
    round: s = x @ K; p = f s; o = g o; for k in the others: s = x @ K; o = p @ V + o; p = f s; o = g o``, and behind
    that, ``o = p @ V + o``. A round waits for its ``V``, which it does not multiply, before it waits for ``o``: there,
    it branches, and ptxas does not let ``f`` sink behind that, where nothing would be multiplied meanwhile."""
    (body,) = loop.blocks
    index, (low, stop, step), k = body.params[0], loop.head, body.yields.index(product.result)
    left, right, start = product.operands
    sums, before, held = body.params[1 + k], Value(left.type), Value(left.type)
    (place,) = (op for op in body.ops if left in op.results)
    rest: list[Op] = []
    its: list[Op] = []
    for op in body.ops:
        if op is product:
            why = {"why": f"{op.attrs['why']}{WHY}"}
            its.append(replace(op, operands=(before, right, sums), attrs=op.attrs | why))
        elif op.attrs.get("ring") == ring or not needed(body, [right]).isdisjoint(op.results):
            its.append(replace(op, attrs=op.attrs | {"early": False}) if op.name == "sent" else op)
        elif op is not place and op not in scale:
            rest.append(op)
    at = rest.index(first) + 1
    while rest[at:] and rest[at].name == "done":
        at += 1
    sent = Op("sent", (), (), {"ring": ring, "early": True}, (), product.loc)
    hold = Op("hold", (*place.operands, before), (held,), place.attrs, (), place.loc)
    gives = (*body.yields[:k], start, *body.yields[k + 1 :], held)

    b.loc = loop.loc
    there = b.add("more", (low, stop, step), Type(bool_), first=True)
    inner, new = Builder(), {index: low} | {param: start for start, param, _, _ in loop.carried}
    inner.ops += copies([*rest, sent, *scale, replace(hold, operands=place.operands)], new)
    inner.loc = loop.loc
    more = inner.add("more", (low, stop, step), Type(bool_), first=False)
    second = inner.add("where", (more, inner.add("add", (low, step), low.type), stop), low.type)
    starts = tuple(new.get(v, v) for v in gives)
    new = {sums: product.result}
    ops = (*rest[:at], *its, *rest[at:], sent, *copies(scale, new), hold)
    block = Block((*body.params, before), ops, tuple(new.get(v, v) for v in gives))
    results = tuple(Value(v.type, v.name) for v in (*loop.results, held))
    inner.ops.append(replace(loop, operands=(second, stop, step, *starts), results=results, blocks=(block,)))
    new = {sums: results[k], before: results[-1]}
    inner.ops += copies(its, new)
    some = Block((), tuple(inner.ops), (*results[:k], new[product.result], *results[k + 1 : -1]))
    b.ops.append(Op("if", (there,), loop.results, {}, (some, Block((), (), loop.operands[3:])), loop.loc))


def copies(ops: Iterable[Op], new: dict[Value, Value]) -> list[Op]:
    """The ops once more, with values of their own, which are added to ``new``."""

    def fresh(old: tuple[Value, ...]) -> tuple[Value, ...]:
        new.update({v: Value(v.type, v.name) for v in old})
        return tuple(new[v] for v in old)

    def block(old: Block) -> Block:
        return Block(fresh(old.params), tuple(map(copy, old.ops)), tuple(new.get(v, v) for v in old.yields))

    def copy(op: Op) -> Op:
        operands, blocks = tuple(new.get(v, v) for v in op.operands), tuple(map(block, op.blocks))
        return replace(op, operands=operands, results=fresh(op.results), blocks=blocks)

    return [copy(op) for op in ops]
