"""Loops that a warp of their own feeds, or a group of warps: of the threads of a block, those have boxes of arrays
copied for the rounds to come, and do nothing else; all others multiply. The kernel becomes two programs: what tells the
first where boxes are, and when; and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from math import prod

from ..dtypes import int32, int64
from ..ir import Block, Builder, Kernel, Op, Type, Value, uses, walk
from ..layout import Layout
from ..ops import OPS
from ..ops.feed import FEW, Ring
from ..ops.tensor import in_registers, size
from .axisinfo import analyse
from .boxes import Box, Boxes, Map, Sum, described
from .fold import fold
from .pipeline import _fitting, _loads, _patient
from .skew import late, skew

SINCE = 90  # the architecture that has such copies
EXTRA = 32  # threads
GROUP = 128  # as many, where the others need the registers of all: a group of warps gives away what it has
MOST = 1024  # of a block
SHARED = 227 * 1024  # bytes of shared memory that it has for a block
ALONE = SHARED // 2  # of rings: with more, no other block is there that could multiply meanwhile, and loops are skewed
TIGHT = 1800  # bytes of tiles that a thread holds at a time: with more, 168 registers are few
HELD = 2100 * 256  # bytes of tiles that threads hold at a time: with more, registers are short (which come for 4 warps)
OTHERS = 40  # registers that a thread of a skewed loop needs beside tiles
ALWAYS = True  # for loops that do not say
PLAIN = ("for", "while", "if", "store", "assume", "gathered", "leave")  # effects that the copies may pass; some atomics
SAYS = ("warp_specialize", "allow_tma")
Change = Callable[[Op], list[Op] | None]


class Unfed(Exception):
    """A loop is not fed, for this reason."""


class Fed:
    """A loop to be fed: its loads with what places them, as boxes, in groups that are multiplied together."""

    def __init__(self, loop: Op, pairs: list[tuple[Op, Op]], boxes: list[Box], stages: int):
        (body,) = loop.blocks
        self.loop, self.pairs, self.stages = loop, pairs, stages
        self.boxes = {place: box for (_, place), box in zip(pairs, boxes, strict=True)}
        self.readers: dict[Op, list[Op]] = {}
        for _, place in pairs:
            seen = {place.result}
            for op in body.ops:
                if not seen.isdisjoint(v for o in (op, *(x for b in op.blocks for x in walk(b))) for v in o.operands):
                    seen.update(op.results if op.name == "permute" else ())
                    self.readers.setdefault(place, []).extend([op] * (op.name != "permute"))
        self.groups: dict[tuple[Op, ...], list[Op]] = {}
        for _, place in pairs:
            self.groups.setdefault(tuple(self.readers[place]), []).append(place)
        self.rings = [self._ring(places) for places in self.groups.values()]
        self.numbers: list[int] = []

    def _ring(self, places: list[Op]) -> Ring:
        names, types = tuple(self.name(p) for p in places), tuple(p.result.type for p in places)
        ways = tuple((self.boxes[p].fast, bool(p.attrs["rounded"])) for p in places)
        return Ring(names, types, ways, self.stages)  # type: ignore[arg-type]

    def name(self, place: Op) -> str:
        return next(load.result.name for load, other in self.pairs if other is place)


def feed(
    kernel: Kernel, divisors: dict[str, int], stages: int | None, skewed: bool = True
) -> tuple[Kernel, tuple[Map, ...], frozenset[str]]:
    """Before: ``for k: x = load p + k; t = place x; ...``. After: ``produce: for k: send ring k 0`` and ``for k: sent
    ring; t = received ring; ...; done ring``. That is done to loops whose loads, of those that are multiplied by groups
    of warps, are all boxes, and that hold no such loop; others get a ``why``. Gives the maps that the kernel takes too,
    and the arguments whose divisibility matters. ``skewed`` allows loops to be."""
    count_of, boxes = uses(kernel), cache(lambda: Boxes(kernel, analyse(kernel, divisors), divisors))
    found: dict[Op, Fed] = {}
    why: dict[Op, str] = {}
    for op in kernel.ops():
        if op.name == "for" and op.attrs.get("stages", stages) != 1 and (pairs := _loads(op, count_of)):
            try:
                found[op] = _fed(op, boxes, pairs, stages)
            except Unfed as error:
                why[op] = str(error)
    found = {op: new for op, new in found.items() if found.keys().isdisjoint(x for b in op.blocks for x in walk(b))}
    maps: tuple[Map, ...] = ()
    if found:
        try:
            kernel, maps = _split(kernel, found, why, count_of, skewed)
        except Unfed as error:
            why |= dict.fromkeys(found, str(error))
    if why and not maps:
        kernel = replace(kernel, body=_each(kernel.body, _telling(why)))
    return kernel, maps, frozenset(boxes().needs if boxes.cache_info().currsize else ())


def room_of_rings(kernel: Kernel) -> int:
    """Bytes of shared memory of all places of its rings."""
    (rings,) = (op.attrs["rings"].values() for op in kernel.body.ops if op.name == "produce")  # type: ignore[attr-defined]
    return _room(rings)


def _room(rings: Iterable[Ring]) -> int:
    return sum(ring.stages * sum(map(size, ring.types)) for ring in rings)


def shares(threads: int) -> tuple[int, int]:
    """How many threads feed ``threads`` that need many registers, and how many of those each of the others takes then:
    of 65,536, a block has as many for each of its threads, by eights; 0 if it has the most that a thread can have."""
    groups = threads // GROUP
    if threads % GROUP or groups < 2 or threads + GROUP > MOST:
        return EXTRA, 0
    each = 65536 // (threads + GROUP) // 8 * 8
    return GROUP, ((groups + 1) * each - FEW) // groups // 8 * 8


def can_hold(kernel: Kernel, layouts: dict[Value, Layout], threads: int) -> bool:
    """Whether left operands of products that are sent later stay in registers, and leave room in them for the sums of
    that product, and of the one that the next left operand is made of."""
    most = (shares(threads)[1] or 255) - OTHERS
    for op in (op for op in kernel.ops() if op.name == "hold"):
        layout, how = layouts.get(op.operands[0]), op.attrs
        if not in_registers(op, layout, threads) or layout.registers * 3 // 2 + prod(how["left"][0]) // threads > most:  # type: ignore
            return False
    return True


def unfed(kernel: Kernel, why: str) -> Kernel:
    """Says of all loops why they are not fed."""
    return replace(kernel, body=_each(kernel.body, _telling({op: why for op in kernel.ops() if op.name == "for"})))


def _telling(why: dict[Op, str], change: Change = lambda op: None) -> Change:
    """What says ``why`` of loops, and changes others by ``change``."""

    def told(op: Op) -> list[Op] | None:
        if op not in why:
            return change(op)
        return [replace(op, attrs=op.attrs | {"why": why[op]}, blocks=tuple(_each(b, told) for b in op.blocks))]

    return told


def _fed(loop: Op, boxes: Callable[[], Boxes], pairs: list[tuple[Op, Op]], stages: int | None) -> Fed:
    """A loop, if it can be fed, and may: `tt.range` says that, or what loads, or `ALWAYS`."""
    said = [op.attrs[word] for op in (loop, *(load for load, _ in pairs)) for word in SAYS if word in op.attrs]
    if not all(said or [ALWAYS]):
        raise Unfed("that is not asked for" if not said else "that is forbidden")
    (body,) = loop.blocks
    if any(op.name == "matmul" and op.attrs.get("how") != "wgmma" for op in walk(body)):
        raise Unfed("not all products are by groups of warps")
    found = []
    for load, place in pairs:
        name, t = load.result.name or "what is loaded", load.result.type
        if (box := boxes().box(load)) is None:
            raise Unfed(f"{name} is no box of an array, aligned to 16 bytes, with zeros outside")
        if (t.dtype.itemsize == 1 or place.attrs["rounded"]) and box.fast != place.attrs["inner"]:
            raise Unfed(f"{name} is multiplied across its rows, which takes elements of 16 bits")
        found.append(box)
    return Fed(loop, pairs, found, loop.attrs.get("stages", stages) or _fitting(pairs))  # type: ignore[arg-type]


def _split(
    kernel: Kernel, found: dict[Op, Fed], why: dict[Op, str], count_of: dict[Value, int], skewed: bool
) -> tuple[Kernel, tuple[Map, ...]]:
    waits = [op.name for op in kernel.ops() if op.attrs.get("volatile")]  # for others, maybe, as the copies would not
    effects = [op for op in kernel.ops() if OPS[op.name].effect and op.name not in PLAIN]
    if others := waits + [op.name for op in effects if op.results or not OPS[op.name].writes]:
        raise Unfed(f"the kernel has other effects: {others[0]}")
    rings: dict[int, Ring] = {}
    maps: list[Map] = []
    places = {v: n for n, v in enumerate(kernel.params)}
    stored = tuple(sorted({places[v] for v in _stored(kernel) if v in places}))

    for fed in found.values():  # rings with the same tiles are used by loops one after the other
        for ring in fed.rings:
            same = (n for n, r in rings.items() if r.alike(ring) and n not in fed.numbers)
            fed.numbers.append(next(same, len(rings)))
            rings.setdefault(fed.numbers[-1], ring)

    def map_of(fed: Fed, place: Op) -> tuple[int, tuple[int, ...]]:
        box, t = fed.boxes[place], place.result.type
        width = min(128 // t.dtype.itemsize, t.shape[box.fast])
        new = described(box, fed.name(place), places, t.shape[1 - box.fast], t.dtype.itemsize, width)
        new = new._replace(rounds=bool(place.attrs["rounded"]), stored=tuple(n for n in stored if n != new.base))
        if new.base in stored:
            raise Unfed("what is loaded is stored to")
        same = next((n for n, m in enumerate(maps) if m._replace(name=new.name, least=new.least) == new), len(maps))
        if same == len(maps):
            maps.append(new)
        maps[same] = maps[same]._replace(least=tuple(dict.fromkeys((*maps[same].least, *new.least))))
        return same, new.box

    def asked(fed: Fed) -> list[Op]:
        """The loop with what is to be sent at the end of each round, of which `_sliced` keeps what that takes; and
        before it, what of that is the same in all rounds."""
        (body,) = fed.loop.blocks
        before, b = Builder(), Builder()
        inside = {v for op in walk(body) for v in op.results}.union(body.params)

        def place_of(x: Sum, name: str) -> Value:
            moving = {p: n for p, n in x.items() if not inside.isdisjoint(p)}
            fixed = _value(before, {p: n for p, n in x.items() if p not in moving}, name)
            return _value(b, moving | ({(fixed,): 1} if len(moving) < len(x) else {}), name) if moving else fixed

        for number, group in zip(fed.numbers, fed.groups.values(), strict=True):
            values = [place_of(x, fed.name(p)) for p in group for x in fed.boxes[p].first]
            parts = tuple(map_of(fed, place) for place in group)
            b.loc = group[0].loc
            b.add("send", tuple(values), None, ring=number, parts=parts)
        return [*before.ops, replace(fed.loop, blocks=(replace(body, ops=(*body.ops, *b.ops)),))]

    sends = _sliced(_each(kernel.body, lambda op: asked(found[op]) if op in found else None))
    top = [op for op in kernel.body.ops if op in found]
    last = top and not any("how" in op.attrs for op in _after(kernel.body.ops, top[-1]))
    free = top[-1] if len(found) == len(top) == 1 and last else None

    def served(op: Op) -> list[Op] | None:
        if op not in found:
            return None
        b = Builder()
        _serve(b, found[op], count_of, skewed and _room(rings.values()) > ALONE)
        if op is free:
            b.add("ring_end", (), None)
        return b.ops

    rest = _each(kernel.body, _telling(why, served))
    head = Op("produce", (), (), {"rings": rings}, (sends,))
    body = replace(rest, ops=(head, *rest.ops))
    return fold(replace(kernel, body=body)), tuple(maps)


def _after(ops: tuple[Op, ...], op: Op) -> list[Op]:
    return [inner for o in ops[ops.index(op) + 1 :] for inner in (o, *(x for b in o.blocks for x in walk(b)))]


def _stored(kernel: Kernel) -> set[Value]:
    """The pointers that are stored to, and what those are made of."""
    found, before = {op.operands[0] for op in kernel.ops() if OPS[op.name].writes}, 0
    while before < (before := len(found)):
        for op in reversed(kernel.ops()):
            if not found.isdisjoint(op.results):
                found.update(v for v in (*op.operands, *(y for b in op.blocks for y in b.yields)) if v.type.pointer)
            for start, param, end, result in op.carried:
                if result in found or param in found:
                    found.update((start, end))
    return found


def _each(block: Block, change: Change) -> Block:
    """A block with other ops in place of those that ``change`` gives any for, at any depth."""
    ops: list[Op] = []
    for op in block.ops:
        new = change(op)
        inner = tuple(_each(b, change) for b in op.blocks) if new is None else ()
        ops += new if new is not None else [replace(op, blocks=inner)] if inner else [op]
    return replace(block, ops=tuple(ops))


def _value(b: Builder, x: Sum, name: str) -> Value:
    """Appends what adds a sum up."""

    def wide(v: Value) -> Value:
        return v if v.type.dtype is int64 else b.add("cast", (v,), Type(int64))

    def constant(n: int, dtype=int64) -> Value:
        return b.add("const", (), Type(dtype), value=n)

    if not x:
        return constant(0, int32)
    if len(x) == 1 and (one := next(iter(x.items())))[1] == 1 and len(one[0]) == 1:
        return one[0][0]  # type: ignore[return-value]
    total = None
    for product, n in x.items():
        part = None if n != 1 or not product else wide(product[0])  # type: ignore[arg-type]
        rest = product if part is None else product[1:]
        part = constant(n) if part is None else part
        for v in rest:
            part = b.add("mul", (part, wide(v)), Type(int64))  # type: ignore[arg-type]
        total = part if total is None else b.add("add", (total, part), Type(int64))
    out = Value(Type(int64), f"{name}_at")
    b.ops.append(replace(b.ops[-1], results=(out,)))
    return out


def _serve(b: Builder, fed: Fed, count_of: dict[Value, int], skewed: bool) -> None:
    """Appends the loop of those who multiply, ``skewed`` if it can be."""
    loop = fed.loop
    (body,) = loop.blocks
    patient = _patient(loop, fed.pairs, count_of) if fed.stages > 2 else []
    gone = {op for pair in fed.pairs for op in pair}
    numbered = dict(zip(fed.groups, fed.numbers, strict=True))
    group_of = {p: (numbered[readers], k) for readers, group in fed.groups.items() for k, p in enumerate(group)}
    waited: set[int] = set()
    inner = Builder()
    ends: dict[Op, list[int]] = {}
    for readers, n in numbered.items():
        ends.setdefault(readers[-1], []).append(n)
    for op in body.ops:
        inner.loc = op.loc
        if op in group_of:
            ring, part = group_of[op]
            if ring not in waited:
                waited.add(ring)
                inner.add("sent", (), None, ring=ring)
            inner.ops.append(Op("received", (), op.results, {"ring": ring, "part": part}, (), op.loc))
        elif op not in gone:
            inner.ops.append(replace(op, attrs=op.attrs | {"patient": len(patient)}) if op in patient else op)
        if patient and op is patient[-1]:
            for ring in fed.numbers:
                inner.add("done", (), None, ring=ring, when="later")
        for ring in () if patient else ends.get(op, ()):
            inner.add("done", (), None, ring=ring, when="met" if op.blocks else "now")
    b.loc = loop.loc
    sums = {result: start for start, param, _, result in loop.carried if any(param is op.operands[2] for op in patient)}
    begun = {start: b.add("products_begin", (start,), start.type) for start in sums.values()}
    block = replace(body, ops=tuple(inner.ops))
    new = replace(loop, operands=tuple(begun.get(v, v) for v in loop.operands), blocks=(block,))
    if skewed and (found := late(loop, [op for op, *more in numbered if "how" in op.attrs and not more], count_of)):
        skew(b, new, *found, numbered[found[0],])
    else:
        b.ops.append(new)
    for result in sums:
        b.add("products_wait", (result,), None)
    for ring in fed.numbers if patient else ():
        b.add("done", (), None, ring=ring, when="end")


def _sliced(body: Block) -> Block:
    """What of a program the sends take, with values of its own."""
    needed: set[Value] = set()

    def sends(op: Op) -> bool:
        return op.name == "send" or any(inner.name == "send" for b in op.blocks for inner in walk(b))

    def mark(block: Block) -> None:
        for op in reversed(block.ops):
            given = (*op.results, *(param for _, param, _, _ in op.carried))
            if needed.isdisjoint(given) and not sends(op):
                continue
            needed.update(op.head)
            flag = op.name == "while" or "stops" in op.attrs  # whether there is another round
            for k, (start, param, end, result) in enumerate(op.carried):
                if not needed.isdisjoint((param, result)) or flag and k == 0:
                    needed.update((start, param, end, result))
            if op.name == "if":
                needed.update(b.yields[k] for b in op.blocks for k, v in enumerate(op.results) if v in needed)
            for inner in op.blocks:
                mark(inner)

    before = -1
    while before < len(needed):
        before = len(needed)
        mark(body)
    new: dict[Value, Value] = {}

    def fresh(v: Value) -> Value:
        return new.setdefault(v, Value(v.type, v.name))

    def clone(block: Block, params: tuple[Value, ...], yields: tuple[Value, ...]) -> Block:
        ops = []
        inside = tuple(map(fresh, params))
        for op in block.ops:
            results = tuple(v for v in op.results if v in needed)
            if not (results or sends(op)):
                continue
            entry, known = OPS[op.name], op.name in ("send", "for", "while", "if")
            other = not known and (entry.effect or entry.memory or entry.kind == "statement")
            if other or any(v.type.shape for v in results):
                raise Unfed(f"where boxes are, or when, follows from {op.name}")
            operands = tuple(new.get(v, v) for v in op.head)
            blocks = []
            if op.carried:
                kept = [c for c in op.carried if c[3] in needed]
                operands += tuple(new.get(start, start) for start, _, _, _ in kept)
                (inner,) = op.blocks
                index = inner.params[: len(inner.params) - len(inner.yields)]
                blocks = [clone(inner, (*index, *(c[1] for c in kept)), tuple(c[2] for c in kept))]
            else:
                for inner in op.blocks:
                    ends = tuple(y for y, v in zip(inner.yields, op.results, strict=True) if v in needed)
                    blocks.append(clone(inner, inner.params, ends))
            ops.append(replace(op, operands=operands, results=tuple(map(fresh, results)), blocks=tuple(blocks)))
        return Block(inside, tuple(ops), tuple(new.get(v, v) for v in yields))

    return clone(body, body.params, ())
