"""Tiles of other shapes, parts of tiles, and the same bits as another type."""

from __future__ import annotations

from math import prod

from ..dtypes import DType, bool_, int32, uint8, uint16, uint32, uint64
from ..errors import KernelTypeError
from ..ir import Builder, Value
from ..layout import log2
from ..ops import rearrange as old
from ..ops.arithmetic import and_, bitcast_, eq, ne, or_, shl, shr, where
from ..ops.rearrange import halves, indices, interleave
from ..ops.rounding import narrow
from ..ops.shape import expand
from ..ops.typing import Operand, axis_of, broadcast, cast_value, constant_int, describe, number
from .create import dtype_of, implicit, shape_of, strictly
from .language import about, function
from .math import RoundingMode, mode_of

UNSIGNED = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


@function(strict=True)
def reshape(b: Builder, x: Value, shape: int | tuple[int, ...]) -> Value:
    """The same elements, in row-major order, as a tile of ``shape``; one extent may be -1, which is found.

    A TileTypeError if the shapes have different numbers of elements, or an extent is no power of two.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, (0, 0), ct.load(x, 0, 4).reshape((2, -1)))
    >>> out = np.zeros((2, 2), int); ct.launch(None, (1,), k, (np.arange(4), out)); out.tolist()
    [[0, 1], [2, 3]]
    """
    v, to = number(b, x), list(shape) if isinstance(shape, (tuple, list)) else [shape]
    open_ = [d for d, n in enumerate(to) if not isinstance(n, Value) and n == -1]
    if len(open_) > 1:
        raise KernelTypeError(f"one extent of a shape may be -1, not {len(open_)} of {shape}", argument="shape")
    if open_:
        rest = prod(constant_int(n, "shape") for n in to if n != -1)
        to[open_[0]] = prod(v.type.shape) // rest if rest > 0 else 1
    return old.reshape(b, v, *shape_of(tuple(to)))


