"""Products on tensor cores: the warps of a program multiply pieces of two tiles that lie in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..dtypes import DType, float32, uint8
from ..ir import Builder, Op, Type, Value
from ..layout import Layout, accumulators
from . import op

STEP = 32  # bytes of a row that one instruction multiplies
KINDS = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32", "int8": "s8", "uint8": "u8"}  # what is multiplied
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}  # of as many bytes


def home(op: Op, threads: int) -> Layout | None:
    """The layout in which a product on tensor cores has its sums."""
    return accumulators(op.result.type.shape, threads) if op.attrs.get("how") == "mma" else None


# -- tiles in shared memory --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """A tile of matrices in shared memory, at the address ``memory``. Its rows run along dimension ``fast``. They are
    cut into pieces of ``width`` bytes; the pieces of one column of them follow each other; and the 16-byte parts of a
    piece are in another order in each row, so that one part of each of eight rows lies in all banks."""

    type: Type
    fast: int
    memory: str = ""

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
        width = min(128, self.type.shape[self.fast] * self.dtype.itemsize)
        place, order = f"place_{width}", f"row{f' / {128 // width}' if width < 128 else ''} % {width // 16} * 16"
        e.helpers.setdefault(
            place,
            f"{e.dialect.function} unsigned int {place}(unsigned int row, unsigned int byte, unsigned int rows) {{\n"
            f"    return (byte / {width} * rows + row) * {width} + (byte % {width} ^ {order});\n}}",
        )
        return f"{start} + {place}({row}, {byte}, {self.rows})"

    def here(self, e, s) -> str:
        """The address of the element at a place of a loop."""
        rank = len(self.type.shape)
        row, column = s.coordinates[2 * rank - 3 - self.fast], s.coordinates[self.fast]
        return self.at(e, s.coordinates[0] if rank > 2 else "0", row, times(f"({column})", self.dtype.itemsize))


def size(t: Type) -> int:
    """The bytes of a tile."""
    return prod(t.shape) * t.dtype.itemsize


def runs_along(layout: Layout, t: Type, inner: int) -> int:
    """The dimension along which the rows of a tile run in shared memory: that of the neighbours in a thread, if they
    can be multiplied so. Only if elements have 16 bits can that be another one than ``inner``, which is multiplied."""
    runs, rank = layout.runs(), len(t.shape)
    turned = runs and runs[0].step == 1 and runs[0].dim == 2 * rank - 3 - inner and t.dtype.itemsize == 2
    return runs[0].dim if turned else inner


def put(e, dtype: DType, width: int) -> str:
    """The helper that writes ``width`` neighbours to shared memory in one access."""
    name, kind = f"put_{dtype.name}x{width}", WORDS[width * dtype.itemsize]
    takes = ", ".join(f"{e.c(dtype)} x{k}" for k in range(width))
    values = ", ".join(e.bits_text(f"x{k}", dtype) for k in range(width))
    body = f"    *({e.dialect.stored(dtype)}*)to = {values};"
    if width > 1:
        body = f"    alignas({kind}) const {e.dialect.stored(dtype)} v[{width}] = {{{values}}};\n"
        body += f"    *({kind}*)to = *(const {kind}*)v;"
    e.helpers.setdefault(name, f"{e.dialect.function} void {name}(char* to, {takes}) {{\n{body}\n}}")
    return name


def _emit_place(e, op):
    (x,) = op.operands
    layout, dtype, name = e.own_layout(x), x.type.dtype, e.fresh(f"{x.name or op.result.name or 'operand'}_tile")
    e.line(f"char* const {name} = (char*){e.shared(uint8, size(x.type), keep=True)};")
    tile = e.placed[op.result] = Placed(x.type, runs_along(layout, x.type, op.attrs["inner"]), name)
    width = min(layout.vector(tile.fast), 16 // dtype.itemsize)
    with e.once_per_element(layout), e.loop(layout, [op], step=width) as s:
        values = ", ".join(s.shifted(j).get(x) for j in range(width))
        s.line(f"{put(e, dtype, width)}({tile.here(e, s)}, {values});")
    e.waiting = True


@op(numpy=lambda run, op, x: x, emit=_emit_place, kind="statement", public=False, placed=True)
def place(b: Builder, x: Value, inner: int) -> Value:
    """A tile in shared memory, from where it is multiplied along dimension ``inner``. The threads have to meet before
    that."""
    return b.add("place", (x,), x.type, inner=inner)


# -- products ----------------------------------------------------------------------------------------------------------


def emit_product(e, op: Op) -> None:
    """Each warp adds up its part of the result, 32 bytes of rows and columns after the other."""
    out, acc, rank = op.result, op.operands[2], len(op.result.type.shape)
    pair = [e.operand(v) for v in op.operands[:2]]
    tiles = [(tile, dims[tile.fast] == rank - 1 - k) for k, (tile, dims) in enumerate(pair)]
    if e.waiting:
        e.barrier()
    dtype, layout = tiles[0][0].dtype, home(op, e.threads)
    e.declare(out, layout)
    if e.layout_of(out) != layout:
        e.declare(out := Value(out.type, "sums"), layout)
    sums = e.arrays[out][0]
    e.materialise(acc, sums, layout)
    warp = [_warp(e, layout, d) for d in range(rank)]
    runs = {run.dim: run for run in layout.runs() if run.low > 1}  # of pieces of 16 by 8
    count = {d: 1 << runs[d].bits if d in runs else 1 for d in range(rank)}
    depth, outer = e.depth, e.depth

    def loop(name: str, end: int, step: int = 1) -> str:
        """Opens a loop, unless there is one round; gives its variable."""
        if end <= step:
            return "0"
        v = e.fresh(name)
        e.line("#pragma unroll")
        e.line(f"for (int {v} = 0; {v} < {end}; {f'{v} += {step}' if step > 1 else f'++{v}'}) {{")
        e.depth += 1
        return v

    def shut(to: int) -> None:
        while e.depth > to:
            e.depth -= 1
            e.line("}")

    def first(d: int, k: str) -> str:
        """Where piece ``k`` along a dimension begins."""
        return plus(warp[d], times(k, runs[d].step) if d in runs else "0")

    batches = [loop("batch", count[0])] if rank > 2 else []
    batch, row, column = first(0, batches[0]) if batches else "0", rank - 2, rank - 1
    k = loop("part", op.operands[0].type.shape[-1] * dtype.itemsize, STEP)
    left, right = e.fresh("left"), e.fresh("right")
    e.line(f"unsigned int {left}[{4 * count[row]}], {right}[{2 * count[column]}];")
    depth = e.depth
    i = loop("i", count[row])
    _read(e, tiles[0], f"{left} + {times(i, 4)}", batch, first(row, i), k, False)
    shut(depth)
    j = loop("j", count[column], 2)
    _read(e, tiles[1], f"{right} + {times(j, 2)}", batch, first(column, j), k, True)
    shut(depth)
    if dtype is float32:
        for words, n in ((left, 4 * count[row]), (right, 2 * count[column])):
            w = loop("w", n)
            e.line(f"{words}[{w}] = {e.use('tf32_bits')}({e.use('float_of')}({words}[{w}]));")
            shut(depth)
    i, j = loop("i", count[row]), loop("j", count[column])
    at = zip([*batches, i, j], range(rank), strict=True)
    place = plus(*(times(v, 1 << runs[d].low) for v, d in at if d in runs))
    multiply = e.use(f"multiply_{KINDS[dtype.name]}")
    e.line(f"{multiply}({sums} + {place}, {left} + {times(i, 4)}, {right} + {times(j, 2)});")
    shut(outer)
    e.materialise(out, *e.arrays[op.result])


def _read(e, operand: tuple[Placed, bool], to: str, batch: str, first: str, k: str, right: bool) -> None:
    """16 rows (columns, if on the ``right``) from ``first`` on, by 32 bytes from byte ``k`` on, as a warp multiplies
    them. Its lanes give the addresses of eight rows of four pieces; the second piece of the left has the rows below,
    that of the right the bytes beyond."""
    tile, straight = operand
    low, second, third = "(thread & 7)", "(thread >> 3 & 1)", "(thread >> 4 & 1)"
    across, along = (third, second) if right else (second, third)
    if not straight:
        row = plus(f"{k} / {tile.dtype.itemsize}" if k != "0" else "0", low, times(along, 8))
        byte = f"({plus(first, times(across, 8))}) * {tile.dtype.itemsize}"
    else:
        row, byte = plus(first, low, times(across, 8)), plus(k, times(along, 16))
    read = e.use("load_matrices" if straight else "load_matrices_turned")
    e.line(f"{read}({to}, {tile.at(e, batch, row, byte)});")


def _warp(e, layout: Layout, dim: int) -> str:
    """Where the part of a warp begins."""
    runs = (run for run in layout.thread_runs() if run.dim == dim and run.low >= 5)
    return plus(*(e.bits_of_thread(list(range(run.low, run.low + run.bits)), run.step) for run in runs))


def times(text: str, factor: int) -> str:
    return text if factor == 1 or text == "0" else f"{text} * {factor}"


def plus(*parts: str) -> str:
    return " + ".join(p for p in parts if p != "0") or "0"
