"""What goes along an axis element by element: reductions and scans with a function of the user's, sorting. All of it is
made of `halves` and `joined`: an axis of 2**k elements is gone through in k steps, one bit of the coordinate each."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..dtypes import DType, float32
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from ..layout import log2
from . import op
from .arithmetic import add, and_, eq, floordiv, gt, minimum, mod, mul, ne, or_, shr, sub, where, xor
from .rearrange import expand_dims, flip, full_tile, halves, indices, joined, permute, reshape
from .reduction import reduce, sum_type
from .typing import Operand, axes_of, axis_of, broadcast, cast_value, constant_int, number, same_shape

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
    rank = len(tiles[0].type.shape)
    axes = axes_of(axis, rank)
    k, rest = axes[0], tuple(d for d in range(rank) if d not in axes)
    if len(axes) > 1:
        k, left = 0, tuple(tiles[0].type.shape[d] for d in rest)
        tiles = tuple(
            reshape(b, permute(b, full_tile(t), *axes, *rest), prod(t.type.shape) // prod(left), *left) for t in tiles
        )
    while full_tile(tiles[0]).type.shape[k] > 1:
        pairs = [halves(b, t, k, 0) for t in tiles]
        tiles = combine(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))
    out = tuple(reduce(b, t, "max", k, False) for t in tiles)  # of one element
    return tuple(expand_dims(b, t, axes) for t in out) if keep_dims else out


def scanned(b: Builder, tiles: Tiles, axis: object, combine: Callable[[Tiles, Tiles], Tiles], reverse: bool) -> Tiles:
    """Blocks of 2**bit elements are scanned; the upper one of two takes in the total of the lower one, and so on with
    blocks twice as long (Sklansky, *Conditional-sum addition logic*, 1960)."""
    k = axis_of(axis, len(tiles[0].type.shape))
    tiles = tuple(flip(b, t, k) for t in tiles) if reverse else tiles
    totals = tiles
    for bit in range(log2(full_tile(tiles[0]).type.shape[k])):
        pairs = [halves(b, t, k, bit) for t in tiles]
        lower, upper = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
        ends = [halves(b, t, k, 0) for t in totals]
        shape = upper[0].type.shape
        wide = (*shape[:k], shape[k] >> bit, 1 << bit, *shape[k + 1 :])
        before = [broadcast(b, expand_dims(b, e[0], k + 1), wide) for e in ends]
        upper = combine(tuple(reshape(b, t, *shape) for t in before), upper)
        totals = combine(tuple(e[0] for e in ends), tuple(e[1] for e in ends)) if shape[k] >> bit > 1 else ()
        tiles = tuple(joined(b, low, up, k, bit) for low, up in zip(lower, upper, strict=True))
    return tuple(flip(b, t, k) for t in tiles) if reverse else tiles


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


def _running(name: str, combine: Callable, word: str, result: list[int]) -> Callable:
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
        tile = cast_value(b, v, float32 if target.is_half else target)
        (out,) = scanned(b, (tile,), axis, lambda x, y: (combine(b, x[0], y[0]),), reverse)
        return cast_value(b, out, target)

    return op(name, (rule.__doc__ or "").format(word, name, result), numpy=None, emit=None, kind="macro")(rule)


cumsum = _running("cumsum", add, "sum", [1, 3, 6, 10])
cumprod = _running("cumprod", mul, "product", [1, 2, 6, 24])


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
