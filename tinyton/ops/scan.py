"""What goes along an axis element by element: scans; reductions with a function of the user's and sorting, both made of
`halves` and `joined`: an axis of 2**k elements is gone through in k steps, one bit of the coordinate each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise, takewhile
from math import prod

import numpy as np

from ..dtypes import DType, float32
from ..errors import KernelSyntaxError, KernelTypeError, KernelValueError
from ..ir import Block, Builder, Op, Type, Value
from ..layout import Basis, Layout, log2, unit
from . import OPS, op
from .arithmetic import add, and_, eq, floordiv, gt, minimum, mod, mul, ne, or_, shr, sub, where, xor
from .rearrange import expand_dims, full_tile, halves, indices, joined, permute, reshape
from .reduction import reduce, sum_type
from .typing import Operand, axes_of, axis_of, cast_value, constant_int, number, same_shape

Tiles = tuple[Value, ...]


def tiles_in(b: Builder, x: object) -> Tiles:
    tiles = tuple(number(b, v) for v in (x if isinstance(x, tuple) else (x,)))
    if not tiles:
        raise KernelTypeError("there is no tile in the tuple")
    if len({t.type.shape for t in tiles}) > 1:
        raise KernelTypeError(f"the tiles have different shapes: {', '.join(str(t.type) for t in tiles)}")
    return tiles


def _combiner(b: Builder, fn: object, tiles: Tiles) -> Callable[[Tiles, Tiles], Tiles]:
    """The user's function on two tuples of tiles; it must give what it takes."""

    def combine(x: Tiles, y: Tiles) -> Tiles:
        out = b.call(fn, *x, *y)
        out = out if isinstance(out, tuple) else (out,)
        if len(out) != len(tiles):
            raise KernelTypeError(f"the function gives {len(out)} values for {len(tiles)} tiles", argument="combine_fn")
        out = same_shape(b, *(number(b, v) for v in out), x[0])[:-1]
        return tuple(cast_value(b, v, t.type.dtype) for v, t in zip(out, tiles, strict=True))

    return combine


@op(numpy=None, emit=None, kind="macro", public="reduce")
def reduce_with(b: Builder, input: object, axis: object, combine_fn: object, keep_dims: bool = False) -> object:
    """Combines the elements along ``axis`` (None: all, in row-major order) with a jit function of two elements, which
    must be associative. Given a tuple of tiles, the function takes the elements of the one and then of the other, and
    gives a tuple.

    Neighbours are combined first, so the function need not be commutative.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def digits(x, y): return x * 10 + y
    >>> @tt.jit
    ... def k(out): tt.store(out, tt.reduce(tt.arange(1, 3), 0, digits))
    >>> out = np.zeros(1, int); k[1](out); out.tolist()
    [12]
    """
    tiles = tiles_in(b, input)
    out = fold(b, tiles, axis, _combiner(b, combine_fn, tiles), keep_dims)
    return out if isinstance(input, tuple) else out[0]


def fold(
    b: Builder, tiles: Tiles, axis: object, combine: Callable[[Tiles, Tiles], Tiles], keep_dims: object = False
) -> Tiles:
    """Tiles combined along ``axis`` (None: all; several go in row-major order), neighbours first."""
    shape = tiles[0].type.shape
    axes = axes_of(axis, len(shape))
    k, rest = axes[0], [d for d in range(len(shape)) if d not in axes]
    if len(axes) > 1:
        k, extents = 0, [prod(shape[d] for d in axes), *(shape[d] for d in rest)]
        tiles = tuple(reshape(b, permute(b, full_tile(t), *axes, *rest), *extents) for t in tiles)
    while full_tile(tiles[0]).type.shape[k] > 1:
        pairs = [halves(b, t, k, 0) for t in tiles]
        tiles = combine(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))
    out = tuple(reduce(b, t, "max", k, False) for t in tiles)  # of one element
    return tuple(expand_dims(b, t, axes) for t in out) if keep_dims else out


def spread(op: Op, layout: Layout) -> tuple[list[int], list[int], list[Basis]] | None:
    """Which bits make the coordinate, the lowest first: neighbours in the register number, then some of the thread's
    number, then more of the register number (as bases). None if it is otherwise, or the lanes are not neighbours."""
    axis: int = op.attrs["axis"]  # type: ignore[assignment]
    bits = [unit(len(layout.shape), axis, i) for i in range(log2(layout.shape[axis]))]
    moves = [b in layout.thread for b in bits]
    at = [(layout.thread if m else layout.reg).index(b) for m, b in zip(moves, bits, strict=True)]
    near = [i for _, i in takewhile(lambda k: not moves[k[0]] and k[1] == at[0] + k[0], enumerate(at))]
    threads = [i for m, i in zip(moves, at, strict=True) if m]
    end = len(near) + len(threads)
    fits = all(moves[len(near) : end]) and all(b - a == 1 if b < 5 else a < b for a, b in pairwise(threads))
    return (near, threads, bits[end:]) if fits else None


