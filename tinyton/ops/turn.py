"""Tiles that go to another layout through shared memory in accesses of up to 16 bytes, as sums of tensor cores do on
their way to an array. Between layouts in which each warp has the same elements, it waits for no other warp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from ..dtypes import uint64
from ..layout import Layout, log2, unit
from . import OPS


def by_vectors(e, op, source: Layout, target: Layout) -> None:
    """Through shared memory in accesses of up to 16 bytes, both ways; a piece of the columns after the other, if each
    warp reads what it wrote. What is stored as it lies there need not come back into registers."""
    width = _width(op, target)
    if _stored(e, op, target, width):
        e.staged[op.result] = partial(_pieces, e, op, source, target)
        return
    e.declare(op.result)
    get = e.access("get", op.result.type.dtype, width)
    _pieces(e, op, source, target, lambda s, place: f"{get}(&{e.cell(op.result, s)}, {place});")


def _pieces(e, op, source: Layout, target: Layout, read: Callable[[Any, str], str]) -> None:
    """Rows are longer by eight elements or 16 bytes, so that the eight rows that a warp has of sums on tensor cores,
    eight elements each, lie in different banks."""
    (x,), size, last = op.operands, op.result.type.dtype.itemsize, len(source.shape) - 1
    apart = source.thread[5:] == target.thread[5:] and source.copies < 32
    source, target, bits = _parted(source, target, 128 // size) if apart else (source, target, 0)
    pitch = (source.shape[-1] >> bits) * size + max(16, 8 * size)
    name, room = e.fresh("turned"), prod(source.shape[:-1]) * pitch
    memory = e.shared_apart(room) if apart else e.shared(uint64, -(-room // 8))
    e.line(f"char* const {name} = (char*){memory};")
    part = e.fresh("part") if bits else ""
    if bits:
        e.line("#pragma unroll")
        e.open(f"for (int {part} = 0; {part} < {1 << bits}; ++{part}) {{")

    def place(s) -> str:
        row = s.position(source.shape[:-1], s.coordinates[:-1]) if last else "0"
        return f"{name} + ({row}) * {pitch} + ({s.within(last, s.opened)}) * {size}"

    def meet() -> None:
        e.line("__syncwarp();") if apart else e.barrier()

    step = _width(op, source)
    put = e.access("put", op.result.type.dtype, step)
    with e.once_per_element(source), e.loop(source, [op], step=step, around=part) as s:
        s.line(f"{put}({place(s)}, {', '.join(s.shifted(k).get(x) for k in range(step))});")
    meet()
    with e.loop(target, [op], step=_width(op, target), around=part) as s:
        s.line(read(s, place(s)))
    if apart:
        meet()
    if bits:
        e.shut()


def _parted(source: Layout, target: Layout, line: int) -> tuple[Layout, Layout, int]:
    """The layouts with the bits of a piece's number last: columns from ``line`` on that both have in registers."""
    last, bits = len(source.shape) - 1, []
    while (b := unit(last + 1, last, log2(source.shape[-1]) - 1 - len(bits))) in {*source.reg} & {*target.reg}:
        if b[last] < line:
            break
        bits.insert(0, b)

    def ordered(x: Layout) -> Layout:
        return replace(x, reg=(*sorted((b for b in x.reg if b not in bits), key=lambda b: not b[last]), *bits))

    both = ordered(source), ordered(target)
    if not bits or any(x.runs()[-1].bits != len(bits) for x in both):
        return source, target, 0
    return *both, len(bits)


def _width(op, layout: Layout) -> int:
    return min(layout.vector(len(layout.shape) - 1), 16 // op.result.type.dtype.itemsize)


def _stored(e, op, target: Layout, width: int) -> bool:
    """True for a tile of 16-bit floats that the next op that does anything stores, in vectors of 16 bytes."""
    ops, dtype = e.kernel.ops(), op.result.type.dtype
    rest = ops[ops.index(op) + 1 :]
    then = next((o for o in rest if OPS[o.name].kind == "statement"), None)
    if not (dtype.bits == 16 and dtype.is_float and then and then.name == "store" and then.operands[1] is op.result):
        return False
    whole = target == e.store_layout(then) and e.plan.vectors.get(then, 1) == width == 8 and "cache" not in then.attrs
    return whole and e.count[op.result] == 1 and e.even(then, target, width) and not target.copies
