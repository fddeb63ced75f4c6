"""Products by warp-groups: four warps together multiply tiles where they lie in shared memory, and tell when they are
done (PTX ISA, *Asynchronous Warpgroup Level Matrix Instructions*, sm_90a)."""

from __future__ import annotations

from ..ir import Builder, Op, Value
from . import op as op_
from .tensor import KINDS, STEP, Placed, Product, over, plus, times

GROUP = 128  # threads
WIDEST = 256  # columns of one instruction
WORDS = {"f16": ("f32.f16.f16", 16), "bf16": ("f32.bf16.bf16", 16), "s8": ("s32.s8.s8", 32), "u8": ("s32.u8.u8", 32)}


def by_groups(e, op: Op) -> None:
    """Each warp-group adds up its part of the result, 32 bytes of rows and columns after the other."""
    p = Product(e, op)
    columns = min(8 * p.pieces[-1], WIDEST)
    words = p.held(p.pieces[-2])
    e.line(f"{e.use('warpgroup_fence')}();")
    batches = [p.loop("batch", p.pieces[0])] if p.rank > 2 else []
    batch = p.first(0, batches[0]) if batches else "0"
    k = p.loop("part", p.bytes, STEP)
    i, j = p.loop("i", p.pieces[-2]), p.loop("j", p.pieces[-1], WIDEST // 8)
    starts = p.first(p.rank - 2, i, 7), p.first(p.rank - 1, j, 7)
    x = p.word(words, i, k) if words else _descriptor(e, p.tiles[0], batch, starts[0], k)
    y = _descriptor(e, p.tiles[1], batch, starts[1], k)
    e.line(f"{_multiply(e, p, columns, bool(words))}({plus(p.sums, p.register(*batches, i, j))}, {x}, {y});")
    p.shut(p.outer)
    e.line(f"{e.use('warpgroup_sent')}();")
    same = e.arrays.get(op.operands[2]) == e.arrays[p.out]
    if same and (patient := op.attrs.get("patient")):
        e.line(f"{e.use('warpgroup_wait')}<{patient}>();")
    else:
        e.line(f"{_named(e, 'wait', p.dtype.is_float, p.layout.registers)}({p.sums});")
    p.end()


def _emit_begin(e, op):
    e.declare(op.result)
    name, layout = e.arrays[op.result]
    e.materialise(op.operands[0], name, layout)
    e.line(f"{_named(e, 'set', op.result.type.dtype.is_float, layout.registers)}({name});")


@op_(numpy=lambda run, op, x: x, emit=_emit_begin, kind="statement", public=False)
def products_begin(b: Builder, sums: Value) -> Value:
    """The first ``sums`` of products that are waited for behind their loop: in registers on all ways there, be there a
    round or not, for else ptxas lets products wait for each other."""
    return b.add("products_begin", (sums,), sums.type)


def _emit_wait(e, op):
    name, layout = e.arrays[op.operands[0]]
    e.line(f"{_named(e, 'wait', op.operands[0].type.dtype.is_float, layout.registers)}({name});")


@op_(numpy=None, emit=_emit_wait, kind="statement", effect=True, public=False)
def products_wait(b: Builder, sums: Value) -> None:
    """Waits until all products are done, whose ``sums`` are read after this."""
    b.add("products_wait", (sums,), None)


def _descriptor(e, operand: tuple[Placed, bool], batch: str, first: str, k: str) -> str:
    """What tells the hardware where rows (or columns) from ``first`` on lie, from byte ``k`` on."""
    tile, straight = operand
    row, byte = (
        (first, k)
        if straight
        else (over(k, tile.dtype.itemsize), times(first if first == "0" else f"({first})", tile.dtype.itemsize))
    )
    width = min(128, tile.type.shape[tile.fast] * tile.dtype.itemsize)
    describe = e.use(f"describe_{width}")
    return f"{describe}({tile.at(e, batch, row, byte)}, {tile.rows * width})"


def _listed(parts: list[str], pad: str) -> str:
    """Parts of a list, eight a line."""
    return f",\n{pad}".join(", ".join(parts[k : k + 8]) for k in range(0, len(parts), 8))


def _multiply(e, p: Product, columns: int, held: bool) -> str:
    """The helper that multiplies 64 rows, in memory or ``held`` in registers, by ``columns``."""
    words, k = WORDS[kind := KINDS[p.dtype.name]]
    turned = [not straight for _, straight in p.tiles]
    name = f"warpgroup_{kind}x{columns}" + "".join(
        f"_{side}" for side, t in zip(("left", "right"), turned, strict=True) if t
    )
    count, letter, c = columns // 2, *(("f", "float") if words[0] == "f" else ("r", "int"))
    more = ", 1, 1, " + ", ".join(str(int(t)) for t in turned[held:]) if p.dtype.is_float else ""
    if held:
        name += "_held"
    word = [f"%{count + i}" for i in range(4)]
    left = ("const unsigned int*", f"{{{', '.join(word)}}}", ", ".join(f'"r"(x[{i}])' for i in range(4)))
    kind, x, given = left if held else ("unsigned long long", word[0], '"l"(x)')
    text = e.dialect.helpers["warpgroup_multiply"].format(
        fn=e.dialect.function,
        name=name,
        c=c,
        n=columns,
        k=k,
        words=words,
        places=", ".join(f"%{i}" for i in range(count)),
        kind=kind,
        x=x,
        y=f"%{count + (4 if held else 1)}",
        given=given,
        more=more,
        sums=_listed([f'"+{letter}"(sum[{i}])' for i in range(count)], " " * 10),
    )
    e.helpers.setdefault(name, text.strip())
    return name


def _named(e, verb: str, is_float: bool, count: int) -> str:
    """The helper that waits for so many sums of a thread, or has them set. It names each, so that none is read before,
    or set after."""
    letter, c = ("f", "float") if is_float else ("r", "int")
    name = f"warpgroup_{verb}_{c}x{count}"
    parts = [f'"+{letter}"(sum[{i}])' for i in range(count)]
    lists = [_listed(parts[i : i + 128], " " * 10) for i in range(0, count, 128)]
    words = ["wgmma.wait_group.sync.aligned 0;" * (verb == "wait"), *[""] * (len(lists) - 1)]
    part = e.dialect.helpers["warpgroup_names"]
    body = "".join(part.format(words=w, sums=x) for w, x in zip(words, lists, strict=True))
    e.helpers.setdefault(name, f"{e.dialect.function} void {name}({c}* sum) {{{body}\n}}")
    return name