def _scan(run, op, *xs):
    """Every element is combined with the one before it, then with the one 2 before, 4, 8, ..."""
    axis, order = op.attrs["axis"], slice(None, None, -1 if op.attrs["reverse"] else None)
    tiles, step = [np.moveaxis(x, axis, 0)[order].copy() for x in xs], 1
    while step < len(tiles[0]):
        both = run.block(op.blocks[0], (*(t[:-step] for t in tiles), *(t[step:] for t in tiles)))
        for t, y in zip(tiles, both, strict=True):
            t[step:] = y
        step *= 2
    return tuple(np.moveaxis(t[order], 0, axis) for t in tiles)


@contextmanager
def _for(e, name: str, first: int, end: int, advance: str = "++") -> Iterator[None]:
    if e.dialect.unroll:
        e.line("#pragma unroll")
    e.open(f"for (int {name} = {first}; {name} < {end}; {advance}{name}) {{")
    yield
    e.shut()


def _emit_scan(e, op):
    """First the neighbouring registers of a thread, one after the other; then the lanes of a warp, by shuffles; then,
    for all groups of registers, the warps, by shared memory. In reverse, registers and threads are counted back."""
    axis, reverse, layout, (block,) = op.attrs["axis"], op.attrs["reverse"], e.layout_of(op.result), op.blocks
    near, threads, far = spread(op, layout)
    lanes = [i for i in threads if i < 5 and e.dialect.shuffle]
    warps, mask = threads[len(lanes) :], sum(1 << i for i in lanes)
    thread, side = ("~thread", "_down") if reverse else ("thread", "_up")
    turned = reverse * sum(1 << i for i, b in enumerate(layout.reg) if b[axis])
    types = [v.type.dtype for v in op.results]
    e.fill(op.results, op.operands)
    if reverse and layout.shape[axis] != op.result.type.shape[axis]:
        zero = e.dialect.literal(op.attrs["identity"], types[0])
        with e.loop(layout, [op]) as s:
            s.line(f"if ({s.padding(op.result.type.shape, (axis,))}) {e.cell(op.result, s)} = {zero};")
    rest = Layout(layout.shape, (*far, *(b for b in layout.reg if not b[axis])), layout.thread)
    place, count, step = e.scope(rest), 1 << len(near), 1 << min(near, default=0)
    base = place.gather([(i, layout.reg.index(b)) for i, b in enumerate(rest.reg)])
    group = place.gather([(i, i) for i in range(len(far))])
    k, up, w = e.fresh("k"), e.fresh("up"), e.fresh("warp")
    each, last = k if step == 1 else f"{k} * {step}", str((count - 1) * step)

    def cells(at: str) -> list[str]:
        """One of the neighbouring registers, in a loop over the rest."""
        at = " + ".join(x for x in (base, at) if x != "0") or "0"
        at = f"({at}) ^ {turned}" if turned else at
        return [e.arrays[v][0] + f"[{at}]" * (layout.registers > 1) for v in op.results]

    def shuffled(lane: object, kind: str) -> list[str]:
        return [e.shuffle(x, lane, t, kind) for x, t in zip(cells(last), types, strict=True)]

    def assign(to: list[str], values: list[str]) -> None:
        for target, text in zip(to, values, strict=True):
            e.line(f"{target} = {text};")

    def define(word: str, values: list[str]) -> list[str]:
        names = [e.fresh(word) for _ in values]
        assign([f"{e.c(t)} {name}" for t, name in zip(types, names, strict=True)], values)
        return names

    def combine(x: list[str], y: list[str]) -> None:
        """Puts x, then y, into y."""
        e.text.update(zip(block.params, (*x, *y), strict=True))
        e.block(block)
        both = [e.scalar(v) for v in block.yields]
        assign(y, define("both", both) if len(both) > 1 else both)

    if near:
        with _for(e, k, 1, count), e.loop(rest, []):
            combine(cells(f"{each} - {step}"), cells(each))
    if lanes:
        with e.loop(rest, [op]):
            with _for(e, up, 1 << lanes[0], mask + 1, f"{up} += "):
                other = define("other", shuffled(up, side))
                with e.guard(f"({thread} & {mask}) >= {up}"):
                    combine(other, cells(last))
            if near:
                before = define("before", shuffled(1 << lanes[0], side))
                with e.guard(f"{thread} & {mask}"), _for(e, k, 0, count - 1):
                    combine(before, cells(each))
    if warps:
        others = [i for i, b in enumerate(layout.thread) if any(b) and not b[axis]]
        inner, wide = len(others) + len(warps), max(types, key=lambda t: t.register.itemsize)
        row = place.gather([(i, i + inner) for i in range(len(rest.reg))]), e.bits_of_thread(others, 1 << len(warps))
        slot, size = "".join(f"{x} + " for x in row if x not in ("", "0")), rest.registers << inner
        room, here = e.shared(wide, size * len(types)), e.bits_of_thread(warps, 1).replace("thread", thread)
        starts = [f"(({e.dialect.local}{e.c(t)}*)({room} + {i * size}))" for i, t in enumerate(types)]
        starts = [room] if len(types) == 1 else starts
        with e.once_per_element(rest), e.guard(f"({thread} & {mask}) == {mask}" if lanes else ""), e.loop(rest, [op]):
            assign([f"{m}[{slot}{here}]" for m in starts], cells(last))
        e.barrier()
        part = [f"{m}[{slot}{w}]" for m in starts]
    elif far:
        part = shuffled(f"thread & ~{mask}" if reverse else f"thread | {mask}", "") if lanes else cells(last)
    else:
        return
    total, before = (define(word, [e.dialect.literal(0, t) for t in types]) for word in ("total", "before"))
    with e.loop(rest, [op]):
        with _for(e, w, 0, 1 << len(warps)) if warps else nullcontext():
            with e.guard(f"{w} == {here}" if warps else ""):
                assign(before, total)
            part = define("part", part)
            with e.guard(f"{group} + {w} > 0" if warps else f"{group} > 0"):
                combine(total, part)
            assign(total, part)
        with e.guard(f"{group} + {here} > 0" if warps else f"{group} > 0"), _for(e, k, 0, count):
            combine(before, cells(each))


