"""The plan of a kernel: which layout each tile has, where a tile must be moved to another, how wide each access is.

Values that are cheap (indices, constants, masks) have no layout: they are computed again wherever they are needed.
The others fall into classes that share one layout: what is added together, or carried round a loop, sits in the same
registers. A class takes the layout that its memory accesses can vectorise; a smaller tile that meets a bigger one
takes the slice of the bigger one's layout. Where two demands still differ, a `convert` op goes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from heapq import heappop, heappush
from math import prod

from ..dtypes import float32
from ..ir import LOOPS, Block, Builder, Kernel, Op, Value
from ..layout import Frame, Layout, blocked, next_power_of_2, whole

# >>> stage 8
from ..layout import gathered  # isort: skip

# <<<
from ..ops import OPS, mask_of
from .axisinfo import Info, even, extend, monotone
from .order import fences


@dataclass(frozen=True, eq=False)
class Plan:
    """What the code generator needs beside the IR."""

    kernel: Kernel
    threads: int
    layouts: dict[Value, Layout]
    vectors: dict[Op, int]
    facts: dict[Value, Info]
    monotone: set[Value]
    even: dict[Value, tuple[int, ...]]  # of masks, by `axisinfo.even`
    cheap: set[Value]
    anchors: dict[Op, Layout]  # in which layout a store or a reduction reads its operands
    fences: set[Op]  # the loads and stores that a barrier must precede


@cache
def padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(next_power_of_2(n) for n in shape)


def cheap_values(kernel: Kernel) -> set[Value]:
    """Values that are made of indices and constants by cheap ops alone, and not too many of them, and all scalars."""
    found = dict.fromkeys(kernel.params, 0)  # with the number of ops that computing it again takes
    for op in kernel.ops():
        for block in op.blocks:
            found.update((v, 0) for v in block.params if not v.type.shape)
        entry = OPS[op.name]
        easy = entry.cheap or entry.kind == "view"
        for v in op.results:
            if not v.type.shape:
                found[v] = 0
            elif easy and all(x in found for x in op.operands):
                size = (entry.kind != "view") + sum(found[x] for x in op.operands)
                if size <= 100:
                    found[v] = size
    return set(found)


def make_plan(kernel: Kernel, facts: dict[Value, Info], threads: int) -> Plan:
    """Chooses layouts for ``threads`` threads a program and inserts the conversions that they need."""
    chooser = _Chooser(kernel, facts, threads)
    layouts = chooser.choose()
    converter = _Converter(layouts, chooser)
    kernel = replace(kernel, body=converter.block(kernel.body))
    extend(kernel, facts)
    vectors = {}
    for op in kernel.ops():
        if vectored(op) and threads > 1:
            order, width = chooser.preference(op.operands[0])
            layout = layouts[op.result] if op.results else converter.anchors[op]
            vectors[op] = 1 if op.attrs.get("volatile") else min(width, layout.vector(order[0]))
    cheap = cheap_values(kernel)
    places = converter.anchors | {op: layouts[v] for op in kernel.ops() for v in op.results if v in layouts}
    order = fences(kernel, places, facts) if threads > 1 else set()
    masks = monotone(kernel, facts), even(kernel, facts)
    return Plan(kernel, threads, layouts, vectors, facts, *masks, cheap, converter.anchors, order)


def vectored(op: Op) -> bool:
    """True for what may access several elements of an array at once: loads and stores, and sums of float32 that nobody
    reads (on CUDA, from sm_90 on)."""
    if not OPS[op.name].moves and (op.attrs.get("how") != "add" or op.results):
        return False
    t = op.operands[0].type
    return bool(t.shape) and (OPS[op.name].moves or t.dtype is float32 and not t.shared)


def access_widths(kernel: Kernel, facts: dict[Value, Info], threads: int) -> tuple[tuple[int, int], ...]:
    """How many elements each access could take at once, if every thread is to have some; and of how many its mask is
    sure to be on for all or for none."""
    chooser, masks, found = _Chooser(kernel, facts, threads), even(kernel, facts), []
    for op in filter(vectored, kernel.ops()):
        ptr, mask = op.operands[0], mask_of(op)
        (first, *_), width = chooser.preference(ptr)
        width = min(width, chooser.share(ptr.type.shape))
        found.append((width, min(width, masks[mask][first]) if mask in masks else 1))
    return tuple(found)


class _Chooser:
    vector_bytes = 16  # of one access, at most

    def __init__(self, kernel: Kernel, facts: dict[Value, Info], threads: int):
        self.kernel, self.facts, self.threads = kernel, facts, threads
        self.parent: dict[Value, Value] = {}
        self.homes: dict[Value, Layout] = {}

    def preference(self, ptr: Value) -> tuple[tuple[int, ...], int]:
        """The order of dimensions in which these addresses run, and how many elements one access can take."""
        info, shape = self.facts[ptr], padded(ptr.type.shape)
        rank = len(shape)
        key = [(info.steps[d] is None or shape[d] == 1, abs(info.steps[d] or 0) or BIG_STEP, -d) for d in range(rank)]
        order = tuple(sorted(range(rank), key=lambda d: key[d]))
        width = 1
        if info.steps[order[0]] == 1 and not ptr.type.shared:
            itemsize = ptr.type.dtype.itemsize
            width = min(self.vector_bytes // itemsize or 1, shape[order[0]])
            while width > 1 and info.alignment(order[0], width) % width:
                width //= 2
            if shape[order[0]] != ptr.type.shape[order[0]]:
                width = min(width, ptr.type.shape[order[0]] & -ptr.type.shape[order[0]])
        return order, width

    def find(self, v: Value) -> Value:
        root = v
        while root in self.parent:
            root = self.parent[root]
        while v is not root:  # the next one finds it at once
            self.parent[v], v = root, self.parent[v]
        return root

    def join(self, *values: Value) -> None:
        roots = [self.find(v) for v in values if self.stored(v)]
        for v in roots[1:]:
            if v is not roots[0]:
                self.parent[v] = roots[0]

    def stored(self, v: Value) -> bool:
        """True for tiles that sit in registers of their own."""
        return v not in self.cheap and bool(v.type.shape) and not self.is_view(v)

    def is_view(self, v: Value) -> bool:
        return v in self.made and OPS[self.made[v].name].kind == "view"

    def roots(self, v: Value, frame: Frame) -> list[tuple[Value, Frame]]:
        """The stored tile that a (view of a) tile reads, if it does, and how the reader looks at it."""
        root, frame = viewed(v, self.made, frame)
        return [(root, frame)] if self.stored(root) else []

    def choose(self) -> dict[Value, Layout]:
        self.cheap, self.made = cheap_values(self.kernel), {v: op for op in self.kernel.ops() for v in op.results}
        slices: list[tuple[Value, Op]] = []  # tile, operation that reduces it
        looks: list[tuple[Value, Value, Frame]] = []  # tile, bigger tile it meets, frame
        accesses: list[tuple[Value, Value]] = []  # tile, pointer
        tiles: list[Value] = []
        for op in self.kernel.ops():
            tiles += filter(self.stored, (*(v for block in op.blocks for v in block.params), *op.results))
            if op.name in LOOPS:
                for start, param, end, result in op.carried:
                    self.join(param, result, start, end)
            elif op.name == "if":
                for k, r in enumerate(op.results):
                    self.join(r, *(b.yields[k] for b in op.blocks))
            elif op.name == "reduce":
                if self.stored(op.result):
                    slices.extend((root, op) for root, _ in self.roots(op.operands[0], identity(op.operands[0])))
            elif op.results or op.operands:
                out = (op.results or op.operands[1:] or op.operands)[0]
                self.join(*op.results)
                if (home := OPS[op.name].home) and (layout := home(op, self.threads)):
                    self.homes[op.result] = layout
                for k, v in enumerate(op.operands):
                    if k in OPS[op.name].apart:
                        continue
                    if v.type.shape == out.type.shape and not self.is_view(v):
                        self.join(out, v)
                    elif self.stored(out):
                        looks.extend((root, out, frame) for root, frame in self.roots(v, identity(out)))
                if OPS[op.name].memory:
                    accesses.extend((v, op.operands[0]) for v in (out, op.operands[0]) if self.stored(v))
        return self.assign(tiles, slices, looks, accesses)

    def assign(self, tiles, slices, looks, accesses) -> dict[Value, Layout]:
        """The biggest classes choose first, and of those the ones that are loaded or stored; then all that are looked
        at by, or look at, what has a layout."""
        classes: dict[Value, list[Value]] = {}
        for v in tiles:
            classes.setdefault(self.find(v), []).append(v)
        chosen: dict[Value, Layout] = {}
        accessed: dict[Value, list[Value]] = {}
        for v, ptr in accesses:
            accessed.setdefault(self.find(v), []).append(ptr)
        size = {root: prod(padded(root.type.shape)) for root in classes}

        links: dict[Value, list[tuple]] = {root: [] for root in classes}
        for tile, op in slices:
            links[self.find(op.result)].append((self.find(tile), op, ()))
        for small, big, frame in looks:
            mine, theirs = self.find(small), self.find(big)
            if size[theirs] > 2 * size[mine] or mine not in accessed:
                links[mine].append((theirs, None, frame))
            if size[theirs] <= 2 * size[mine] and theirs not in accessed:
                links[theirs].append((mine, "restrict", frame))
        neighbours: dict[Value, list[Value]] = {root: [] for root in classes}
        choosy = [op for op in self.kernel.ops() if OPS[op.name].fits]
        for root, found in links.items():
            for other, _, _ in found:
                neighbours[other].append(root)

        def near(root: Value) -> Layout | None:
            """A layout from a class that has one: what a reduction leaves, what a reader wants, what is read."""
            shape = padded(root.type.shape)
            for other, how, frame in links[root]:
                if other in chosen:
                    if isinstance(how, Op):
                        layout = self.seen(how.operands[0], chosen).without(how.attrs["axes"])
                    else:
                        layout = chosen[other].restrict(frame, shape) if how else chosen[other].project(frame)
                    mine = (op for op in choosy if self.find(op.result) is root)
                    if layout.shape == shape and all(OPS[op.name].fits(op, layout) for op in mine):
                        return layout
            return None

        homes = {self.find(v): layout for v, layout in self.homes.items()}
        roots = sorted(classes, key=lambda v: (v not in homes, -size[v], v not in accessed))
        rank, waiting, ready = {v: k for k, v in enumerate(roots)}, dict.fromkeys(roots), []
        while waiting:
            root = roots[heappop(ready)] if ready else next(iter(waiting))
            layout = homes.get(root) or near(root)
            if layout is None and ready:
                continue  # it waits for others
            chosen[root] = layout or self.from_accesses(root, accessed.get(root, ()))
            del waiting[root]
            for k in {rank[v] for v in neighbours[root] if v in waiting}.difference(ready):
                heappush(ready, k)
        return {v: chosen[root] for root, members in classes.items() for v in members}

    def seen(self, v: Value, layouts: dict[Value, Layout]) -> Layout | None:
        return seen(v, self.made, lambda root: layouts.get(root, layouts.get(self.find(root))))

    def from_accesses(self, root: Value, pointers: Sequence[Value]) -> Layout:
        shape = padded(root.type.shape)
        wanted = [self.preference(ptr) for ptr in pointers if ptr.type.shape == root.type.shape]
        if not wanted:
            return blocked(shape, self.threads)
        order = wanted[0][0]
        return self.spread(shape, max(w for o, w in wanted if o[0] == order[0]), order)

    def spread(self, shape: tuple[int, ...], width: int, order: tuple[int, ...]) -> Layout:
        """A tile in vectors of ``width``, or of less if not every thread would have one."""
        return blocked(shape, self.threads, min(width, self.share(shape)), order)

    def share(self, shape: tuple[int, ...]) -> int:
        """Elements of a tile that each thread has, at least 1."""
        return max(1, prod(padded(shape)) // self.threads)


BIG_STEP = 1 << 62


def identity(v: Value) -> Frame:
    return whole(padded(v.type.shape))


def sub_frame(op: Op, frame: Frame) -> Frame:
    """The frame in which a view's operand is read, given the one of its result."""
    return OPS[op.name].emit(op, frame)


