"""Loops whose rounds a cluster of blocks shares: so many blocks run a program together, each does every so-manieth
round, and behind the loop the first adds up what the others have, and goes on alone. Few programs with long sums then
keep a GPU busy, without a second kernel (CUDA C++ Programming Guide, *Thread Block Clusters*; the idea: split-K)."""

from __future__ import annotations

from dataclasses import replace

from ..dtypes import bool_, int32, int64
from ..ir import Block, Builder, Kernel, Op, Type, Value, uses, walk
from ..ops import OPS
from ..ops.typing import broadcast, cast_value
from .prefetch import again, needed

SINCE = 90  # the architecture that has clusters
MOST = 8  # blocks of one, on every card that has them
PLAIN = ("for", "while", "if", "assume")  # effects that all blocks may have


class Apart(Exception):
    """A program is run by one block, for this reason."""


def cluster(kernel: Kernel, blocks: int, arch: int) -> tuple[Kernel, int]:
    """Before: ``for k in range(low, stop, step): ...; s += x``. After: ``for k in range(low + rank * step, stop, blocks
    * step): ...; s += x``, and behind that ``s = gathered s; leave``. That is done to the last loop that multiplies, or
    else the last of all, if it does nothing but add up. Pointers that go round it are moved as much further. Gives how
    many blocks do it, too: at most as many as a cluster has on every card since ``arch``."""
    if arch < SINCE:
        raise Apart("the card has no clusters")
    blocks = min(blocks, MOST)
    count_of, ops = uses(kernel), kernel.body.ops
    loops = [op for op in ops if op.name == "for"]
    loop = max(reversed(loops), key=_multiplies, default=None)
    if loop is None:
        raise Apart("it has no loop")
    at, made = ops.index(loop), {v: op for op in kernel.ops() for v in op.results}
    (body,) = loop.blocks
    first = (*(o for op in ops[:at] for o in (op, *_inside(op))), *walk(body))
    if others := [op.name for op in first if op.name not in PLAIN and (OPS[op.name].effect or op.attrs.get("run"))]:
        raise Apart(f"it has effects before its sums are there: {others[0]}")
    if any(_multiplies(op) for op in ops[at + 1 :] if op.blocks):
        raise Apart("products come after its loop")
    before = Builder()
    before.loc = loop.loc
    rank = before.add("rank", (), Type(int32), blocks=blocks)
    low, stop, step = _shared_out(before, loop, rank, blocks, made)
    starts, ends, results, inner, gathered = [], [], [], list(body.ops), Builder()
    for start, param, end, result in loop.carried:
        new = result
        if _adds(body, param, end, count_of) and _zero(start, made) and result.type.dtype.bits >= 32:
            new = Value(result.type, result.name)
            how: dict[str, object] = {"blocks": blocks, "first": not gathered.ops}
            gathered.ops.append(Op("gathered", (new,), (result,), how, (), loop.loc))
        elif not count_of[result] and (move := _move(body, param, end)):
            start, end = _further(before, inner, body, start, param, move, rank, blocks)
        else:
            raise Apart(f"{param.name or 'what goes round its loop'} is no sum from 0 on")
        starts.append(start)
        ends.append(end)
        results.append(new)
    if not gathered.ops:
        raise Apart("its loop adds nothing up")
    gathered.loc = loop.loc
    gathered.add("leave", (rank,), None)
    block = Block(body.params, tuple(inner), tuple(ends))
    new_loop = replace(loop, operands=(low, stop, step, *starts), results=tuple(results), blocks=(block,))
    new_ops = (*ops[:at], *before.ops, new_loop, *gathered.ops, *ops[at + 1 :])
    return replace(kernel, body=replace(kernel.body, ops=new_ops)), blocks


def _inside(op: Op) -> list[Op]:
    return [inner for block in op.blocks for inner in walk(block)]


def _multiplies(op: Op) -> bool:
    return any(inner.name == "matmul" for inner in _inside(op))


def _shared_out(b: Builder, loop: Op, rank: Value, blocks: int, made: dict[Value, Op]) -> tuple[Value, Value, Value]:
    """Where a block's rounds of a loop begin and end, and how far they are apart."""
    low, stop, step = loop.head

    def constant(v: Value) -> int:
        return made[v].attrs["value"] if v in made and made[v].name == "const" else 0  # type: ignore[return-value]

    far = blocks * constant(step)
    if low.type.dtype is not int32 or "stops" in loop.attrs or not 0 < far <= int32.range[1]:
        raise Apart("its loop does not count up to its end, in 32 bits, by a number that is known and not too large")
    shift = b.add("mul", (rank, step), step.type)
    begin = b.add("add", (low, shift), low.type)
    if not (low in made and made[low].name == "const" and 0 <= constant(low) <= int32.range[1] - far):
        room = b.add("sub", (cast_value(b, stop, int64), cast_value(b, low, int64)), Type(int64))
        some = b.add("lt", (cast_value(b, shift, int64), room), Type(bool_))  # else the sum might wrap around
        begin, stop = (b.add("where", (some, v, low), low.type) for v in (begin, stop))
    return begin, stop, b.add("const", (), step.type, value=far)


def _adds(body: Block, param: Value, end: Value, count_of: dict[Value, int]) -> bool:
    """Whether a value that goes round a loop is added to, and nothing else."""
    readers = {v: op for op in body.ops for v in op.operands}
    v = param
    while v is not end and count_of[v] == 1 and v in readers:
        op = readers[v]
        if not (op.name == "add" or op.name == "matmul" and op.operands[2] is v):
            return False
        v = op.result
    return v is end is not param and count_of[end] == 1


def _zero(v: Value, made: dict[Value, Op]) -> bool:
    while v in made and OPS[made[v].name].kind == "view":
        v = made[v].operands[0]
    return v in made and made[v].name == "const" and made[v].attrs["value"] == 0


def _move(body: Block, param: Value, end: Value) -> tuple[str, Value] | None:
    """How a pointer or an integer that goes round a loop moves, and by what, if that is the same in each round."""
    found = next((op for op in body.ops if end in op.results), None)
    if (
        found is None
        or found.name not in ("add", "sub", "addptr")
        or not (param.type.pointer or param.type.dtype.is_int)
    ):
        return None
    x, y = found.operands
    x, y = (y, x) if y is param and found.name == "add" else (x, y)
    made_of = needed(body, [y])
    makers = [op for op in body.ops if not made_of.isdisjoint(op.results)]
    alike = made_of.isdisjoint(body.params) and not any(op.blocks or OPS[op.name].reads for op in makers)
    return (found.name, y) if x is param and alike else None


def _further(
    b: Builder,
    inner: list[Op],
    body: Block,
    start: Value,
    param: Value,
    move: tuple[str, Value],
    rank: Value,
    blocks: int,
) -> tuple[Value, Value]:
    """What goes round as that does, for a block's rounds: its start, and its end, which is added to the body."""
    name, by = move
    by = again(b, body, [by], {}).get(by, by)
    by = cast_value(b, by, int64) if param.type.pointer else by

    def times(n: Value) -> Value:
        return b.add("mul", (by, broadcast(b, cast_value(b, n, by.type.dtype), by.type.shape)), by.type)

    all_ = times(b.add("const", (), Type(int32), value=blocks))
    end = Value(param.type, param.name)
    inner.append(Op(name, (param, all_), (end,)))
    return b.add(name, (start, times(rank)), start.type), end
