"""The elements of tiles in another order: views, and what is made of them. A tile whose extents are powers of two is
taken apart and put together along one bit of a coordinate at a time."""

from __future__ import annotations

from math import prod

import numpy as np

from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from ..layout import log2
from . import OPS, op
from .arithmetic import eq, where
from .program import arange
from .shape import expand
from .typing import Operand, axis_of, broadcast, broadcast_shape, constant_int, number, same_type, value_of


def _permute_frame(op, frame):
    order = op.attrs["order"]
    return tuple(frame[order.index(d)] for d in range(len(order)))


def _reshape_frame(op, frame):
    bits = [bit for dim in reversed(frame) for bit in dim]
    out = []
    for n in reversed(op.operands[0].type.shape):
        out.append(tuple(bits[: log2(n)]))
        bits = bits[log2(n) :]
    return tuple(reversed(out))


def _ints(x: object, what: str) -> tuple[int, ...]:
    return tuple(constant_int(n, what) for n in (x if isinstance(x, (tuple, list)) else (x,)))


def _given(args: tuple, what: str) -> tuple[int, ...]:
    """``f(x, (1, 2))`` and ``f(x, 1, 2)`` are the same."""
    return _ints(args[0] if len(args) == 1 else args, what)


def full_tile(x: Value) -> Value:
    """A tile whose extents are powers of two: in others, elements beyond the end would be mixed in."""
    for d, n in enumerate(x.type.shape):
        if n & (n - 1):
            what = f"the tile is {x.type}: dimension {d} has extent {n}, and this needs powers of two"
            raise KernelValueError(f"{what}; use next_power_of_2({n}) = {1 << n.bit_length()} and a mask")
    return x


@op(numpy=lambda run, op, x: np.transpose(x, op.attrs["order"]), emit=_permute_frame, kind="view")
def permute(b: Builder, x: Value, *dims: object) -> Value:
    """The tile with its dimensions in another order: dimension k of the result is dimension ``dims[k]`` of ``x``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 8)
    ...     tt.store(out + i, tt.ravel(tt.permute(tt.reshape(i, 2, 4), 1, 0)))
    >>> out = np.zeros(8, int); k[1](out); out.tolist()
    [0, 4, 1, 5, 2, 6, 3, 7]
    """
    x = value_of(b, x)
    rank = len(x.type.shape)
    order = tuple(axis_of(d, rank) for d in _given(dims, "dims"))
    if sorted(order) != list(range(rank)):
        raise KernelValueError(f"the order {list(order)} does not name each of {rank} dimensions once")
    return b.add("permute", (x,), x.type.with_shape(tuple(x.type.shape[d] for d in order)), order=order)


@op(numpy=None, emit=None, kind="macro")
def trans(b: Builder, x: Value, *dims: object) -> Value:
    """The tile with its last two dimensions swapped, or in the order ``dims``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 8)
    ...     tt.store(out + i, tt.ravel(tt.trans(tt.reshape(i, 2, 4))))
    >>> out = np.zeros(8, int); k[1](out); out.tolist()
    [0, 4, 1, 5, 2, 6, 3, 7]
    """
    x = value_of(b, x)
    rank = len(x.type.shape)
    if not dims and rank < 2:
        raise KernelTypeError(f"there is nothing to transpose in {x.type}")
    return permute(b, x, *(dims or (*range(rank - 2), rank - 1, rank - 2)))


@op(numpy=lambda run, op, x: np.reshape(x, op.result.type.shape), emit=_reshape_frame, kind="view")
def reshape(b: Builder, x: Value, *shape: object) -> Value:
    """The same elements, in row-major order, as a tile of ``shape``, whose extents are powers of two.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 2)
    ...     at = i[:, None] * 2 + i
    ...     tt.store(out + at, tt.reshape(tt.arange(1, 5), 2, 2))
    >>> out = np.zeros((2, 2), int); k[1](out); out.tolist()
    [[1, 2], [3, 4]]
    """
    x, to = full_tile(value_of(b, x)), _given(shape, "shape")
    if prod(to) != prod(x.type.shape) or min(to, default=1) < 1:
        raise KernelValueError(f"{list(x.type.shape)} does not have as many elements as {list(to)}", argument="shape")
    if not to and x.type.shape:
        return OPS["reduce"].rule(b, x, "max", None, False)  # of one element
    return x if to == x.type.shape else b.add("reshape", (x,), x.type.with_shape(to))


@op(numpy=None, emit=None, kind="macro")
def view(b: Builder, x: Value, *shape: object) -> Value:
    """The same as `reshape`.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + tt.arange(0, 2), tt.sum(tt.view(i, 2, 2), 0))
    >>> out = np.zeros(2, int); k[1](out); out.tolist()
    [2, 4]
    """
    return reshape(b, x, *shape)


@op(numpy=None, emit=None, kind="macro")
def ravel(b: Builder, x: Value) -> Value:
    """The elements in row-major order, as a tile of one dimension.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 2)
    ...     tt.store(out + tt.arange(0, 4), tt.ravel(i[:, None] * 10 + i))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 1, 10, 11]
    """
    return reshape(b, x, prod(value_of(b, x).type.shape))


@op(numpy=None, emit=None, kind="macro")
def expand_dims(b: Builder, x: Operand, axis: object) -> Value:
    """New dimensions of extent 1 at ``axis`` (an int or several, counted in the result).

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 2)
    ...     tt.store(out + tt.arange(0, 4), tt.ravel(tt.expand_dims(i, 1) * 10 + i))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 1, 10, 11]
    """
    x, axes = value_of(b, x), _ints(axis, "axis")
    for k in sorted(axis_of(a, len(x.type.shape) + len(axes)) for a in axes):
        x = expand(b, x, k)
    return x


