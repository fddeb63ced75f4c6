"""What the user promises about values. A promise changes no result; it widens accesses or helps the C compiler, and
the interpreter says which element breaks it."""

from __future__ import annotations

import numpy as np

from ..dtypes import bool_
from ..errors import HintError, KernelTypeError, KernelValueError, OutOfBoundsError
from ..ir import Builder, Value
from . import op
from .typing import Operand, broadcast, constant_int, value_of

IDENTITY = {"kind": "typed", "cheap": True, "exact": True, "emit": lambda e, op, x: x}


def _hint(b: Builder, name: str, x: Operand, values: object) -> Value:
    v, numbers = value_of(b, x), values if isinstance(values, (tuple, list)) else (values,)
    rank = len(v.type.shape)
    if not v.type.pointer and not v.type.dtype.is_int:
        raise KernelTypeError(f"{name} is for integers and pointers, not {v.type}", argument="x")
    if len(numbers) != max(1, rank):
        raise KernelValueError(f"{name} takes a number for each of {max(1, rank)} dimensions", argument="values")
    promised = tuple(constant_int(n, "values") for n in numbers)
    if min(promised) < 1:
        raise KernelValueError(f"{name} takes numbers from 1 on, not {min(promised)}", argument="values")
    return b.add(name, (v,), v.type, values=promised)


def _neighbours(x: np.ndarray, d: int, step: int) -> np.ndarray:
    """Where an element is ``step`` more than the one before it along ``d``."""
    return np.diff(x, axis=d, prepend=np.take(x, [0], d) + np.asarray(1 - step, x.dtype)) == step


def _check(step: int | None):
    """The meaning of a hint: ``step`` from neighbour to neighbour within groups; None for multiples."""

    def meaning(run, op, x):
        pointer, tile = op.operands[0].type.pointer, np.atleast_1d(x)
        size = op.operands[0].type.dtype.itemsize if pointer else 1
        for d, n in enumerate(op.attrs["values"]):
            if step is None:
                wrong, what = ~_neighbours(tile, d, 1) & (tile * size % n != 0), f"is no multiple of {n}"
            else:
                lane = np.arange(tile.shape[d]).reshape(-1, *(1,) * (tile.ndim - d - 1))
                wrong = (lane % n != 0) & ~_neighbours(tile, d, step)
                what = f"is not {'1 more than' if step else 'equal to'} the one before it, in its group of {n}"
            if np.any(wrong):
                k = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
                element = f"element {', '.join(map(str, k))}, " if np.ndim(x) else ""
                value = "a pointer" if pointer else tile[k]
                raise HintError(f"program {run.program}: {element}{value}, {what}, as {op.name} has promised", op.loc)
        return x

    return meaning


@op(numpy=_check(None), **IDENTITY)
def multiple_of(b: Builder, x: Operand, values: int | tuple[int, ...]) -> Value:
    """``x``, of which the first element of every run of consecutive numbers is a multiple of ``values`` (one for each
    dimension); of a pointer, in bytes. A scalar and numbers that are not consecutive are multiples themselves.

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, start):
    ...     i = tt.multiple_of(start, 16) + tt.arange(0, 4)
    ...     tt.store(x + i, 1)
    >>> x = np.zeros(32, int); k[1](x, 16); x.nonzero()[0].tolist()
    [16, 17, 18, 19]
    """
    return _hint(b, "multiple_of", x, values)


@op(numpy=_check(1), **IDENTITY)
def max_contiguous(b: Builder, x: Operand, values: int | tuple[int, ...]) -> Value:
    """``x``, whose elements are consecutive within groups of ``values`` (one for each dimension).

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(at, out):
    ...     i = tt.arange(0, 4)
    ...     j = tt.max_contiguous(tt.load(at + i), 4)
    ...     tt.store(out + j, i)
    >>> at, out = np.arange(2, 6), np.zeros(8, int); k[1](at, out); out.tolist()
    [0, 0, 0, 1, 2, 3, 0, 0]
    """
    return _hint(b, "max_contiguous", x, values)


@op(numpy=_check(0), **IDENTITY)
def max_constancy(b: Builder, x: Operand, values: int | tuple[int, ...]) -> Value:
    """``x``, whose elements are equal within groups of ``values`` (one for each dimension).

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(row, out):
    ...     i = tt.arange(0, 4)
    ...     tt.store(out + i, tt.max_constancy(tt.load(row + i), 2) + i)
    >>> row, out = np.array([0, 0, 9, 9]), np.zeros(4, int)
    >>> k[1](row, out); out.tolist()
    [0, 1, 11, 12]
    """
    return _hint(b, "max_constancy", x, values)


def _within(run, op, x, n):
    wrong = (x < 0) | (x >= n)
    if np.any(wrong):
        k = np.unravel_index(int(np.argmax(wrong)), np.shape(x))
        where = f"along axis {op.attrs['axis']} of {op.attrs['array']}, which has {np.max(n)} elements there"
        what = f"program {run.program} goes to {np.asarray(x)[k]} {where}"
        raise OutOfBoundsError(f"{what}; mask the lanes that are beyond the end", op.loc)
    return x


@op(numpy=_within, kind="typed", cheap=True, exact=True, emit=lambda e, op, x, n: x, public=False)
def within(b: Builder, x: Value, n: Operand, axis: int, array: str) -> Value:
    """``x``, places along an axis of an array that are promised to be from 0 to before ``n``."""
    return b.add("within", (x, broadcast(b, value_of(b, n), x.type.shape)), x.type, axis=axis, array=array)


def _assume(run, op, condition):
    if not np.all(condition):
        raise HintError(f"program {run.program}: what the kernel assumes does not hold", op.loc)


def _emit_assume(e, op):
    if e.dialect.name == "cuda" and not op.operands[0].type.shape:
        e.line(f"__builtin_assume({e.scalar(op.operands[0])});")


@op(numpy=_assume, emit=_emit_assume, kind="statement", effect=True)
def assume(b: Builder, cond: Operand) -> None:
    """Promises that ``cond``, a bool or a mask, holds (everywhere).

    >>> import numpy as np, tinyton as tt
    >>> @tt.jit
    ... def k(x, n):
    ...     tt.assume(n > 0)
    ...     tt.store(x, 10 // n)
    >>> x = np.zeros(1, int); k[1](x, 3); x.tolist()
    [3]
    """
    v = value_of(b, cond)
    if v.type.dtype is not bool_ or v.type.pointer:
        raise KernelTypeError(f"assume takes a condition, not {v.type}", argument="cond")
    b.add("assume", (v,), None)
