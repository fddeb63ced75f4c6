"""Loops whose tiles come through a ring in shared memory: while a round multiplies, the tiles of later rounds are on
their way. (The idea: Lam, *Software pipelining*, 1988; on GPUs, asynchronous copies in stages.)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from ..dtypes import bool_, int32
from ..ir import Block, Builder, Kernel, Op, Type, Value, rewrite, uses, walk
from ..ops.tensor import size
from .fold import fold
from .prefetch import again, early, needed

AHEAD = 80  # the architecture since which there are copies that threads do not wait for
STAGES = 3  # of a loop that says nothing else
ROOM = 160 * 1024  # for them; beyond, two must do


def pipeline(kernel: Kernel, stages: int | None = None) -> Kernel:
    """Before: ``for k: x = load p + k; t = place x; ...``. After, with three stages: ``ring; copy p + low to 0; copy
    p + low + 1 to 1; for k, read, write: wait; t = arrived at read; copy p + k + 2 to write; ...; ring_end``. That is
    done to loads that are multiplied on tensor cores and nothing else, and whose addresses follow from the number of
    the round: in loops that store nothing, or that ask for it by ``tt.range(..., num_stages=)``. ``stages`` is for
    loops that do not say."""
    rings, count_of = count(), uses(kernel)

    def visit(op: Op, renamed: dict[Value, Value], b: Builder) -> bool:
        many = op.attrs.get("stages", stages) if op.name == "for" else 1
        pairs = _loads(op, count_of) if many is None or many > 1 else []  # type: ignore[operator]
        if pairs:
            many = many or _fitting(pairs)
            _rotated(b, op, pairs, rings, many, _patient(op, pairs, count_of) if many > 2 else [])
        return bool(pairs)

    new = rewrite(kernel, visit)
    return fold(new) if next(rings) else kernel


def _fitting(pairs: list[tuple[Op, Op]]) -> int:
    """How many stages a loop has that does not say."""
    return STAGES if STAGES * sum(size(op.result.type) for op, _ in pairs) <= ROOM else 2


def _loads(loop: Op, count_of: dict[Value, int]) -> list[tuple[Op, Op]]:
    """Loads in a loop's body, each with the op that places what it loads."""
    loads = {op.result: op for op in early(loop) if count_of[op.result] == 1}
    places = (op for op in loop.blocks[0].ops if op.name == "place")
    return [(loads[op.operands[0]], op) for op in places if op.operands[0] in loads]


def _patient(loop: Op, pairs: list[tuple[Op, Op]], count_of: dict[Value, int]) -> list[Op]:
    """The products of a loop's body, if nothing of the next round needs their sums but the same products: then they may
    go on during the next round."""
    (body,) = loop.blocks
    made = {v: op for op in body.ops for v in op.results}
    kept = {param: end for _, param, end, _ in loop.carried}
    there = {place.result for _, place in pairs}

    def lies(v: Value) -> bool:
        """True for a tile that nobody overwrites in the next round."""
        while v in made and made[v].name == "permute":
            v = made[v].operands[0]
        return v in there or v not in made

    found = [op for op in body.ops if op.name == "matmul" and op.attrs.get("how") == "wgmma"]
    for op in found:
        x, y, acc = op.operands
        alone = count_of.get(acc) == count_of.get(op.result) == 1 and kept.get(acc) is op.result
        if not (alone and lies(x) and lies(y)):
            return []
    return found if all(op in found for op in walk(body) if op.attrs.get("how") == "wgmma") else []


