"""Tiles filled with one value."""

from __future__ import annotations

from ..dtypes import float32
from ..errors import KernelValueError
from ..ir import Builder, Value
from ..layout import next_power_of_2
from . import op
from .typing import broadcast, cast_value, constant_dtype, constant_int, literal, value_of


def tile_shape(shape: object, argument: str = "shape") -> tuple[int, ...]:
    """A compile-time tuple of powers of two (an int stands for one dimension)."""
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    out = []
    for d, n in enumerate(extents):
        n = constant_int(n, argument)
        if n < 1 or n & (n - 1):
            hint = f"; pass next_power_of_2({n}) = {next_power_of_2(n)} and mask the rest" if n > 0 else ""
            what = f"dimension {d} of the tile is {n}, which is not a power of two{hint}"
            raise KernelValueError(what, argument=argument)
        out.append(n)
    return tuple(out)


@op(numpy=None, emit=None, kind="macro")
def full(b: Builder, shape: tuple[int, ...], value: object, dtype: object) -> Value:
    """A tile of ``shape`` (an int or a tuple of powers of two) filled with a number or a scalar, as ``dtype``.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(out): tt.store(out + tt.arange(0, 4), tt.full((4,), 7, tt.int32))
    >>> out = np.zeros(4, int); k[1](out); out.tolist()
    [7, 7, 7, 7]
    """
    element = constant_dtype(dtype)
    v = value_of(b, value, element)
    if v.type.shape:
        raise KernelValueError(f"full takes one number, not a tile of shape {list(v.type.shape)}", argument="value")
    return broadcast(b, cast_value(b, v, element), tile_shape(shape))


@op(numpy=None, emit=None, kind="macro")
def zeros(b: Builder, shape: tuple[int, ...], dtype: object = float32) -> Value:
    """A tile of ``shape`` (an int or a tuple of powers of two) filled with zero of ``dtype``.

    Outside of kernels, an array of any shape on the device.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x): tt.store(x + tt.arange(0, 4), tt.zeros((4,), tt.float32))
    >>> x = np.ones(5); k[1](x); x.tolist()
    [0.0, 0.0, 0.0, 0.0, 1.0]
    >>> tt.zeros((2, 3), tt.int32).shape
    (2, 3)
    """
    return broadcast(b, literal(b, 0, constant_dtype(dtype)), tile_shape(shape))