@op(numpy=_scan, emit=_emit_scan, kind="statement", public=False, joins=True, fits=spread)
def scan(b: Builder) -> None:
    """Each element along an axis combined with all before it (``reverse``: after it), by a block of two scalars each.
    With an ``identity``, the axis of a tile may have any extent."""


def scanned(
    b: Builder, tiles: Tiles, axis: object, combine: Callable[[Tiles, Tiles], Tiles], reverse: bool, **identity: int
) -> Tiles:
    """Running combinations by ``combine``. With an ``identity``, a reversed axis may have any extent."""
    block, results = on_scalars(b, tiles, combine), tuple(Value(t.type) for t in tiles)
    if reverse and not identity:
        full_tile(tiles[0])
    axis = axis_of(axis, len(tiles[0].type.shape))
    b.ops.append(Op("scan", tiles, results, {"axis": axis, "reverse": bool(reverse), **identity}, (block,), b.loc))
    return results


def on_scalars(
    b: Builder, tiles: Tiles, combine: Callable[[Tiles, Tiles], Tiles], arg: str = "combine_fn", where: str = "tt.where"
) -> Block:
    """What ``combine`` makes of two elements each, as a block: it may not branch, loop, touch memory or reduce."""
    x, y = (tuple(Value(Type(t.type.dtype)) for t in tiles) for _ in range(2))
    outer, b.ops = b.ops, []
    try:
        yields = combine(x, y)
    finally:
        ops, b.ops = tuple(b.ops), outer
        for each in ops:  # goes before what else is wrong
            if each.blocks or OPS[each.name].kind == "statement":
                what = f"a function that combines elements is made of plain arithmetic, without {each.name}"
                raise KernelSyntaxError(f"{what}; choose with {where}", each.loc, arg)
    for v in yields:
        if v.type.shape:
            raise KernelTypeError(f"the function gives a tile ({v.type}) for two scalars", argument=arg)
    return Block((*x, *y), ops, yields)


@op(numpy=None, emit=None, kind="macro")
def associative_scan(b: Builder, input: object, axis: object, combine_fn: object, reverse: bool = False) -> object:
    """Running combinations along ``axis``: element i of the result combines elements 0 … i (``reverse``: from the last
    one on) with a jit function as `reduce` takes it.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def larger(x, y): return tt.maximum(x, y)
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.associative_scan(i * (4 - i), 0, larger))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 3, 4, 4]
    """
    tiles = tiles_in(b, input)
    out = scanned(b, tiles, axis, _combiner(b, combine_fn, tiles), reverse)
    return out if isinstance(input, tuple) else out[0]