def viewed(v: Value, made: dict[Value, Op], frame: Frame) -> tuple[Value, Frame]:
    """The tile that ``v`` is, or is a view of, and how a reader looks at it who looks at ``v`` through ``frame``."""
    while v in made and OPS[made[v].name].kind == "view":
        v, frame = made[v].operands[0], sub_frame(made[v], frame)
    return v, frame


def seen(v: Value, made: dict[Value, Op], layout_of: Callable[[Value], Layout | None]) -> Layout | None:
    """The layout of the tile that ``v`` is, or is a view of, as it shows in ``v``; None if that is computed anew."""
    root, frame = viewed(v, made, identity(v))
    have = layout_of(root)
    return have and have.restrict(frame, padded(v.type.shape))


class _Converter:
    """Inserts a `convert` wherever a tile is read in a layout in which its registers do not line up."""

    def __init__(self, layouts: dict[Value, Layout], chooser: _Chooser):
        self.layouts, self.chooser, self.made = layouts, chooser, chooser.made
        self.moved: dict[tuple[Value, Layout], Value] = {}
        self.anchors: dict[Op, Layout] = {}

    def demand(self, b: Builder, v: Value, layout: Layout, frame: Frame) -> Value:
        """``v``, or a copy of it that a reader in ``layout`` can use through ``frame``."""
        if v in self.chooser.cheap:
            return v
        if v in self.layouts:
            if layout.register_bits(self.layouts[v], frame) is not None:
                return v
            target = layout.project(frame)
            if (v, target) not in self.moved:
                self.moved[v, target] = b.add("convert", (v,), v.type)
                self.layouts[self.moved[v, target]] = target
            return self.moved[v, target]
        op = self.made[v]
        inner = self.demand(b, op.operands[0], layout, sub_frame(op, frame))
        if inner is op.operands[0]:
            return v
        view = b.add(op.name, (inner,), v.type, **op.attrs)
        self.made[view] = b.ops[-1]
        return view

    def block(self, old: Block) -> Block:
        b = Builder()
        outer = dict(self.moved)
        for op in old.ops:
            b.loc = op.loc
            b.ops.append(self.op(b, op))
        self.moved = outer
        return Block(old.params, tuple(b.ops), old.yields)

    def op(self, b: Builder, op: Op) -> Op:
        if op.name in LOOPS:
            starts = [self.carried(b, start, param) for start, param, _, _ in op.carried]
            body = self.ending(self.block(op.blocks[0]), tuple(param for _, param, _, _ in op.carried))
            return replace(op, operands=(*op.head, *starts), blocks=(body,))
        if op.name == "if":
            return replace(op, blocks=tuple(self.ending(self.block(inner), op.results) for inner in op.blocks))
        if anchored(op) and op.operands[0].type.shape:
            layout = self.anchor(op)
            if op.results and op.result.type.shape:
                self.layouts[op.result] = layout.without(op.attrs["axes"])  # type: ignore[arg-type]
        elif op.results and op.result in self.layouts:
            layout = self.layouts[op.result] = self.chooser.homes.get(op.result, self.layouts[op.result])
            if OPS[op.name].fits and not OPS[op.name].fits(op, layout):  # where others of its class have to be
                layout = blocked(layout.shape, self.chooser.threads)
                self.layouts |= dict.fromkeys(op.results, layout)
        else:
            return op
        operands = list(op.operands)
        for k, v in enumerate(operands):
            reader = self.chooser.seen(v, self.layouts) if k in OPS[op.name].apart else layout
            if v.type.shape and reader:
                operands[k] = self.demand(b, v, reader, whole(reader.shape))
        new = op if operands == [*op.operands] else replace(op, operands=tuple(operands))
        if anchored(op) or OPS[op.name].writes:
            self.anchors[new] = layout
        self.made.update(dict.fromkeys(new.results, new))
        return new

    def carried(self, b: Builder, v: Value, param: Value) -> Value:
        return self.demand(b, v, self.layouts[param], identity(v)) if param in self.layouts else v

    def ending(self, block: Block, targets: tuple[Value, ...]) -> Block:
        b, outer = Builder(), dict(self.moved)
        yields = tuple(self.carried(b, v, p) for v, p in zip(block.yields, targets, strict=True))
        self.moved = outer
        return replace(block, ops=(*block.ops, *b.ops), yields=yields)

    def anchor(self, op: Op) -> Layout:
        """A reduction runs in its operand's layout. So does a store, unless its addresses run along another dimension:
        then the tile is turned first, so that neighbouring threads write neighbouring elements."""
        shape, threads = padded(op.operands[0].type.shape), self.chooser.threads
        tiles = (op.operands[1], *op.operands) if OPS[op.name].writes else op.operands
        have = next((h for v in tiles if (h := self.chooser.seen(v, self.layouts)) and h.shape == shape), None)
        if not OPS[op.name].writes:
            return have or blocked(shape, threads)
        order, width = self.chooser.preference(op.operands[0])
        wanted = self.chooser.spread(shape, width, order)
        contiguous = self.chooser.facts[op.operands[0]].steps[order[0]] == 1
        if have is None or (contiguous and fastest(have) not in (order[0], None)):
            return wanted
        # >>> stage 8
        itemsize, vector = op.operands[0].type.dtype.itemsize, wanted.vector(order[0])
        if have in self.chooser.homes.values() and have.vector(order[0]) < min(vector, 16 // itemsize):
            return gathered(have, order[0], vector, 128 // itemsize) or wanted  # by way of shared memory
        # <<<
        return have


def anchored(op: Op) -> bool:
    """True for what is not where its result is: a reduction, and what gives nothing, such as a store."""
    return op.name == "reduce" or OPS[op.name].effect and bool(op.operands) and not op.results


def fastest(layout: Layout) -> int | None:
    """The dimension along which neighbouring threads sit."""
    return next((d for d, x in enumerate(layout.thread[0]) if x), None) if layout.thread else None
