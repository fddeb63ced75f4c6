"""Products of matrices."""

from __future__ import annotations

from ..dtypes import EIGHT, DType, bfloat16, float16, float32, float64, int8, int16, int32, promote, uint8
from ..errors import KernelTypeError
from ..ir import Builder, Value
from ..ops import OPS
from ..ops.typing import broadcast, broadcast_shape, cast_value, describe, literal, number
from .language import function

SUMS = {float16: (float32, float16), bfloat16: (float32,), float32: (float32,), float64: (float64,)}
SUMS |= {int8: (int32,), uint8: (int32,), **dict.fromkeys(EIGHT, (float32, float16))}


def _tile(b: Builder, x: object, argument: str, least: int = 1) -> Value:
    """An operand, of ``least`` to three dimensions."""
    if not isinstance(x, Value) or not x.type.shape:
        raise KernelTypeError(f"a product is of tiles, not of {describe(x)}", argument=argument)
    v = number(b, x)
    if v.type.dtype not in SUMS:
        known = ", ".join(d.name for d in SUMS)
        raise KernelTypeError(f"no products of {v.type.dtype}: use .astype to one of {known}", argument=argument)
    if not least <= len(v.type.shape) <= 3:
        known = "two dimensions, or three" if least > 1 else "up to three dimensions"
        raise KernelTypeError(f"{argument} has {known}; this is {v.type}", argument=argument)
    return v


def _shape(x: Value, y: Value) -> tuple[int, ...]:
    """Of the product of two (batches of) matrices."""
    left, right = x.type.shape, y.type.shape
    if left[-1] != right[-2]:
        what = f"the shapes of {x.type} and {y.type} do not fit: {left[-1]} columns, and {right[-2]} rows"
        raise KernelTypeError(f"{what}; a product is M by K times K by N")
    return (*broadcast_shape(left[:-2], right[:-2]), left[-2], right[-1])


def _product(b: Builder, x: Value, y: Value, acc: Value) -> Value:
    """``x @ y + acc``, added up in the type of ``acc``."""
    batch = acc.type.shape[:-2]
    return OPS["matmul"].rule(b, *(broadcast(b, v, (*batch, *v.type.shape[-2:])) for v in (x, y)), acc)


@function()
def mma(b: Builder, x: Value, y: Value, acc: Value, *, use_fast_acc: bool = False) -> Value:
    """``x @ y + acc`` of matrices, M by K and K by N, or of three dimensions: batches of them, which broadcast.

    ``x`` and ``y`` have one element type (or int8 and uint8), ``acc`` M by N elements of the type for their sums: of
    float8 and float16 float32 or float16, of bfloat16 and float32 float32, of float64 float64, of int8 and uint8 int32.
    Sums are float32 at least; a float16 ``acc`` is rounded once, at the end. Anything else is a TileTypeError.
    ``use_fast_acc``, of float8, allows less precise sums, which those of tensor cores of float8 always are.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out):
    ...     a = ct.load(x, (0, 0), (2, 2))
    ...     ct.store(out, (0, 0), ct.mma(a, a, ct.ones((2, 2), ct.float32)))
    >>> x, out = np.array([[1, 2], [3, 4]], np.float16), np.zeros((2, 2), np.float32)
    >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
    [[8.0, 11.0], [16.0, 23.0]]
    """
    x, y = _tile(b, x, "x", 2), _tile(b, y, "y", 2)
    if use_fast_acc and x.type.dtype not in EIGHT:
        raise KernelTypeError(f"use_fast_acc is for float8, not for {x.type}", argument="use_fast_acc")
    shape, kinds = _shape(x, y), {x.type.dtype, y.type.dtype}
    if len(kinds) > 1 and kinds != {int8, uint8}:
        raise KernelTypeError(f"mma takes one element type, not {x.type} and {y.type}; convert one with .astype")
    if not isinstance(acc, Value) or acc.type.pointer or acc.type.shape != shape:
        raise KernelTypeError(f"acc is {describe(acc)}, the product has shape {list(shape)}", argument="acc")
    allowed = SUMS[x.type.dtype]
    if acc.type.dtype not in allowed:
        names = " or ".join(map(str, allowed))
        raise KernelTypeError(f"acc is {acc.type}; products of {x.type.dtype} add up in {names}", argument="acc")
    if len(kinds) > 1:
        x, y = cast_value(b, x, int16), cast_value(b, y, int16)
    return cast_value(b, _product(b, x, y, cast_value(b, acc, allowed[0])), acc.type.dtype)


@function()
def matmul(b: Builder, x: Value, y: Value) -> Value:
    """The product ``x @ y`` of tiles of one to three dimensions, as in NumPy: a tile of one is a row on the left, a
    column on the right, and goes from the result; three are a batch of matrices, which broadcasts.

    The operands are brought to one element type, which the result has: sums of float16, bfloat16 and float32 are
    float32, and are rounded once at the end. Products of int8 or uint8 are int32. Other types, and shapes that do not
    fit, are a TileTypeError.

    >>> import numpy as np, tinyton.tile as ct
    >>> @ct.kernel
    ... def k(x, out):
    ...     a = ct.load(x, (0, 0), (2, 2))
    ...     ct.store(out, (0, 0), a @ a)
    >>> x, out = np.array([[1, 2], [3, 4]], np.float16), np.zeros((2, 2), np.float16)
    >>> ct.launch(None, (1,), k, (x, out)); out.tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    """
    x, y = _tile(b, x, "x"), _tile(b, y, "y")
    kind: DType = promote(x.type.dtype, y.type.dtype)
    row, column = len(x.type.shape) == 1, len(y.type.shape) == 1
    reshape = OPS["reshape"].rule
    left = reshape(b, x, 1, *x.type.shape) if row else x
    right = reshape(b, y, *y.type.shape, 1) if column else y
    shape, (sums, *_) = _shape(left, right), SUMS[kind]
    acc = broadcast(b, literal(b, 0, sums), shape)
    out = _product(b, cast_value(b, left, kind), cast_value(b, right, kind), acc)
    if row or column:
        out = reshape(b, out, (*shape[:-2], *shape[-2:][row : 2 - column]))
    return out if sums is int32 else cast_value(b, out, kind)