def indices(b: Builder, n: int, axis: int, rank: int) -> Value:
    """0 … n - 1 along one dimension of a tile of ``rank``."""
    return expand_dims(b, arange(b, 0, n), tuple(d for d in range(rank) if d != axis))


@op(numpy=None, emit=None, kind="macro")
def broadcast_to(b: Builder, x: Operand, *shape: object) -> Value:
    """``x`` stretched to ``shape`` by NumPy's rules.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 2)
    ...     tt.store(out + tt.arange(0, 4), tt.ravel(tt.broadcast_to(i, 2, 2)))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 1, 0, 1]
    """
    x, to = value_of(b, x), _given(shape, "shape")
    if broadcast_shape(x.type.shape, to) != to:
        raise KernelTypeError(f"{x.type} does not stretch to {list(to)}", argument="shape")
    return broadcast(b, x, to)


def _part_frame(op, frame):
    return (*frame, (op.attrs["at"],))


@op(numpy=lambda run, op, x: x[..., op.attrs["at"]], emit=_part_frame, kind="view", public=False)
def part(b: Builder, x: Value, at: int) -> Value:
    """``x[..., at]`` of a tile whose last extent is 2."""
    return b.add("part", (x,), x.type.with_shape(x.type.shape[:-1]), at=at)


@op(numpy=None, emit=None, kind="macro")
def split(b: Builder, x: Value) -> tuple[Value, Value]:
    """The two tiles ``x[..., 0]`` and ``x[..., 1]`` of a tile whose last extent is 2.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     even, odd = tt.split(tt.reshape(tt.arange(0, 8), 4, 2))
    ...     tt.store(out + i, odd * 10 + even)
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [10, 32, 54, 76]
    """
    x = number(b, x)
    if x.type.shape[-1:] != (2,):
        raise KernelTypeError(f"only a tile whose last extent is 2 is split, not {x.type}; reshape it first")
    return part(b, x, 0), part(b, x, 1)


@op(numpy=None, emit=None, kind="macro")
def join(b: Builder, x: Operand, y: Operand) -> Value:
    """Two tiles of one shape side by side, in a new last dimension of extent 2.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 2)
    ...     tt.store(out + tt.arange(0, 4), tt.ravel(tt.join(i, i + 10)))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 10, 1, 11]
    """
    x, y = same_type(b, x, y)
    shape = (*x.type.shape, 2)
    last = arange(b, 0, 2)
    tiles = [broadcast(b, expand(b, v, len(shape) - 1) if v.type.shape else v, shape) for v in (x, y)]
    return where(b, eq(b, last, 0), *tiles)


@op(numpy=None, emit=None, kind="macro")
def interleave(b: Builder, x: Operand, y: Operand) -> Value:
    """The elements of two tiles in turn along the last dimension.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 2)
    ...     tt.store(out + tt.arange(0, 4), tt.interleave(i, i + 10))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 10, 1, 11]
    """
    both = join(b, x, y)
    *rest, n = both.type.shape[:-1] or (1,)
    return reshape(b, both, *rest, 2 * n)


@op(numpy=None, emit=None, kind="macro")
def cat(b: Builder, x: Value, y: Value, can_reorder: bool = False, dim: int = 0) -> Value:
    """Two tiles of one shape one after the other along ``dim``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 2)
    ...     tt.store(out + tt.arange(0, 4), tt.cat(i, i + 10))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [0, 1, 10, 11]
    """
    both = join(b, x, y)
    rank = len(both.type.shape) - 1
    k = axis_of(dim, rank)
    order = (*range(k), rank, *range(k, rank))
    shape = [n * (1 + (d == k)) for d, n in enumerate(both.type.shape[:-1])]
    return reshape(b, permute(b, both, *order), *shape)


def halves(b: Builder, x: Value, axis: int, bit: int) -> tuple[Value, Value]:
    """The elements whose coordinate along ``axis`` has ``bit`` off, and those that have it on: both without that
    bit."""
    shape, k = x.type.shape, axis
    apart = reshape(b, full_tile(x), *shape[:k], shape[k] >> bit + 1, 2, 1 << bit, *shape[k + 1 :])
    rank = len(apart.type.shape)
    x = permute(b, apart, *(d for d in range(rank) if d != k + 1), k + 1)
    return tuple(reshape(b, half, *shape[:k], shape[k] // 2, *shape[k + 1 :]) for half in split(b, x))  # type: ignore[return-value]


def joined(b: Builder, off: Value, on: Value, axis: int, bit: int) -> Value:
    """What `halves` takes apart."""
    shape, k = off.type.shape, axis
    both = join(b, off, on)
    both = reshape(b, both, *shape[:k], shape[k] >> bit, 1 << bit, *shape[k + 1 :], 2)
    rank = len(both.type.shape)
    both = permute(b, both, *range(k + 1), rank - 1, *range(k + 1, rank - 1))
    return reshape(b, both, *shape[:k], shape[k] * 2, *shape[k + 1 :])


@op(numpy=None, emit=None, kind="macro")
def flip(b: Builder, x: Value, dim: int = -1) -> Value:
    """The elements in reverse order along ``dim``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.flip(i))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [3, 2, 1, 0]
    """
    k = axis_of(dim, len(number(b, x).type.shape))
    for bit in range(log2(full_tile(x).type.shape[k])):
        off, on = halves(b, x, k, bit)
        x = joined(b, on, off, k, bit)
    return x
