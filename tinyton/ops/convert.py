"""Moving a tile from one layout to another, where two demands on it differ."""

from __future__ import annotations

from math import prod

from ..dtypes import uint64
from ..ir import Builder, Value
from ..layout import Layout
from . import op

# >>> stage 8
from .turn import by_vectors  # isort: skip

# <<<


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
        return by_vectors(e, op, source, target)
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


@op(numpy=lambda run, op, x: x, emit=_emit_convert, kind="statement", public=False)
def convert(b: Builder, x: Value) -> None:
    """The same tile in another layout."""