def _running(name: str, combine: Callable, identity: int, word: str, result: list[int]) -> Callable:
    def rule(b: Builder, x: Value, axis: int = 0, reverse: bool = False, dtype: DType | None = None) -> Value:
        """Running {}s along ``axis``; element types as in `sum`.

        >>> import numpy as np, tinyton as tt
        >>> @tt.jit
        ... def k(out):
        ...     i = tt.arange(0, 4)
        ...     tt.store(out + i, tt.{}(i + 1))
        >>> out = np.zeros(4, int); k[1](out); out.tolist()
        {}
        """
        v = number(b, x)
        target = dtype or sum_type(v.type.dtype)
        tile = cast_value(b, v, float32 if target.is_narrow else target)
        (out,) = scanned(b, (tile,), axis, lambda x, y: (combine(b, x[0], y[0]),), reverse, identity=identity)
        return cast_value(b, out, target)

    return op(name, (word, name, result), numpy=None, emit=None, kind="macro")(rule)


cumsum = _running("cumsum", add, 0, "sum", [1, 3, 6, 10])
cumprod = _running("cumprod", mul, 1, "product", [1, 2, 6, 24])


@op(numpy=None, emit=None, kind="macro")
def sort(b: Builder, x: Value, dim: int | None = None, descending: bool = False) -> Value:
    """The elements in order along ``dim`` (the last one), NaN at the end: last if ascending, first if descending.
    (Batcher, *Sorting networks and their applications*, 1968.)

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.sort(i * 5 % 4))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 1, 2, 3]
    """
    k = axis_of(-1 if dim is None else dim, len(number(b, x).type.shape))
    shape = full_tile(x).type.shape
    steps, descending = log2(shape[k]), bool(descending)
    place = indices(b, max(shape[k] // 2, 1), k, len(shape))
    for done in range(steps):
        down: object = descending
        if done + 1 < steps:  # blocks of twice the length go up and down in turn
            down = ne(b, and_(b, shr(b, place, done), 1), int(descending))
        for bit in reversed(range(done + 1)):
            low, high = halves(b, x, k, bit)
            swap = gt(b, low, high)
            if x.type.dtype.is_float:
                swap = or_(b, swap, and_(b, ne(b, low, low), eq(b, high, high)))
            swap = xor(b, swap, down)
            x = joined(b, where(b, swap, high, low), where(b, swap, low, high), k, bit)
    return x


@op(numpy=None, emit=None, kind="macro")
def topk(b: Builder, x: Value, k: int, dim: int | None = None) -> Value:
    """The ``k`` (a power of two) greatest elements along ``dim`` (the last one), the greatest first.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + tt.arange(0, 2), tt.topk(i * 5 % 4, 2))
    >>> out = np.zeros(2, int); k[1](out); out.tolist()
    [3, 2]
    """
    axis, count = axis_of(-1 if dim is None else dim, len(number(b, x).type.shape)), constant_int(k, "k")
    n = x.type.shape[axis]
    if count < 1 or count & (count - 1) or count > n:
        raise KernelValueError(f"k is {count}; it must be a power of two up to {n}", argument="k")
    x = sort(b, x, axis, True)
    for bit in reversed(range(log2(count), log2(n))):
        x = halves(b, x, axis, bit)[0]
    return x


@op(numpy=None, emit=None, kind="macro")
def swizzle2d(b: Builder, i: Operand, j: Operand, size_i: Operand, size_j: Operand, size_g: Operand) -> tuple:
    """Row-major places (i, j) of a grid of ``size_i`` by ``size_j`` gone through in groups of ``size_g`` rows, each
    column by column: programs that run together share more of what they load.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i, j = tt.program_id(0) // 2, tt.program_id(0) % 2
    ...     row, column = tt.swizzle2d(i, j, 4, 2, 2)
    ...     tt.store(out + tt.program_id(0), row * 10 + column)
    >>> out = np.zeros(8, int); k[8](out); out.tolist()
    [0, 10, 1, 11, 20, 30, 21, 31]
    """
    at = add(b, mul(b, i, size_j), j)
    whole = mul(b, size_g, size_j)
    first = mul(b, floordiv(b, at, whole), size_g)
    rows = minimum(b, sub(b, size_i, first), size_g)
    rest = mod(b, at, whole)
    return add(b, first, mod(b, rest, rows)), floordiv(b, rest, rows)
