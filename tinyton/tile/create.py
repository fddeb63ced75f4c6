"""Tiles out of nothing, and what numbers, element types and shapes of arguments are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..dtypes import DType, bool_, float32, float64, int32
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Value
from ..ops import OPS
from ..ops.arithmetic import add, and_, mul, ne, where
from ..ops.create import tile_shape
from ..ops.program import arange as indices
from ..ops.typing import Operand, broadcast, cast_value, describe, literal, number, value_of
from .language import about, function, typed

PYTHON = {int: int32, float: float32, bool: bool_}


def shape_of(shape: object, argument: str = "shape") -> tuple[int, ...]:
    """The extents of a tile, powers of two."""
    with typed():
        return tile_shape(shape, argument)


def dtype_of(x: object) -> DType:
    """The element type that a user names: ours, NumPy's, torch's, or Python's int, float and bool."""
    if isinstance(x, type) and x in PYTHON:
        return PYTHON[x]
    if not isinstance(x, DType) and not dtypes.is_foreign(x):
        raise KernelTypeError(f"expected an element type such as ct.float32, not {describe(x)}", argument="dtype")
    return dtypes.from_numpy(x)


def implicit(b: Builder, x: object, dtype: DType, argument: str) -> Value:
    """``x`` as ``dtype``, which may be wider, and no more than that: as a tile is stored."""
    with about(argument):
        v = number(b, value_of(b, x, dtype))
    kind, word = v.type.dtype, "bool_" if dtype is bool_ else dtype
    wider = kind.bits < dtype.bits and kind.kind + dtype.kind in ("ff", "ii", "uu", "ui")
    if not (kind in (dtype, bool_) or wider or dtype.is_float and not kind.is_float):
        raise KernelTypeError(f"{kind} does not widen to {dtype}; write .astype(ct.{word})", argument=argument)
    return cast_value(b, v, dtype)


def strictly(b: Builder, x: object, dtype: DType) -> Value:
    """A number as ``dtype``: integers wrap around, floats are rounded."""
    if not isinstance(x, (bool, int, float)):
        return cast_value(b, value_of(b, x, dtype), dtype)
    if isinstance(x, float) and dtype.is_int:
        return cast_value(b, literal(b, x, float64), dtype)
    if dtype.is_float:
        return literal(b, float(dtypes.round_to(np.float64(x), dtype)), dtype)
    low = dtype.range[0]
    return literal(b, bool(x) if dtype is bool_ else (int(x) - low) % (1 << dtype.bits) + low, dtype)


@function()
def arange(b: Builder, size: int, *, dtype: object, start: Operand = 0, step: Operand = 1) -> Value:
    """The tile ``start, start + step, …`` of ``size`` elements, a power of two.

    ``start`` and ``step`` are numbers or run-time scalars; a step may be 0, negative or, for float types, a fraction.
    ``dtype`` is any type but bool. A size that is not a power of two is a TileTypeError.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out): ct.store(out, 0, ct.arange(4, dtype=ct.int32, start=7, step=-2))
    >>> out = np.zeros(4, np.int32); ct.launch(None, (1,), k, (out,)); out.tolist()
    [7, 5, 3, 1]
    """
    kind, shape = dtype_of(dtype), shape_of(size, "size")
    if len(shape) != 1:
        raise KernelTypeError(f"the size is one int, not {describe(size)}", argument="size")
    if kind is bool_:
        raise KernelTypeError("a range has no bool elements; compare one of integers", argument="dtype")
    out = cast_value(b, indices(b, 0, shape[0]), kind.register)
    for rule, x, neutral, word in ((mul, step, 1, "step"), (add, start, 0, "start")):
        if isinstance(x, Value) or x != neutral:
            v = cast_value(b, implicit(b, x, kind, word), kind.register)
            if v.type.shape:
                raise KernelTypeError(f"{word} is a number or a scalar, not a tile ({v.type})", argument=word)
            out = rule(b, out, v)
    return cast_value(b, out, kind)


@function()
def full(b: Builder, shape: int | tuple[int, ...], fill_value: Operand, dtype: object) -> Value:
    """A tile of ``shape`` (an int or a tuple of powers of two, () for a scalar) filled with a number or a scalar.

    A number that ``dtype`` cannot hold is a TileValueError.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out): ct.store(out, 0, ct.full((4,), 7, ct.int32))
    >>> out = np.zeros(4, np.int32); ct.launch(None, (1,), k, (out,)); out.tolist()
    [7, 7, 7, 7]
    """
    kind = dtype_of(dtype)
    if isinstance(fill_value, float) and kind.is_int:
        if not fill_value.is_integer():
            raise KernelValueError(f"{fill_value} is out of range for {kind}", argument="fill_value")
        fill_value = int(fill_value)
    v = value_of(b, fill_value, kind)
    if v.type.shape:
        raise KernelTypeError(f"full takes a number or a scalar, not a tile ({v.type})", argument="fill_value")
    return broadcast(b, cast_value(b, v, kind), shape_of(shape))


def _filled(name: str, number: int) -> Callable:
    def rule(b: Builder, shape: int | tuple[int, ...], dtype: object) -> Value:
        """A tile of {0} of ``shape``, an int or a tuple of powers of two; () is a scalar.

        >>> import numpy as np, tinyton.tile as ct
        >>> @ct.kernel
        ... def k(out): ct.store(out, 0, ct.{0}(2, np.float32))
        >>> out = np.full(2, 5, np.float32); ct.launch(None, (1,), k, (out,)); out.tolist()
        [{1}.0, {1}.0]
        """
        return full(b, shape, number, dtype)

    return function(name, words=(name, number))(rule)


_filled("zeros", 0)
_filled("ones", 1)


@function()
def astile(b: Builder, values: tuple, *, dtype: object) -> Value:
    """A tile of numbers (or scalars) that are written out, in nested tuples of one length each, powers of two.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(out): ct.store(out, (0, 0), ct.astile(((1, 2), (3, 4)), dtype=ct.int32))
    >>> out = np.zeros((2, 2), np.int32); ct.launch(None, (1,), k, (out,)); out.tolist()
    [[1, 2], [3, 4]]
    """
    kind, shape, row = dtype_of(dtype), [], [values]
    while any(isinstance(x, tuple) for x in row):
        lengths = {len(x) if isinstance(x, tuple) else -1 for x in row}
        if len(lengths) > 1:
            raise KernelTypeError(f"the tuples of a tile are as long as each other; {values!r}", argument="values")
        shape.append(lengths.pop())
        row = [v for x in row for v in x]  # type: ignore[attr-defined]
    extents = shape_of(tuple(shape), "values")
    parts = [full(b, (), x, kind) for x in row]
    place = indices(b, 0, len(parts))
    for bit in range(len(parts).bit_length() - 1):
        on = ne(b, and_(b, place, 1 << bit), 0)
        parts = [where(b, on, y, x) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return OPS["reshape"].rule(b, parts[0], *extents) if len(extents) != 1 else parts[0]
