"""Tiles that a warp of their own brings: it waits until a place in a ring is free, and has boxes of arrays copied
there, by coordinates alone; the other warps wait until they are there, multiply, and say that the place is free (PTX
ISA, *mbarrier*, *cp.async.bulk.tensor*; the idea: Bauer et al., *CudaDMA*, 2011)."""

from __future__ import annotations

from typing import NamedTuple

from ..dtypes import int32, uint8, uint64
from ..ir import Block, Builder, Type, Value
from . import op
from .tensor import Held, Placed, plus, size

WARP = 32
FEW = 24  # registers of a thread that feeds others, where those need many


class Ring(NamedTuple):
    """Tiles that come together, in ``stages`` places; and for each, along which dimension its rows run, and whether it
    comes rounded to tf32."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    ways: tuple[tuple[int, bool], ...]
    stages: int

    def __str__(self) -> str:
        return f"{self.stages} stages of {sum(map(size, self.types))} bytes: {', '.join(self.names)}"

    def alike(self, other: Ring) -> bool:
        return (self.types, self.ways, self.stages) == (other.types, other.ways, other.stages)


class Places(NamedTuple):
    """The C of a ring: its barriers, the number and the parity of the place that is next, and its tiles."""

    full: str
    empty: str
    at: str
    parity: str
    now: str  # the place that products of the round before still read, or -1
    stages: int
    tiles: tuple[Placed, ...]
    place: str = ""  # the place of this round

    def next(self) -> str:
        return f"if (++{self.at} == {self.stages}) {self.at} = 0, {self.parity} ^= 1;"


def _emit_produce(e, op):
    rings: dict[int, Ring] = op.attrs["rings"]
    count = 2 * sum(ring.stages for ring in rings.values())
    barriers = e.fresh("barriers")
    e.line(f"unsigned long long* const {barriers} = (unsigned long long*){e.shared(uint64, count, keep=True)};")
    e.open_rings.append(e.own_bytes)
    begin, starts = 0, []
    for number, ring in rings.items():
        tiles = []
        for name, t, way in zip(ring.names, ring.types, ring.ways, strict=True):
            place = e.fresh(f"{name or 'operand'}_ring")
            e.line(f"char* const {place} = (char*){e.shared(uint8, size(t) * ring.stages, keep=True)};")
            tiles.append(Placed(t, way[0], place, way[1]))
        at, parity, now = (e.fresh(f"{ring.names[0] or 'ring'}_{word}") for word in ("at", "parity", "now"))
        e.line(f"int {at} = 0, {now} = -1;")
        e.line(f"unsigned int {parity} = 0;")
        full, empty = plus(barriers, str(begin)), plus(barriers, str(begin + ring.stages))
        e.feeds[number] = Places(full, empty, at, parity, now, ring.stages, tuple(tiles))
        starts.append((begin, ring.stages))
        begin += 2 * ring.stages
    e.open("if (thread == 0) {")
    for first, stages in starts:
        e.line(f"for (int k = 0; k < {stages}; ++k) {{")
        for offset, arrivals in ((first, 1), (first + stages, e.threads // WARP)):
            e.line(f"    {e.use('barrier_begins')}({plus(barriers, str(offset), 'k')}, {arrivals});")
        e.line("}")
    e.line(f"{e.use('barriers_begun')}();")
    e.shut()
    e.line(e.dialect.barrier)
    e.open(f"if ({e.leader()} >= {e.threads}) {{  // the warp that has tiles copied, by its first thread")
    if e.registers:
        e.line(f"{e.use('registers_given')}<{FEW}>();")
    e.open(f"if (thread == {e.threads}) {{")
    for name in e.maps:
        e.line(f"{e.use('map_needed')}(&{name});")
    e.block(op.blocks[0])
    e.shut()
    e.line("return;")
    e.shut()
    if e.registers:
        e.line(f"{e.use('registers_taken')}<{e.registers}>();")
    e.dialect = e.dialect._replace(barrier=f"{e.use('threads_meet')}<{e.threads}>();")


@op(numpy=None, emit=_emit_produce, kind="statement", effect=True, public=False)
def produce(b: Builder, block: Block, rings: dict[int, Ring]) -> None:
    """The program of the warp that feeds ``rings``. What follows is for the others."""


def _emit_send(e, op):
    """Copies as wide as rows are swizzled, and at most 256 rows high."""
    ring, first, values = e.feeds[op.attrs["ring"]], 0, [_number(e, v) for v in op.operands]
    full = f"{ring.full} + {ring.at}"
    e.line(f"{e.use('barrier_wait')}({ring.empty} + {ring.at}, {ring.parity} ^ 1);")
    e.line(f"{e.use('barrier_expects')}({full}, {sum(tile.bytes for tile in ring.tiles)});")
    for tile, (number, box) in zip(ring.tiles, op.attrs["parts"], strict=True):
        at = values[first : first + len(box)]
        first += len(box)
        copy = e.use(f"copy_box_{len(box)}")
        columns, rows = box[:2]
        extent = tile.type.shape[tile.fast]
        for column in range(0, extent, columns):
            for row in range(0, tile.rows, rows):
                byte = (column * tile.rows + row * columns) * tile.dtype.itemsize
                to = plus(tile.memory, f"{ring.at} * {tile.bytes}", str(byte))
                place = ", ".join([_more(at[0], column), _more(at[1], row), *at[2:]])
                e.line(f"{copy}({to}, &{e.maps[number]}, {place}, {full});")
    e.line(ring.next())


def _number(e, v: Value) -> str:
    return e.scalar(v) if v.type.dtype is int32 else f"(int){e.atom(v)}"


def _more(text: str, n: int) -> str:
    return f"{text} + {n}" if n and text != "0" else str(n) if n else text


@op(numpy=None, emit=_emit_send, kind="statement", effect=True, public=False)
def send(b: Builder, *places: Value, ring: int, parts: tuple[tuple[int, tuple[int, ...]], ...]) -> None:
    """Has the next tiles of a ring copied once their place is free. ``parts`` has for each the number of its map and
    the extents of a box; ``places`` say where they begin in their arrays, by dimension."""


def _emit_sent(e, op):
    ring, early = e.feeds[op.attrs["ring"]], op.attrs.get("early")
    place = ring.at
    if not early:
        place = e.fresh(f"{ring.at}_now")
        e.feeds[op.attrs["ring"]] = ring._replace(place=place)
        e.line(f"const int {place} = {ring.at};")
    if early is not False:
        e.line(f"{e.use('barrier_wait')}({ring.full} + {place}, {ring.parity});")


@op(numpy=None, emit=_emit_sent, kind="statement", effect=True, aside=True, public=False)
def sent(b: Builder, ring: int, early: bool | None = None) -> None:
    """Waits until the next tiles of a ring are there, and takes their place; ``early``, that is left to a round to
    come, where False says that there was a wait for them."""


def _emit_hold(e, op):
    x, *before = op.operands
    array, layout = e.arrays[x]
    if before:
        e.alias(op.result, before[0])
    else:
        words = e.names[op.result] = e.fresh("left")
        e.arrays[op.result], e.placed[op.result] = (words, layout), Held(x.type, array, words)
        e.sizes[op.result] = layout.registers * x.type.dtype.itemsize
        e.line(f"unsigned int {words}[{layout.registers // 2}];")
    Held(x.type, array).pack(e, e.placed[op.result].words, layout.registers // 8)


@op(numpy=lambda run, op, x, *_: x, emit=_emit_hold, kind="statement", effect=True, public=False)
def hold(b: Builder, x: Value, *before: Value, **left: object) -> None:
    """A left operand that stays in registers, as it is multiplied, until a round to come: in those of the one
    ``before``, once products have read that."""


def _emit_received(e, op):
    ring = e.feeds[op.attrs["ring"]]
    tile = ring.tiles[op.attrs["part"]]
    name = e.fresh(tile.memory.replace("_ring", "_tile"))
    e.line(f"const char* const {name} = {tile.memory} + {ring.place} * {tile.bytes};")
    e.placed[op.result] = tile._replace(memory=name)


@op(numpy=None, emit=_emit_received, kind="statement", placed=True, public=False)
def received(b: Builder, t: Type, ring: int, part: int) -> None:
    """One of the tiles that are there."""


def _emit_done(e, op):
    ring, when = e.feeds[op.attrs["ring"]], op.attrs["when"]
    free = f"if ((thread & 31) == 0{{}}) {e.use('barrier_arrive')}({ring.empty} + {{}});"
    if when in ("now", "met"):
        e.after.append((set(e.sent), "__syncwarp(); " * (when == "met") + free.format("", ring.place)))
        e.follow()
    else:  # what was multiplied in the round before
        e.line(free.format(f" && {ring.now} >= 0", ring.now))
        e.line(f"{ring.now} = {ring.place if when == 'later' else -1};")
    if when != "end":
        e.line(ring.next())


@op(numpy=None, emit=_emit_done, kind="statement", effect=True, aside=True, public=False)
def done(b: Builder, ring: int, when: str) -> None:
    """Each warp says that it has done with tiles of a ring: "now", with those that it has waited for last, once what
    multiplies them has arrived; "met", so too, but behind a block whose products there may be or not: the threads of a
    warp need not have met since they waited, and one that came late would wait for a round to come; "later", with those
    of the round before; at the "end" of a loop, with those of its last round."""
