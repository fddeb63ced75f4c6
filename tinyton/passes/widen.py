"""Address arithmetic in 64 bits: what ends up in an offset is computed as if its leaves were int64, unless its bounds
show that 32 bits are enough."""

from __future__ import annotations

from dataclasses import replace

from ..dtypes import bool_, int64
from ..ir import LOOPS, Block, Builder, Kernel, Loc, Op, Type, Value, origins
from .axisinfo import HINTS, SIGNED, Info

EXACT = {"add", "sub", "mul", "neg", "where", "expand", "broadcast", "reshape", "permute", "within", *HINTS}
COMPARE = {"lt", "le", "gt", "ge", "eq", "ne"}


def widen(kernel: Kernel, facts: dict[Value, Info]) -> Kernel:
    """Before: ``t = mul pid 1024; offs = add t lanes; q = addptr p offs`` in i32. After: the same in i64; other users
    of ``offs`` see a cast back. Comparisons compare the wide value, except of unsigned integers: ``u - 5 < n`` counts
    on them to wrap around. An integer that is brought to a wider type on its way is wide from the start."""
    wanted = offsets(kernel)
    unsafe = {v for v in wanted if not facts[v].within(v.type.dtype)}
    wide: dict[Value, Value] = {}
    narrow: dict[Value, Value] = {}

    def as_wide(b: Builder, v: Value) -> Value:
        if v in wide:
            return wide[v]
        v = narrow.get(v, v)
        return v if v.type.dtype in (int64, bool_) else b.add("cast", (v,), Type(int64, v.type.shape))

    def as_narrow(b: Builder, v: Value) -> Value:
        if v in wide and v not in narrow:
            narrow[v] = b.add("cast", (wide[v],), v.type)
        return narrow.get(v, v)

    def long_of(v: Value) -> Value:
        return Value(v.type._replace(dtype=int64), v.name)

    def add_wide(b: Builder, op: Op) -> None:
        wide[op.result] = long_of(op.result)
        b.ops.append(replace(op, operands=tuple(as_wide(b, v) for v in op.operands), results=(wide[op.result],)))

    def block(old: Block) -> Block:
        b = Builder()
        before = dict(narrow)
        for op in old.ops:
            b.loc = op.loc
            if op.name != "cast" and _exact(op) and op.result in unsafe:
                add_wide(b, op)
            elif op.name == "addptr":
                ptr, offset = op.operands
                offset = as_wide(b, offset) if offset in wide else as_narrow(b, offset)
                b.ops.append(op if offset is op.operands[1] else replace(op, operands=(ptr, offset)))
            elif _exact(op) and op.result in wanted and any(v in wide for v in op.operands):
                b.ops.append(replace(op, operands=tuple(as_narrow(b, v) for v in op.operands)))
                narrow[op.result] = op.result  # for who does not use it as an offset
                if op.name == "cast":
                    wide[op.result] = wide[op.operands[0]]
                else:
                    add_wide(b, op)
            elif op.name in COMPARE and op.operands[0].type.dtype.kind == "i" and any(v in wide for v in op.operands):
                b.ops.append(replace(op, operands=tuple(as_wide(b, v) for v in op.operands)))
            elif op.name in LOOPS:
                b.ops.append(loop(b, op))
            else:
                operands = tuple(as_narrow(b, v) for v in op.operands)
                if operands == op.operands and not op.blocks:
                    b.ops.append(op)
                    continue
                long = [op.name == "if" and v in unsafe for v in op.results]
                blocks = tuple(ended(inner, long, op.loc) if any(long) else block(inner) for inner in op.blocks)
                results = tuple(long_of(v) if w else v for v, w in zip(op.results, long, strict=True))
                wide.update((v, r) for v, r in zip(op.results, results, strict=True) if v is not r)
                b.ops.append(replace(op, operands=operands, results=results, blocks=blocks))
        yields = tuple(as_narrow(b, v) for v in old.yields)
        narrow.clear()
        narrow.update(before)
        return Block(old.params, tuple(b.ops), yields)

    def ended(body: Block, long: list[bool], loc: Loc | None) -> Block:
        """A block that gives some of its values in 64 bits."""
        inner = block(replace(body, yields=()))
        tail = Builder()
        tail.ops, tail.loc = list(inner.ops), loc
        ends = tuple(as_wide(tail, v) if w else as_narrow(tail, v) for v, w in zip(body.yields, long, strict=True))
        for v in body.yields:  # casts made in the tail belong to this block only
            narrow.pop(v, None)
        return Block(body.params, tuple(tail.ops), ends)

    def loop(b: Builder, op: Op) -> Op:
        """A counter that is carried from round to round and feeds an offset is carried in 64 bits."""
        (body,) = op.blocks
        carried = [param for _, param, _, _ in op.carried]
        long = [p in unsafe for p in carried]
        for p, result, is_long in zip(carried, op.results, long, strict=True):
            if is_long:
                wide[p], wide[result] = long_of(p), long_of(result)
        starts = [
            as_wide(b, v) if w or (p.type.dtype is int64 and p in wanted and v in wide) else as_narrow(b, v)
            for v, p, w in zip(op.operands[len(op.head) :], carried, long, strict=True)
        ]
        bounds = [as_narrow(b, v) for v in op.head]
        inner = ended(body, long, op.loc)
        params = tuple(wide[p] if p in carried and p in unsafe else p for p in body.params)
        results = tuple(wide[r] if w else r for r, w in zip(op.results, long, strict=True))
        return replace(op, operands=(*bounds, *starts), results=results, blocks=(replace(inner, params=params),))

    return replace(kernel, body=block(kernel.body))


def _exact(op: Op) -> bool:
    """True for arithmetic that 64 bits do as well, and for what only brings an integer to a wider type. Of unsigned
    integers, a quotient or a shift is of what has wrapped around: hashes count on it."""
    if op.name != "cast":
        return op.name in EXACT or (op.name in SIGNED and op.result.type.dtype.kind == "i")
    source, target = op.operands[0].type.dtype, op.result.type.dtype
    return bool_ not in (source, target) and source.is_int and target.is_int and source.bits < target.bits


def offsets(kernel: Kernel) -> set[Value]:
    """Every value that an offset of a pointer is made of by exact integer arithmetic."""
    return origins(kernel, (op.operands[1] for op in kernel.ops() if op.name == "addptr"), through=_exact)
