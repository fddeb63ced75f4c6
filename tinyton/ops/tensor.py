"""Products on tensor cores: the warps of a program multiply pieces of two tiles that lie in shared memory."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ..dtypes import DType, float32, float64, uint8, uint32
from ..ir import Builder, Op, Type, Value
from ..layout import Layout, accumulators, left_operand, outer
from . import op

STEP = 32  # bytes of a row that one instruction multiplies
KINDS = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32", "float64": "f64"}  # what is multiplied
KINDS |= {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "s8", "uint8": "u8"}


def home(op: Op, threads: int) -> Layout | None:
    """The layout in which a product has its sums, if it is told how to be computed."""
    how, ways = op.attrs.get("how"), (op.attrs.get(word, False) for word in ("flip", "pairs"))
    return sums(op.result.type.shape, how, threads, *ways) if how else None


def sums(shape: tuple[int, ...], how: str, threads: int, flip: bool = False, pairs: bool = False) -> Layout:
    if how == "outer":
        return outer(shape, threads)
    return accumulators(shape, threads, how == "wgmma", flip, pairs)


# -- tiles in shared memory --------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A tile of matrices in shared memory, at the address ``memory``. Its rows run along dimension ``fast``. They are
    cut into pieces of ``width`` bytes; the pieces of one column of them follow each other; and the 16-byte parts of a
    piece are in another order in each row, so that one part of each of eight rows lies in all banks."""

    type: Type
    fast: int
    memory: str = ""
    rounded: bool = False  # to tf32

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def rows(self) -> int:
        return self.type.shape[2 * len(self.type.shape) - 3 - self.fast]

    @property
    def bytes(self) -> int:
        return size(self.type)

    def at(self, e, batch: str, row: str, byte: str) -> str:
        """The address of a byte of a row."""
        start = self.memory if batch == "0" else f"{self.memory} + ({batch}) * {self.bytes // self.type.shape[0]}"
        return plus(start, self.offset(e, row, byte))

    def offset(self, e, row: str, byte: str) -> str:
        """How far behind the first one it lies."""
        if row == byte == "0":
            return "0"
        width = min(128, self.type.shape[self.fast] * self.dtype.itemsize)
        line, half = f"row{f' / {128 // width}' if width < 128 else ''}", width // 32
        place, order = f"place_{width}", f"{line} % {2 * half} * 16"
        if self.dtype.itemsize == 8:  # two parts of each of four rows lie in all banks, which 16 lanes read at once
            place, order = f"{place}_wide", f"({line} % {half} * 2 + {line} / {half} % 2) * 16"
        head = f"int {place}(int row, int byte, int rows) {{"  # signed: sums do not wrap
        e.function(place, head, f"return (byte / {width} * rows + row) * {width} + (byte % {width} ^ {order});")
        return f"{place}({row}, {byte}, {self.rows})"

    def here(self, e, s) -> str:
        """The address of the element at a place of a loop."""
        rank = len(self.type.shape)
        row, column = s.coordinates[2 * rank - 3 - self.fast], s.coordinates[self.fast]
        return self.at(e, s.coordinates[0] if rank > 2 else "0", row, times(f"({column})", self.dtype.itemsize))


class Held(NamedTuple):
    """A left operand of 16-bit elements that is in registers as it is multiplied: as sums are (PTX ISA, *Matrix
    Fragments*)."""

    type: Type
    array: str
    words: str = ""  # where its elements are in pairs already

    def pack(self, e, words: str, parts: int) -> None:
        """Puts pairs of elements into ``words``, four for each of ``parts`` of 16 rows by 32 bytes."""
        pack, k = e.use(f"pack_{KINDS[self.type.dtype.name]}"), e.fresh("part")
        e.line("#pragma unroll")
        e.line(f"for (int {k} = 0; {k} < {parts}; ++{k}) {{")
        for w in range(4):
            x, y = (f"{self.array}[{plus(f'{k} * 8', str(n))}]" for n in (2 * w, 2 * w + 1))
            e.line(f"    {words}[{plus(f'{k} * 4', str(w))}] = {pack}({x}, {y});")
        e.line("}")


