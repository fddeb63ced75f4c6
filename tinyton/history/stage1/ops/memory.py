"""Loads and stores through tiles of pointers."""

from __future__ import annotations

from ..dtypes import bool_
from ..errors import KernelTypeError
from ..ir import Builder, Type, Value
from . import op
from .typing import Operand, cast_value, describe, same_shape, value_of


def _pointer(ptr: object) -> Value:
    if not (isinstance(ptr, Value) and ptr.type.pointer):
        raise KernelTypeError(f"expected a pointer (an array argument, plus an offset), not {describe(ptr)}")
    return ptr


def _mask(b: Builder, mask: Operand) -> Value:
    m = value_of(b, mask)
    if m.type.dtype is not bool_ or m.type.pointer:
        raise KernelTypeError(f"a mask is bool, not {m.type}; compare first, as in mask=offsets < n")
    return m


def _emit_load(e, op, ptr, mask="", other=""):
    value = e.place(ptr) if op.result.type.dtype is not bool_ else f"({e.place(ptr)} != 0)"
    return f"({mask}) ? {value} : {other}" if mask else value


@op(emit=_emit_load, kind="access")
def load(b: Builder, ptr: Value, mask: Operand | None = None, other: Operand | None = None) -> Value:
    """The elements that ``ptr`` points at: a tile of the pointers' shape, or a scalar from a scalar pointer.

    Where ``mask`` (bool) is off, memory is not touched and the element is ``other``, by default 0 of the element type.
    """
    operands = [_pointer(ptr)]
    dtype = ptr.type.dtype
    if mask is not None:
        operands += [_mask(b, mask), cast_value(b, value_of(b, 0 if other is None else other, dtype), dtype)]
    operands = same_shape(b, *operands)
    return b.add("load", operands, Type(dtype, operands[0].type.shape))


def _emit_store(e, op, ptr, value, mask=""):
    """A scalar is stored by one thread."""
    if not op.operands[0].type.shape:
        mask = f"thread == 0 && ({mask})" if mask else "thread == 0"
    e.line(f"{f'if ({mask}) ' if mask else ''}{e.place(ptr)} = {value};")


@op(emit=_emit_store, kind="statement")
def store(b: Builder, ptr: Value, value: Operand, mask: Operand | None = None) -> None:
    """Writes ``value`` (a tile or a number, broadcast and converted to the element type) where ``ptr`` points.

    Where ``mask`` is off nothing is written.
    """
    dtype = _pointer(ptr).type.dtype
    operands = [ptr, cast_value(b, value_of(b, value, dtype), dtype)]
    operands = same_shape(b, *operands, *([] if mask is None else [_mask(b, mask)]))
    if operands[0].type.shape and not ptr.type.shape:
        raise KernelTypeError("a tile cannot be stored to one address; add offsets to the pointer")
    b.add("store", operands, None)
