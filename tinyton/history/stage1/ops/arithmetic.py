"""Operators: arithmetic, comparisons, casts."""

from __future__ import annotations

from ..dtypes import DType, bool_, float32
from ..errors import KernelTypeError
from ..ir import Builder, Type, Value
from . import op
from .typing import Operand, cast_value, describe, same_shape, same_type, value_of


def _no_bool(name: str, x: Value) -> None:
    if x.type.dtype is bool_:
        raise KernelTypeError(f"{name} is not defined on bool; convert one side with .to(tt.int32)")


def _offset(b: Builder, name: str, x: Operand, y: Operand) -> Value:
    if name == "add" and not (isinstance(x, Value) and x.type.pointer):
        x, y = y, x
    offset = value_of(b, y)
    if name != "add" or offset.type.pointer or offset.type.dtype.kind not in "iu":
        raise KernelTypeError(f"a pointer takes + of an integer offset, not {name} of {offset.type}")
    return b.add("addptr", same_shape(b, x, offset), x.type.with_shape(x.type.shape or offset.type.shape))


def _arith(name: str, symbol: str):
    def rule(b: Builder, x: Operand, y: Operand) -> Value:
        if any(isinstance(v, Value) and v.type.pointer for v in (x, y)):
            return _offset(b, name, x, y)
        x, y = same_type(b, x, y)
        _no_bool(name, x)
        return b.add(name, (x, y), x.type)

    rule.__name__ = name
    rule.__doc__ = f"``x {symbol} y``. A pointer plus an integer moves by that many elements."
    return op(emit=lambda e, op, x, y: f"{x} {symbol} {y}", public=False)(rule)


add = _arith("add", "+")
sub = _arith("sub", "-")
mul = _arith("mul", "*")


@op(emit=lambda e, op, p, i: f"{p} + {i}", public=False)
def addptr(b: Builder, ptr: Value, offset: Value) -> Value:
    """A pointer moved by an offset in elements."""
    return _offset(b, "add", ptr, offset)


@op(emit=lambda e, op, x, y: f"{x} / {y}", public=False)
def truediv(b: Builder, x: Operand, y: Operand) -> Value:
    """``x / y``: of two integers, float32."""
    x, y = same_type(b, x, y)
    if not x.type.dtype.is_float:
        x, y = cast_value(b, x, float32), cast_value(b, y, float32)
    return b.add("truediv", (x, y), x.type)


@op(emit=lambda e, op, x: f"-{x}", public=False)
def neg(b: Builder, x: Operand) -> Value:
    """``-x``."""
    v = value_of(b, x)
    _no_bool("negation", v)
    return b.add("neg", (v,), v.type)


def _compare(name: str, symbol: str):
    def rule(b: Builder, x: Operand, y: Operand) -> Value:
        x, y = same_type(b, x, y)
        return b.add(name, (x, y), Type(bool_, x.type.shape))

    rule.__name__ = name
    rule.__doc__ = f"``x {symbol} y``, a mask."
    return op(emit=lambda e, op, x, y: f"{x} {symbol} {y}", public=False)(rule)


lt = _compare("lt", "<")
le = _compare("le", "<=")
gt = _compare("gt", ">")
ge = _compare("ge", ">=")
eq = _compare("eq", "==")
ne = _compare("ne", "!=")


@op(
    emit=lambda e, op, x: f"{x} != 0" if op.result.type.dtype is bool_ else f"({e.dialect.c(op.result.type.dtype)}){x}",
    public=False,
)
def cast(b: Builder, x: Operand, dtype: DType) -> Value:
    """``x.to(dtype)``, as C converts."""
    if not isinstance(dtype, DType):
        raise KernelTypeError(f"expected an element type such as tt.float32, not {describe(dtype)}")
    return cast_value(b, value_of(b, x), dtype)


@op(emit=lambda e, op, c, x, y: f"{c} ? {x} : {y}")
def where(b: Builder, condition: Operand, x: Operand, y: Operand) -> Value:
    """``x`` where ``condition`` (a mask) holds, else ``y``; both are computed."""
    c = value_of(b, condition)
    if c.type.dtype is not bool_ or c.type.pointer:
        raise KernelTypeError(f"the condition is a mask (bool), not {c.type}; compare first")
    c, x, y = same_shape(b, c, *same_type(b, x, y))
    return b.add("where", (c, x, y), x.type)
