"""Moving a tile from one layout to another, where two demands on it differ."""

from __future__ import annotations

from math import prod

from ..dtypes import uint64
from ..ir import Builder, Value
from ..layout import Layout
from . import op

# >>> stage 8
from . import OPS  # isort: skip

# <<<


def _convert(run, op, x):
    return x


def lanes(source: Layout, target: Layout) -> tuple[list, list, list] | None:
    """How a thread finds each element in its own warp: pairs (bit of its number, bit of the lane), (bit of its register
    number, bit of the lane), (bit of its register number, bit of that lane's). None if warps must meet."""
    lane = {b: i for i, b in enumerate(source.thread) if any(b)}
    register = {b: i for i, b in enumerate(source.reg)}
    threads: list = []
    for i, b in enumerate(target.thread):
        at = lane.get(b, -1)
        if i >= 5 and (at != i if any(b) else any(source.thread[i])):
            return None
        if any(b) and i < 5:
            threads.append((i, at))
    across = [(j, lane[b]) for j, b in enumerate(target.reg) if b in lane]
    if any(not 0 <= at < 5 for _, at in (*threads, *across)):
        return None
    return threads, across, [(j, register[b]) for j, b in enumerate(target.reg) if b in register]


def _emit_convert(e, op):
    """Moves a tile between two layouts: by shuffles if every element stays in its warp, else through shared memory."""
    (x,) = op.operands
    source, target, dtype = e.layout_of(x), e.layout_of(op.result), op.result.type.dtype
    to = from_ = ""
    if op.result.type.pointer:
        dtype, to, from_ = uint64, f"({e.c(uint64)})", f"({e.ctype(x)})"
    pairs = lanes(source, target) if e.dialect.shuffle else None
    # >>> stage 8
    last = len(source.shape) - 1
    if not (pairs or to) and e.dialect.name == "cuda" and min(source.vector(last), target.vector(last)) > 1:
        return _by_vectors(e, op, source, target)
    # <<<
    e.declare(op.result)
    if pairs:
        threads, across, registers = pairs
        same = sum(1 << i for i, at in threads if i == at)
        lane = [f"(thread & {same})"] * (same > 0)
        lane += [f"(thread >> {i} & 1) * {1 << at}" for i, at in threads if i != at]
        name = e.arrays[x][0]
        with e.loop(target, [op]) as s:
            cell = f"{name}[{s.gather(registers)}]" if source.registers > 1 else name
            where = " + ".join([*lane, s.gather(across)] if across else lane) or "0"
            s.line(f"{e.cell(op.result, s)} = {from_}{e.shuffle(to + cell, where, dtype, '')};")
        return
    memory = e.shared(dtype, room(source.shape))
    stage(e, op, x, memory, to)
    e.barrier()
    with e.loop(target, [op]) as s:
        s.line(f"{e.cell(op.result, s)} = {from_}{memory}[{s.position(pitched(source.shape))}];")


# >>> stage 8
def _by_vectors(e, op, source: Layout, target: Layout) -> None:
    """Through shared memory in accesses of up to 16 bytes, both ways. Rows are longer by eight elements or 16 bytes, so
    that the eight rows that a warp has of sums on tensor cores, eight elements each, lie in different banks. What is
    stored as it lies there need not come back."""
    (x,), dtype, last = op.operands, op.result.type.dtype, len(source.shape) - 1
    pitch = source.shape[-1] * dtype.itemsize + max(16, 8 * dtype.itemsize)
    name, size = e.fresh("turned"), prod(source.shape[:-1]) * pitch
    e.line(f"char* const {name} = (char*){e.shared(uint64, -(-size // 8))};")

    def place(s) -> str:
        row = s.position(source.shape[:-1], s.coordinates[:-1]) if last else "0"
        return f"{name} + ({row}) * {pitch} + ({s.coordinates[last]}) * {dtype.itemsize}"

    def width(layout: Layout) -> int:
        return min(layout.vector(last), 16 // dtype.itemsize)

    with e.once_per_element(source), e.loop(source, [op], step=width(source)) as s:
        values = ", ".join(s.shifted(k).get(x) for k in range(width(source)))
        s.line(f"{e.access('put', dtype, width(source))}({place(s)}, {values});")
    e.barrier()
    if _stored(e, op, target, width(target)):
        e.staged[op.result] = place
        return
    e.declare(op.result)
    with e.loop(target, [op], step=width(target)) as s:
        s.line(f"{e.access('get', dtype, width(target))}(&{e.cell(op.result, s)}, {place(s)});")


def _stored(e, op, target: Layout, width: int) -> bool:
    """True for a tile of 16-bit floats that the next op that does anything stores, in vectors of 16 bytes."""
    ops, dtype = e.kernel.ops(), op.result.type.dtype
    rest = ops[ops.index(op) + 1 :]
    then = next((o for o in rest if OPS[o.name].kind == "statement"), None)
    if not (dtype.bits == 16 and dtype.is_float and then and then.name == "store" and then.operands[1] is op.result):
        return False
    whole = target == e.store_layout(then) and e.plan.vectors.get(then, 1) == width == 8 and "cache" not in then.attrs
    return whole and e.count[op.result] == 1 and e.even(then, target, width)


# <<<
def pitched(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Rows in shared memory are one element longer, against bank conflicts."""
    return (*shape[:-1], shape[-1] + (len(shape) > 1))


def room(shape: tuple[int, ...]) -> int:
    return prod(pitched(shape))


def stage(e, op, x: Value, memory: str, cast: str = "") -> None:
    """Writes a tile into shared memory, row by row."""
    layout = e.own_layout(x)
    with e.once_per_element(layout), e.loop(layout, [op]) as s:
        s.line(f"{memory}[{s.position(pitched(layout.shape))}] = {cast}{s.get(x)};")


@op(numpy=_convert, emit=_emit_convert, kind="statement", public=False)
def convert(b: Builder, x: Value) -> Value:
    """The same tile in another layout."""
    return b.add("convert", (x,), x.type)
