"""Products by warp-groups: four warps together multiply tiles where they lie in shared memory, and tell when they are
done (PTX ISA, *Asynchronous Warpgroup Level Matrix Instructions*, sm_90a)."""

from __future__ import annotations

from functools import partial

from ..dtypes import float32, uint8, uint32
from ..ir import Builder, Op, Value
from . import op as op_
from .tensor import KINDS, STEP, Placed, Product, over, plus, read_elements, times

GROUP = 128  # threads
WIDEST = 256  # columns of one instruction
WORDS = {"f16": ("f32.f16.f16", 16), "bf16": ("f32.bf16.bf16", 16), "tf32": ("f32.tf32.tf32", 8)}
WORDS |= {"e4m3": ("f32.e4m3.e4m3", 32), "e5m2": ("f32.e5m2.e5m2", 32)}
WORDS |= {"s8": ("s32.s8.s8", 32), "u8": ("s32.u8.u8", 32)}


def by_groups(e, op: Op) -> None:
    """Each warp-group adds up its part of the result, 32 bytes of rows and columns after the other. Of float32, it
    takes the left part from registers, where that is rounded to tf32; the right one is rounded where it lies. Sums
    that begin at 0 are made by the first products."""
    acc = op.operands[2]
    p = Product(e, op, fresh := e.is_constant(acc) and not e.made[e.root(acc)].attrs["value"])
    rows, columns, rounds = p.pieces[p.row], min(8 * p.pieces[p.column], WIDEST), p.dtype is float32
    if rounds:
        tile, straight = p.tiles[1]
        p.tiles[1] = _rounded(e, tile) if straight else _turned(e, tile), True
        words, parts = e.fresh("left"), p.bytes // STEP
        e.line(f"unsigned int {words}[{4 * rows * parts}];")
    else:
        words, parts = p.held(rows), 1
        e.line(f"{e.use('warpgroup_fence')}();")
    batches = [p.loop("batch", p.pieces[0])] if p.rank > 2 else []
    batch = p.first(0, batches[0], 7) if batches else "0"
    k = p.loop("part", p.bytes, STEP)
    inside = e.depth
    if rounds:
        i = p.loop("i", rows)
        to, below = p.word(words, i, k), p.layout.reg[1][p.row]
        read_elements(e, p.tiles[0], to, batch, p.first(p.row, i, 2), below, k)
        w = p.loop("w", 4)
        e.line(f"({to})[{w}] = {e.use('tf32_bits')}({e.use('float_of')}(({to})[{w}]));")
        p.shut(inside)
        e.line(f"{e.use('warpgroup_fence')}();")
    i, j = p.loop("i", rows), p.loop("j", p.pieces[p.column], WIDEST // 8)
    x = p.word(words, i, k) if words else _descriptor(p, p.tiles[0], batch, p.row, i, k)
    y = _descriptor(p, p.tiles[1], batch, p.column, j, k)
    first, add = plus(p.sums, p.register(*batches, i, j)), f"{k} != 0" if fresh else "1"
    e.line(f"{_multiply(e, p, columns, bool(words))}({first}, {x}, {y}, {add});")
    p.shut(inside if rounds else p.outer)
    e.line(f"{e.use('warpgroup_sent')}();")
    if rounds:  # the next part is read while this one is multiplied, and takes the registers of the one before
        e.line(f"{e.use('warpgroup_wait')}<{min(parts - 1, 1)}>();")
    p.shut(p.outer)
    same = e.arrays.get(acc) == e.arrays[op.result]
    if same and (patient := op.attrs.get("patient")):
        if not rounds:
            e.line(f"{e.use('warpgroup_wait')}<{patient}>();")
    elif rounds:
        e.line(f"{_named(e, p.dtype.is_float, p.layout.registers, 'wait')}({p.sums});")
    else:
        e.sent[op.result] = p.sums, partial(_named, e, p.dtype.is_float, p.layout.registers)


def _rounded(e, tile: Placed) -> Placed:
    """A tile after it is rounded to tf32, as what multiplies it would cut it off."""
    if tile.rounded:
        return tile
    get, put, r = e.access("get", uint32, 4), e.access("put", uint32, 4), e.fresh("r")
    bits = ", ".join(f"{e.use('tf32_bits')}({e.use('float_of')}(v[{k}]))" for k in range(4))
    body = "unsigned int v[4];", f"{get}(v, at);", f"{put}(at, {bits});"
    e.function("round_in_place", "void round_in_place(char* at) {  // 4 elements to tf32", *body)
    e.line("#pragma unroll")
    e.line(f"for (int {r} = thread * 16; {r} < {tile.bytes}; {r} += {16 * e.threads}) {{")
    e.line(f"    round_in_place((char*){tile.memory} + {r});")
    e.line("}")
    e.waiting = True
    e.barrier()
    return tile


def _turned(e, tile: Placed) -> Placed:
    """A copy of a tile whose rows run along what is multiplied, rounded to tf32. It is made, of blocks of 4 by 4, while
    products of the round before go on, which read another copy. Neighbouring threads read and write all banks."""
    memory, turn, copy, b, v = e.shared(uint8, 2 * tile.bytes, keep=True), *map(e.fresh, ("turn", "turned", "b", "v"))
    e.turns.append(turn)
    e.line(f"{turn} ^= {tile.bytes};")
    e.line(f"char* const {copy} = (char*){memory} + {turn};")
    new = tile._replace(fast=1 - tile.fast, memory=copy, rounded=True)
    across, along = tile.type.shape[tile.fast] // 4, tile.rows // 4
    get, put = (e.access(verb, uint32, 4) for verb in ("get", "put"))
    row, column = f"({b} % {across} % {along} ^ {b} / {across})", f"{b} % {across}"
    e.line("#pragma unroll")
    e.line(f"for (int {b} = thread; {b} < {across * along}; {b} += {e.threads}) {{")
    e.line(f"    unsigned int {v}[16];")
    for k in range(4):
        e.line(f"    {get}({v} + {4 * k}, {tile.at(e, '0', f'{row} * 4 + {k}', f'{column} * 16')});")
    for k in range(4):
        bits = ", ".join(f"{e.use('tf32_bits')}({e.use('float_of')}({v}[{4 * i + k}]))" for i in range(4))
        e.line(f"    {put}({new.at(e, '0', f'{column} * 4 + {k}', f'{row} * 16')}, {bits});")
    e.line("}")
    e.line(f"{e.use('warpgroup_wait')}<0>();")
    e.waiting = True
    e.barrier()
    return new


def _emit_begin(e, op):
    e.declare(op.result)
    name, layout = e.arrays[op.result]
    e.materialise(op.operands[0], name, layout)
    e.line(f"{_named(e, op.result.type.dtype.is_float, layout.registers, 'set')}({name});")


@op_(numpy=lambda run, op, x: x, emit=_emit_begin, kind="statement", public=False)
def products_begin(b: Builder, sums: Value) -> None:
    """The first ``sums`` of products that are waited for behind their loop: in registers on all ways there, be there a
    round or not, for else ptxas lets products wait for each other."""


def _emit_wait(e, op):
    name, layout = e.arrays[op.operands[0]]
    e.line(f"{_named(e, op.operands[0].type.dtype.is_float, layout.registers, 'wait')}({name});")


@op_(numpy=None, emit=_emit_wait, kind="statement", effect=True, public=False)
def products_wait(b: Builder, sums: Value) -> None:
    """Waits until all products are done, whose ``sums`` are read after this."""


def _descriptor(p: Product, operand: tuple[Placed, bool], batch: str, d: int, piece: str, k: str) -> str:
    """What tells the hardware where a warp-group's rows (or columns) of a piece lie, from byte ``k`` on: that of the
    first, and how much further, in units of 16 bytes. (The two have no bit in common, so each may be swizzled.)"""
    tile, straight = operand
    size, width = tile.dtype.itemsize, min(128, tile.type.shape[tile.fast] * tile.dtype.itemsize)

    def place(first: str, k: str) -> tuple[str, str]:
        return (first, k) if straight else (over(k, size), times(first if first == "0" else f"({first})", size))

    start = tile.at(p.e, batch, *place(p.part(d, 7), "0"))
    more = tile.offset(p.e, *place(p.piece(d, piece), k))
    described = f"{p.e.use(f'describe_{width}')}({start}, {tile.rows * width})"
    return described if more == "0" else f"{described} + ({more} >> 4)"


def _listed(parts: list[str], pad: str) -> str:
    """Parts of a list, eight a line."""
    return f",\n{pad}".join(", ".join(parts[k : k + 8]) for k in range(0, len(parts), 8))


def _multiply(e, p: Product, columns: int, held: bool) -> str:
    """The helper that multiplies 64 rows, in memory or ``held`` in registers, by ``columns``."""
    words, k = WORDS[kind := KINDS[p.dtype.name]]
    turned = [not straight and p.dtype.itemsize == 2 for _, straight in p.tiles]
    sides = "".join(f"_{side}" for side, t in zip(("left", "right"), turned, strict=True) if t)
    name = f"warpgroup_{kind}x{columns}{sides}{'_held' * held}"
    count, letter, c = columns // 2, *(("f", "float") if words[0] == "f" else ("r", "int"))
    ways = [str(int(t)) for t in turned[held:]] if p.dtype.itemsize == 2 else []
    more = ", ".join(["", "1", "1", *ways]) if p.dtype.is_float else ""
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
        add=f"%{count + (5 if held else 2)}",
        given=given,
        more=more,
        sums=_listed([f'"+{letter}"(sum[{i}])' for i in range(count)], " " * 10),
    )
    e.helpers.setdefault(name, text.strip())
    return name


def _named(e, is_float: bool, count: int, verb: str, later: int = 0) -> str:
    """The helper that waits for so many sums of a thread, though not for ``later`` products, or has them set. It names
    each, so that none is read before, or set after."""
    letter, c = ("f", "float") if is_float else ("r", "int")
    waits = verb == "wait"
    name = f"warpgroup_{verb}{later * waits or ''}_{c}x{count}"
    parts = [f'"+{letter}"(sum[{i}])' for i in range(count)]
    lists = [_listed(parts[i : i + 128], " " * 10) for i in range(0, count, 128)]
    words = [f"wgmma.wait_group.sync.aligned {later};" * waits, *[""] * (len(lists) - 1)]
    part = e.dialect.helpers["warpgroup_names"]
    body = "".join(part.format(words=w, sums=x) for w, x in zip(words, lists, strict=True))
    e.helpers.setdefault(name, f"{e.dialect.function} void {name}({c}* sum) {{{body}\n}}")
    return name