def size(t: Type) -> int:
    """The bytes of a tile."""
    return prod(t.shape) * t.dtype.itemsize


def runs_along(layout: Layout, t: Type, inner: int, rounded: bool = False) -> int:
    """The dimension along which the rows of a tile run in shared memory: that of the neighbours in a thread, if they
    can be multiplied so. Bytes, and what is ``rounded`` there, can not, unless that is ``inner``, along which they are
    multiplied."""
    runs, rank = layout.runs(), len(t.shape)
    turned = runs and runs[0].step == 1 and runs[0].dim == 2 * rank - 3 - inner
    return runs[0].dim if turned and t.dtype.itemsize > 1 and not rounded else inner


def _emit_place(e, op):
    (x,) = op.operands
    if in_registers(op, e.arrays[x][1] if x in e.arrays else None, e.threads):
        e.placed[op.result] = Held(x.type, e.arrays[x][0])
        return
    layout, dtype, name = e.own_layout(x), x.type.dtype, e.fresh(f"{x.name or op.result.name or 'operand'}_tile")
    e.line(f"char* const {name} = (char*){e.shared(uint8, size(x.type), keep=True)};")
    rounded = op.attrs.get("rounded", False)
    fast = runs_along(layout, x.type, op.attrs["inner"], rounded)
    tile = e.placed[op.result] = Placed(x.type, fast, name, rounded)
    width = min(layout.vector(tile.fast), 16 // dtype.itemsize)
    with e.once_per_element(layout), e.loop(layout, [op], step=width) as s:
        values = [s.shifted(j).get(x) for j in range(width)]
        if rounded:
            values = [f"{e.use('float_of')}({e.use('tf32_bits')}({v}))" for v in values]
        s.line(f"{e.access('put', dtype, width)}({tile.here(e, s)}, {', '.join(values)});")
    e.waiting = True


def in_registers(op: Op, layout: Layout | None, threads: int) -> bool:
    """Whether a tile of that layout need not be placed, as each warp has in registers what it multiplies."""
    t = op.operands[0].type
    if "left" not in op.attrs or t.dtype.itemsize != 2 or len(t.shape) != 2:
        return False
    return op.attrs["inner"] == 1 and layout == left_operand(t.shape, sums(*op.attrs["left"], threads))


@op(numpy=lambda run, op, x: x, emit=_emit_place, kind="statement", public=False, placed=True)
def place(b: Builder, x: Value, inner: int, rounded: bool = False, **left: object) -> None:
    """A tile in shared memory, from where it is multiplied along dimension ``inner``; ``rounded``, as tf32. The threads
    have to meet before that. ``left`` has the shape and the instructions of the product whose left operand it is, if it
    is nothing else: then it may stay in registers."""


# -- products ----------------------------------------------------------------------------------------------------------


class Product:
    """What of a product its instructions need to know: ``sums``, the registers of its result, laid out as ``layout``;
    ``tiles``, what it multiplies, each with True if its rows run along what is multiplied; and by dimension how many
    ``pieces`` of 16 by 8 a warp has."""

    def __init__(self, e, op: Op, fresh: bool = False):
        """``fresh``: the registers are not set before."""
        self.e, self.op, self.rank = e, op, len(op.result.type.shape)
        pair = [e.operand(v) for v in op.operands[:2]]
        straight = (isinstance(x, Held) or dims[x.fast] == self.rank - 1 - k for k, (x, dims) in enumerate(pair))
        self.tiles = [(x, way) for (x, _), way in zip(pair, straight, strict=True)]
        self.row, self.column = self.rank - 2, self.rank - 1
        if op.attrs.get("flip"):  # the product of both turned is computed, turned
            self.tiles, self.row, self.column = self.tiles[::-1], self.column, self.row
        self.dtype, self.layout, self.outer = op.operands[0].type.dtype, home(op, e.threads), e.depth
        self.bytes = op.operands[0].type.shape[-1] * self.dtype.itemsize  # of a row that is multiplied
        if e.waiting:
            e.barrier()
        e.declare(op.result, self.layout)
        self.sums = e.arrays[op.result][0]
        if not fresh:
            e.materialise(op.operands[2], self.sums, self.layout)
        self.runs = {run.dim: run for run in self.layout.runs() if run.low > 1}
        self.pieces = [1 << self.runs[d].bits if d in self.runs else 1 for d in range(self.rank)]

    def part(self, d: int, low: int) -> str:
        """Where the part begins, along a dimension, of threads whose numbers differ in the bits from ``low`` on."""
        bits = [(i, b[d]) for i, b in enumerate(self.layout.thread) if i >= low and b[d]]
        text = plus(*(self.e.bits_of_thread([i for i, _ in run], run[0][1]) for run in _doubling(bits)))
        return text.replace("thread", self.e.leader()) if bits and low > 5 else text

    def piece(self, d: int, k: str) -> str:
        """How far behind that piece ``k`` along a dimension begins."""
        return times(k, self.runs[d].step) if d in self.runs else "0"

    def loop(self, name: str, end: int, step: int = 1, at_once: int | None = None) -> str:
        """Opens a loop, unless there is one round; gives its variable. It is unrolled, ``at_once`` rounds at a time."""
        if end <= step:
            return "0"
        v = self.e.fresh(name)
        self.e.line(f"#pragma unroll{f' {at_once}' if at_once else ''}")
        self.e.line(f"for (int {v} = 0; {v} < {end}; {f'{v} += {step}' if step > 1 else f'++{v}'}) {{")
        self.e.depth += 1
        return v

    def shut(self, depth: int) -> None:
        """Closes loops."""
        while self.e.depth > depth:
            self.e.depth -= 1
            self.e.line("}")

    def first(self, d: int, k: str, low: int = 5) -> str:
        """Where piece ``k`` along a dimension begins, for a warp, or a group of them."""
        return plus(self.part(d, low), self.piece(d, k))

    def register(self, *at: str) -> str:
        """The number of the first of the sums of a piece."""
        dims = (*range(self.rank - 2), self.row, self.column)
        return plus(*(times(v, 1 << self.runs[d].low) for d, v in zip(dims, at, strict=True) if d in self.runs))

    def held(self, rows: int) -> str:
        """The array of words that are the left operand, ``rows`` pieces by 32 bytes; empty if it is in memory."""
        tile, parts = self.tiles[0][0], rows * (self.bytes // STEP)
        if not isinstance(tile, Held) or tile.words:
            return getattr(tile, "words", "")
        words = self.e.fresh("left")
        self.e.line(f"unsigned int {words}[{4 * parts}];")
        tile.pack(self.e, words, parts)
        return words

    def word(self, words: str, i: str, k: str) -> str:
        """The words of a piece that is held; ``k`` counts bytes."""
        return plus(words, times(i, 4 * (self.bytes // STEP)), f"{k} / {STEP // 4}" if k != "0" else "0")


def by_warps(e, op: Op) -> None:
    """Each warp adds up its part of the result, 32 bytes of rows and columns after the other."""
    p = Product(e, op)
    *_, rows, columns = p.pieces
    words = p.held(rows)
    batches = [p.loop("batch", p.pieces[0])] if p.rank > 2 else []
    batch = p.first(0, batches[0]) if batches else "0"
    split = op.attrs.get("precision") == "tf32x3"
    k = p.loop("part", p.bytes, STEP, 1 if split else None)  # all at once takes too many registers
    word = float64 if p.dtype is float64 else uint32
    sides = (e.fresh("left"), rows * 16 // word.itemsize), (e.fresh("right"), columns * 8 // word.itemsize)
    for side, n in sides[bool(words) :]:
        e.line(f"{e.c(word)} {side}[{n}];")
    (left, many), (right, few), depth = *sides, e.depth
    if not words:
        i = p.loop("i", rows)
        read(e, p.tiles[0], f"{left} + {times(i, many // rows)}", batch, p.first(p.row, i), k)
        p.shut(depth)
    j = p.loop("j", columns, 2)
    read(e, p.tiles[1], f"{right} + {times(j, few // columns)}", batch, p.first(p.column, j), k, True)
    p.shut(depth)
    pairs = [(left, right)]
    if split:  # the rest of each operand is another; the two rests, which are small, are not multiplied
        rests = [e.fresh(f"{side}_rest") for side, _ in sides]
        pairs = [(rests[0], right), (left, rests[1]), *pairs]
        e.line(f"unsigned int {rests[0]}[{many}], {rests[1]}[{few}];")
    for s, (side, n) in enumerate(sides if p.dtype is float32 else ()):
        w = p.loop("w", n)
        if split:
            e.line(f"{e.use('split_tf32')}({side} + {w}, {rests[s]} + {w});")
        else:
            e.line(f"{side}[{w}] = {e.use('tf32_bits')}({e.use('float_of')}({side}[{w}]));")
        p.shut(depth)
    i, j = p.loop("i", rows), p.loop("j", columns)
    multiply, out = e.use(f"multiply_{KINDS[p.dtype.name]}"), plus(p.sums, p.register(*batches, i, j))
    if split:  # tensor cores cut sums off, so these few are added up by themselves
        total, out = out, e.fresh("few")
        e.line(f"float {out}[4] = {{0.0f, 0.0f, 0.0f, 0.0f}};")
    for x, y in pairs:
        x = p.word(words, i, k) if words else f"{x} + {times(i, many // rows)}"
        e.line(f"{multiply}({out}, {x}, {y} + {times(j, few // columns)});")
    if split:
        w = p.loop("w", 4)
        e.line(f"({total})[{w}] += {out}[{w}];")
    p.shut(p.outer)


def read(e, operand: tuple[Placed, bool], to: str, batch: str, first: str, k: str, right: bool = False) -> None:
    """16 rows (columns, if on the ``right``) from ``first`` on, by 32 bytes from byte ``k`` on, as a warp multiplies
    them. Its lanes give the addresses of eight rows of four pieces; the second piece of the left has the rows below,
    that of the right the bytes beyond."""
    tile, straight = operand
    size = tile.dtype.itemsize
    if size == 8 or size == 4 and not straight:
        return read_elements(e, operand, to, batch, plus(first, "(thread >> 2 & 7)"), 8, k, right)
    start = over(k, size)
    low, second, third = "(thread & 7)", "(thread >> 3 & 1)", "(thread >> 4 & 1)"
    across, along = (third, second) if right else (second, third)
    if straight:
        row, byte = plus(first, low, times(across, 8)), plus(k, times(along, 16))
    else:
        row = plus(start, low, times(along, 8))
        byte = f"({plus(first, times(across, 8))}) * {size}"
    load = e.use("load_matrices" if straight else "load_matrices_turned")
    e.line(f"{load}({to}, {tile.at(e, batch, row, byte)});")


def read_elements(
    e, operand: tuple[Placed, bool], to: str, batch: str, row: str, below: int, k: str, right: bool = False
) -> None:
    """The same, of what cannot be read so: each lane reads what it has of row ``row`` and the one that is ``below``."""
    tile, straight = operand
    size = tile.dtype.itemsize
    many = 2 if below == 1 and not straight else 1  # neighbours
    places = [(low, beyond) for beyond in range(0, STEP // size, 4) for low in range(0, 2 * below, below * many)]
    get = e.access("get", float64 if size == 8 else uint32, many)
    for w, (low, beyond) in enumerate(sorted(places) if right else places):
        at = plus(row, str(low)), plus(over(k, size), "(thread & 3)", str(beyond))
        across, along = at if straight else at[::-1]
        e.line(f"{get}({plus(to, str(w * many))}, {tile.at(e, batch, across, times(f'({along})', size))});")


def over(text: str, n: int) -> str:
    return text if text == "0" or n == 1 else f"{text} / {n}"


def _doubling(bits: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Bits with their steps, those together whose steps double."""
    found: list[list[tuple[int, int]]] = []
    for i, step in bits:
        if found and found[-1][-1] == (i - 1, step // 2):
            found[-1].append((i, step))
        else:
            found.append([(i, step)])
    return found


def times(text: str, factor: int) -> str:
    return text if factor == 1 or text == "0" else f"{text} * {factor}"


def plus(*parts: str) -> str:
    return " + ".join(p for p in parts if p != "0") or "0"