@function(strict=True)
def permute(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """The tile with its dimensions in another order: dimension k of the result is dimension ``axes[k]`` of ``x``.

    A TileTypeError unless ``axes`` names each dimension once.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, (0, 0), ct.permute(ct.load(x, (0, 0), (1, 2)), (1, 0)))
    >>> out = np.zeros((2, 1), int); ct.launch(None, (1,), k, (np.arange(2).reshape(1, 2), out)); out.tolist()
    [[0], [1]]
    """
    v, given = number(b, x), axes if isinstance(axes, tuple) else (axes,)
    if len(given) != len(v.type.shape):
        raise KernelTypeError(f"{len(given)} axes are given, {v.type} has {len(v.type.shape)}", argument="axes")
    order = [axis_of(k, len(given)) for k in given]
    if twice := [k for k in order if order.count(k) > 1]:
        raise KernelTypeError(f"axis {twice[0]} is named more than once", argument="axes")
    return old.permute(b, v, *order)


@function(strict=True)
def transpose(b: Builder, x: Value, axis0: int | None = None, axis1: int | None = None) -> Value:
    """The tile with two of its dimensions swapped. Those of two dimensions need not be named.

    A TileTypeError for a tile of less than two dimensions, for one axis alone, and for none if there are more than two.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, (0, 0), ct.transpose(ct.load(x, (0, 0), (1, 2))))
    >>> out = np.zeros((2, 1), int); ct.launch(None, (1,), k, (np.arange(2).reshape(1, 2), out)); out.tolist()
    [[0], [1]]
    """
    v = number(b, x)
    rank = len(v.type.shape)
    if rank < 2:
        raise KernelTypeError(f"a transpose needs two dimensions at least; this is {v.type}")
    if (axis0 is None) != (axis1 is None):
        raise KernelTypeError("a transpose is told both axes, or none", argument="axis0" if axis1 is None else "axis1")
    if axis0 is None and rank > 2:
        raise KernelTypeError(f"{v.type} has more than two dimensions: say which two, transpose(x, axis0, axis1)")
    i, j, order = axis_of(axis0 or 0, rank), axis_of(1 if axis1 is None else axis1, rank), [*range(rank)]
    order[i], order[j] = j, i
    return old.permute(b, v, *order)


@function(strict=True)
def expand_dims(b: Builder, x: Operand, axis: int | tuple[int, ...]) -> Value:
    """A new dimension of extent 1 at ``axis``, counted in the result: what ``x[:, None]`` means, too.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, (0, 0), ct.load(x, 0, 2).expand_dims(1))
    >>> out = np.zeros((2, 1), int); ct.launch(None, (1,), k, (np.arange(2), out)); out.tolist()
    [[0], [1]]
    """
    return old.expand_dims(b, number(b, x), axis)


@function(strict=True)
def broadcast_to(b: Builder, x: Operand, shape: int | tuple[int, ...]) -> Value:
    """``x`` stretched to ``shape``: extents of 1 repeat, dimensions are added in front.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.broadcast_to(ct.load(x, 0, 1), 2))
    >>> out = np.zeros(2, int); ct.launch(None, (1,), k, (np.array([7]), out)); out.tolist()
    [7, 7]
    """
    return old.broadcast_to(b, number(b, x), shape_of(shape))


@function(strict=True)
def cat(b: Builder, tiles: tuple[Value, Value], axis: int) -> Value:
    """Two tiles of one shape and one element type, one after the other along ``axis``.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.cat((ct.load(x, 1, 2), ct.load(x, 0, 2)), 0))
    >>> out = np.zeros(4, int); ct.launch(None, (1,), k, (np.arange(4), out)); out.tolist()
    [2, 3, 0, 1]
    """
    if not isinstance(tiles, tuple) or len(tiles) not in (1, 2):
        what = f"a tuple of {len(tiles)}" if isinstance(tiles, tuple) else describe(tiles)
        raise KernelTypeError(f"cat takes a tuple of two tiles, not {what}; cat them two by two", argument="tiles")
    x, y = number(b, tiles[0]), number(b, tiles[-1])
    k = axis_of(axis, len(x.type.shape))
    if x.type.dtype is not y.type.dtype:
        raise KernelTypeError(f"tiles of one element type, not {x.type} and {y.type}: use .astype", argument="tiles")
    if len(x.type.shape) != len(y.type.shape):
        raise KernelTypeError(f"the tiles have different ranks: {x.type} and {y.type}", argument="tiles")
    for d, (m, n) in enumerate(zip(x.type.shape, y.type.shape, strict=True)):
        if m != n:
            what = f"{m} + {n} elements along axis {k} are not a power of two"
            what = what if d == k else f"dimension {d} is {m} in one tile, {n} in the other"
            raise KernelTypeError(what, argument="tiles")
    return x if len(tiles) == 1 else old.cat(b, x, y, dim=k)


def _blocks(b: Builder, x: Value, index: object, shape: tuple[int, ...], what: str) -> list[tuple]:
    """Along each dimension: the extent of a part, and which part; an int, or an int32 scalar."""
    at, outer = index if isinstance(index, tuple) else (index,), x.type.shape
    if len(shape) != len(outer):
        raise KernelTypeError(f"the part has {len(shape)} dimensions, the tile {len(outer)} ({x.type})", argument=what)
    if len(at) != len(outer):
        raise KernelTypeError(f"the index has {len(at)} entries, the tile {len(outer)} dimensions", argument="index")
    out: list[tuple] = []
    for d, (k, n, m) in enumerate(zip(at, outer, shape, strict=True)):
        if n % m:
            raise KernelTypeError(f"dimension {d}: {n} is not divisible by {m}, the extent of the part", argument=what)
        if not isinstance(k, Value):
            k = constant_int(k, "index")
            if not 0 <= k < n // m:
                message = f"dimension {d}: there is no part {k}; there are {n // m} of {m} elements, from 0"
                raise KernelTypeError(message, argument="index")
        elif k.type.shape or k.type.dtype.kind not in "iu" or k.type.pointer:
            raise KernelTypeError(f"an index is made of int scalars, not of {k.type}", argument="index")
        out.append((m, k if isinstance(k, int) else cast_value(b, k, int32)))
    return out


@function()
def extract(b: Builder, x: Value, index: int | tuple, shape: int | tuple[int, ...]) -> Value:
    """The part of ``shape`` that is the ``index``-th along each dimension, in units of parts, as tiles are in an array.

    ``index`` is made of ints or run-time scalars. A TileTypeError if the tile is not made of whole parts, or a constant
    is out of range; what a run-time index out of range gives is undefined.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.load(x, 0, 8).extract(3, 2))
    >>> out = np.zeros(2, int); ct.launch(None, (1,), k, (np.arange(8), out)); out.tolist()
    [6, 7]
    """
    v = number(b, x)
    for d, (m, k) in enumerate(_blocks(b, v, index, shape_of(shape), "shape")):
        for bit in reversed(range(log2(v.type.shape[d]) - log2(m))):
            low, high = halves(b, v, d, bit + log2(m))
            if isinstance(k, int):
                v = high if k >> bit & 1 else low
            else:
                v = where(b, ne(b, and_(b, k, 1 << bit), 0), high, low)
    return v


@function()
def insert(b: Builder, x: Value, index: int | tuple, value: Value) -> Value:
    """``x`` with ``value`` in the place of the part that `extract` would give. ``value`` may widen to x's type.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.insert(ct.load(x, 0, 4), 1, ct.zeros(2, x.dtype)))
    >>> out = np.ones(4, int); ct.launch(None, (1,), k, (np.arange(4), out)); out.tolist()
    [0, 1, 0, 0]
    """
    v = number(b, x)
    new, outer = implicit(b, value, v.type.dtype, "value"), v.type.shape
    blocks, mask = _blocks(b, v, index, new.type.shape, "value"), None
    for d, (m, k) in enumerate(blocks):
        new = expand(b, new, 2 * d)
        if m != outer[d]:
            here = eq(b, shr(b, indices(b, outer[d], d, len(outer)), log2(m)), k)
            mask = here if mask is None else and_(b, mask, here)
    wide = tuple(n for (m, _), extent in zip(blocks, outer, strict=True) for n in (extent // m, m))
    new = old.reshape(b, broadcast(b, new, wide), *outer)
    return new if mask is None else where(b, mask, new, v)


@function(strict=True)
def item(b: Builder, x: Value) -> Value:
    """The only element of a tile, as a scalar. A TileTypeError if there are more.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.full(2, ct.load(x, 0, 1).item(), x.dtype))
    >>> out = np.zeros(2, int); ct.launch(None, (1,), k, (np.array([7]), out)); out.tolist()
    [7, 7]
    """
    v = number(b, x)
    if prod(v.type.shape) != 1:
        raise KernelTypeError(f"{v.type} has {prod(v.type.shape)} elements; .item() is of a tile of one")
    return old.reshape(b, v, ())


@function()
def astype(b: Builder, x: Operand, dtype: object, rounding_mode: RoundingMode | None = None) -> Value:
    """``x`` with elements of ``dtype``. Integers keep their low bits, bool is ``x != 0``; floats are cut towards zero
    to integers, saturating, NaN to 0, and are rounded to floats.

    ``rounding_mode``, of a float to a float, is RN (to nearest even), RZ (to zero), RM (down), RP (up) or RA (to
    nearest, from a half away from 0).

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.load(x, 0, 2).astype(ct.float16, ct.RoundingMode.RP))
    >>> x, out = np.array([1, 1 + 2**-20], np.float32), np.zeros(2, np.float16)
    >>> ct.launch(None, (1,), k, (x, out)); (out - 1).tolist()
    [0.0, 0.0009765625]
    """
    kind = dtype_of(dtype)
    if rounding_mode is None:
        return strictly(b, x, kind)
    v = number(b, x)
    with about("rounding_mode"):
        if not (kind.is_float and v.type.dtype.is_float):
            raise KernelTypeError(f"rounding_mode is for floats that become floats, not for {v.type.dtype} to {kind}")
        return narrow(b, v, kind, mode_of("astype", rounding_mode))


@function(strict=True)
def bitcast(b: Builder, x: Operand, dtype: object) -> Value:
    """The bits of ``x`` read as another type of the same width. A TileTypeError for bool.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.bitcast(ct.load(x, 0, 2), ct.int32))
    >>> out = np.zeros(2, np.int32); ct.launch(None, (1,), k, (np.array([0, 1], np.float32), out)); out.tolist()
    [0, 1065353216]
    """
    v, kind = number(b, x), dtype_of(dtype)
    if bool_ in (v.type.dtype, kind):
        raise KernelTypeError("a bool has no bits to be read as another type; use .astype", argument="dtype")
    if v.type.dtype.bits != kind.bits:
        what = f"{v.type.dtype} has {v.type.dtype.bits} bits, {kind} has {kind.bits}: they must be as many"
        raise KernelTypeError(what, argument="dtype")
    return bitcast_(b, v, kind)


def _weave(b: Builder, parts: list[Value]) -> Value:
    """The elements of several tiles in turn."""
    return parts[0] if len(parts) == 1 else interleave(b, _weave(b, parts[::2]), _weave(b, parts[1::2]))


def _unweave(b: Builder, x: Value, count: int) -> list[Value]:
    if count == 1:
        return [x]
    even, odd = (_unweave(b, half, count // 2) for half in halves(b, x, 0, 0))
    return [part for pair in zip(even, odd, strict=True) for part in pair]


def _of_bytes(dtype: DType, argument: str) -> DType:
    if dtype is bool_:
        raise KernelTypeError("a bool is not made of bytes; use .astype", argument=argument)
    return UNSIGNED[dtype.bits]


@function()
def pack_to_bytes(b: Builder, x: Value) -> Value:
    """The bytes of a tile, as a tile of uint8 with one dimension: elements in row-major order, low bytes first.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.pack_to_bytes(ct.load(x, 0, 2)))
    >>> out = np.zeros(4, np.uint8); ct.launch(None, (1,), k, (np.array([1, 515], np.int16), out)); out.tolist()
    [1, 0, 3, 2]
    """
    v = old.ravel(b, number(b, x))
    bits = bitcast_(b, v, _of_bytes(v.type.dtype, "x"))
    shifted = [shr(b, bits, 8 * k) if k else bits for k in range(v.type.dtype.itemsize)]
    return _weave(b, [cast_value(b, byte, uint8) for byte in shifted])


@function()
def unpack_from_bytes(b: Builder, x: Value, dtype: object) -> Value:
    """The elements of ``dtype`` whose bytes are in a uint8 tile of one dimension: what `pack_to_bytes` undoes.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out): ct.store(out, 0, ct.unpack_from_bytes(ct.load(x, 0, 4), ct.int16))
    >>> out = np.zeros(2, np.int16); ct.launch(None, (1,), k, (np.array([1, 0, 3, 2], np.uint8), out)); out.tolist()
    [1, 515]
    """
    v, kind = number(b, x), dtype_of(dtype)
    bits, size = _of_bytes(kind, "dtype"), kind.itemsize
    if v.type.dtype is not uint8 or len(v.type.shape) != 1 or v.type.shape[0] % size:
        raise KernelTypeError(f"{kind} takes {size} bytes an element, in a uint8 tile of one dimension; not {v.type}")
    whole, *rest = (cast_value(b, part, bits) for part in _unweave(b, v, size))
    for k, part in enumerate(rest, 1):
        whole = or_(b, whole, shl(b, part, 8 * k))
    return bitcast_(b, whole, kind)