def _rotated(
    b: Builder, loop: Op, pairs: list[tuple[Op, Op]], rings: Iterator[int], stages: int, patient: list[Op]
) -> None:
    """Appends the loop with what its ``pairs`` load some rounds ahead, and what comes before and after it. If products
    are ``patient``, those of the round before still read their tiles, so that copies run one round less ahead."""
    (body,) = loop.blocks
    far = stages - 1 - bool(patient)
    index, (low, stop, step) = body.params[0], loop.head
    wanted = [v for op, _ in pairs for v in op.operands]
    carried = [(start, p, end) for start, p, end, _ in loop.carried if p in needed(body, wanted)]
    numbers = [next(rings) for _ in pairs]
    before, inner = b, Builder()

    def ask(b: Builder, there: Value, given: dict[Value, Value], slot: Value) -> None:
        """The copies for the round that begins with ``given``, if it is ``there``."""
        new = again(b, body, wanted, given)
        for (op, place), ring in zip(pairs, numbers, strict=True):
            b.loc = op.loc
            ptr, *rest = (new.get(v, v) for v in op.operands)
            how = {word: place.attrs[word] for word in ("inner", "rounded")}
            b.add("copy", (ptr, there, slot, *rest), op.result.type, ring=ring, **how)
        b.loc = loop.loc
        b.add("copies_asked", (), None)

    def begins(b: Builder, k: Value, first: bool) -> tuple[Value, Value]:
        """Whether there is a round after the one of ``k`` (or from ``k`` on), and its number."""
        there = b.add("more", (k, stop, step), Type(bool_), first=first)
        return there, b.add("following", (k, there, step, stop), k.type, first=first)

    def after(b: Builder, given: dict[Value, Value]) -> dict[Value, Value]:
        """What is carried into the round after the one that begins with ``given``."""
        ends = again(b, body, [end for _, _, end in carried], given)
        return {p: ends.get(end, end) for _, p, end in carried}

    def number(k: int) -> Value:
        return before.add("const", (), Type(int32), value=k)

    before.loc = loop.loc
    tiles = {ring: (op.result.name, op.result.type) for ring, (op, _) in zip(numbers, pairs, strict=True)}
    before.add("ring", (), None, tiles=tiles, stages=stages, why=loop.attrs.get("why", ""))
    there, k = begins(before, low, True)
    state = {p: start for start, p, _ in carried}
    for slot in range(far):
        ask(before, there, {index: k, **state}, number(slot))
        state = after(before, {index: k, **state}) if carried else {}
        more, k = begins(before, k, False)
        there = before.add("and", (there, more), more.type)  # where there is no round, more means nothing
    # in the loop, all of that runs so far ahead
    read, write = Value(Type(int32), "read"), Value(Type(int32), "write")
    ahead, coming = Value(index.type, f"{index.name}_ahead"), Value(Type(bool_), "coming")
    states = {p: Value(p.type, f"{p.name}_ahead") for _, p, _ in carried}
    inner.loc = loop.loc
    inner.add("copies_wait", (), None, later=far - 1)
    for (_, place), ring in zip(pairs, numbers, strict=True):
        inner.ops.append(Op("arrived", (read,), (place.result,), {"ring": ring}, (), place.loc))
    ask(inner, coming, {index: ahead, **states}, write)
    following = after(inner, {index: ahead, **states})
    more, then = begins(inner, ahead, False)
    turned = [inner.add("turn", (v,), v.type, stages=stages) for v in (read, write)]
    gone = {op for pair in pairs for op in pair}
    waits = {op: replace(op, attrs=op.attrs | {"patient": len(patient)}) for op in patient}
    rest = tuple(waits.get(op, op) for op in body.ops if op not in gone)
    extra = [read, write, ahead, coming, *states.values()]
    ends = [*turned, then, more, *following.values()]
    starts = [number(0), number(far), k, there, *(state[p] for p in states)]
    new = Block((*body.params, *extra), (*inner.ops, *rest), (*body.yields, *ends))
    results = (*loop.results, *(Value(v.type) for v in extra))
    sums = {result: start for start, param, _, result in loop.carried if any(param is op.operands[2] for op in patient)}
    begun = {start: before.add("products_begin", (start,), start.type) for start in sums.values()}
    operands = (*(begun.get(v, v) for v in loop.operands), *starts)
    before.ops.append(replace(loop, operands=operands, results=results, blocks=(new,)))
    before.loc = loop.loc
    for result in sums:
        before.add("products_wait", (result,), None)
    before.add("ring_end", (), None)
