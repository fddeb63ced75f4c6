"""Tiles on their way: what rounds of a loop multiply is copied to shared memory some rounds before, without passing
through registers, into a ring of places that the rounds use in turn."""

from __future__ import annotations

from ..dtypes import uint8
from ..ir import Builder, Type, Value
from . import op
from .tensor import Placed, runs_along, size


def _emit_ring(e, op):
    e.open_rings.append(e.own_bytes)
    for ring, (name, t) in op.attrs["tiles"].items():
        place = e.fresh(f"{name or 'operand'}_ring")
        memory = e.shared(uint8, size(t) * op.attrs["stages"], keep=True)
        e.line(f"char* const {place} = (char*){memory};")
        e.rings[ring] = Placed(t, -1, place)


@op(numpy=None, emit=_emit_ring, kind="statement", effect=True, public=False)
def ring(b: Builder, tiles: dict[int, tuple[str, Type]], stages: int, why: str) -> None:
    """Room for ``stages`` tiles of each kind, and ``why`` all threads copy them."""


def _emit_ring_end(e, op):
    e.most_bytes = max(e.most_bytes, e.own_bytes)
    e.own_bytes = e.open_rings.pop()


@op(numpy=None, emit=_emit_ring_end, kind="statement", effect=True, public=False)
def ring_end(b: Builder) -> None:
    """The room of the ring that was opened last may be used again."""


def _emit_copy(e, op):
    """16 bytes at a time (or 8, or 4) without registers, where a mask is on for all of them or for none; else element
    by element, which waits for memory."""
    ptr, there, slot, *_ = op.operands
    layout, t, width = e.layout_of(op.result), op.result.type, e.plan.vectors.get(op, 1)
    tile = e.rings[op.attrs["ring"]]
    if tile.fast < 0:
        fast = runs_along(layout, t, op.attrs["inner"], op.attrs["rounded"])
        e.rings[op.attrs["ring"]] = tile._replace(fast=fast)
    tile = slotted(e, op, slot)
    zero = len(op.operands) < 5 or e.is_constant(op.operands[4]) and not e.made[e.root(op.operands[4])].attrs["value"]
    whole = width * t.dtype.itemsize in (4, 8, 16) and layout.vector(tile.fast) >= width and zero
    e.close()
    with e.guard("" if e.constant(there) is True else e.scalar(there)), e.once_per_element(layout):
        if whole and (width == 1 or e.even(op, layout, width)):
            copy = e.use(f"copy_{width * t.dtype.itemsize}")
            with e.loop(layout, [op], step=width) as s:
                s.line(f"{copy}({tile.here(e, s)}, {s.get(ptr)}, {s.condition(op) or 'true'});")
            return
        with e.loop(layout, [op]) as s:
            text, condition = e.load_text(s.pointer(ptr), t.dtype), s.condition(op)
            other = s.get(op.operands[4]) if len(op.operands) > 4 else e.dialect.literal(0, t.dtype)
            text = f"({condition}) ? {text} : {other}" if condition else text
            s.line(f"{e.access('put', t.dtype, 1)}({tile.here(e, s)}, {text});")


@op(numpy=None, emit=_emit_copy, kind="statement", effect=True, reads=True, mask=3, placed=True, public=False)
def copy(b: Builder, ptr: Value, there: Value, slot: Value, *rest: Value, ring: int, inner: int, rounded: bool) -> None:
    """Asks for a tile, if the round is ``there`` that multiplies it, to be copied to place ``slot`` of a ring. It is
    ``rounded`` where it is multiplied, if it is to be."""


def slotted(e, op, slot: Value) -> Placed:
    tile = e.rings[op.attrs["ring"]]
    number = e.constant(slot)
    bytes_ = str(number * tile.bytes) if number is not None else f"{e.atom(slot)} * {tile.bytes}"
    return tile if number == 0 else tile._replace(memory=f"{tile.memory} + {bytes_}")


@op(emit=lambda e, op: e.line(f"{e.use('copies_asked')}();"), kind="statement", effect=True, public=False)
def copies_asked(b: Builder) -> None:
    """What was asked for since the last time is a group of copies."""


def _emit_wait(e, op):
    e.line(f"{e.use('copies_wait')}<{op.attrs['later']}>();")
    e.waiting = True
    e.barrier()


@op(numpy=None, emit=_emit_wait, kind="statement", effect=True, public=False)
def copies_wait(b: Builder, later: int) -> None:
    """Waits, and all threads for each other, until all groups of copies are there but the ``later`` last ones."""


def _emit_arrived(e, op):
    tile = slotted(e, op, op.operands[0])
    name = e.fresh(e.rings[op.attrs["ring"]].memory.replace("_ring", "_tile"))
    e.line(f"const char* const {name} = {tile.memory};")
    e.placed[op.result] = tile._replace(memory=name)


@op(numpy=None, emit=_emit_arrived, kind="statement", placed=True, public=False)
def arrived(b: Builder, slot: Value, t: Type, ring: int) -> None:
    """The tile in place ``slot`` of a ring."""


@op(
    numpy=lambda run, op, k: (k + 1) % op.attrs["stages"],
    emit=lambda e, op, k: f"{k} == {op.attrs['stages'] - 1} ? 0 : {k} + 1",
    kind="typed",
    exact=True,
    public=False,
)
def turn(b: Builder, slot: Value, stages: int) -> None:
    """The place after this one in a ring."""
