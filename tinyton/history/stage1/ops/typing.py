"""What the typing rules share: Python numbers become values, operands meet in one type and one shape."""

from __future__ import annotations

from .. import dtypes
from ..dtypes import DType, float32
from ..errors import KernelTypeError
from ..ir import Builder, Type, Value

Operand = Value | bool | int | float


def dtype_of(b: Builder, x: object, partner: DType | None = None) -> DType:
    """The element type of an operand; a Python number, or a float argument, takes the type of its partner."""
    if isinstance(x, Value):
        return x.type.dtype if x not in b.weak else partner if partner is not None and partner.is_float else float32
    if isinstance(x, (bool, int, float)):
        return dtypes.of_literal(x, partner)
    raise KernelTypeError(f"expected a tile or a number, not {describe(x)}")


def value_of(b: Builder, x: object, partner: DType | None = None) -> Value:
    """``x`` as a value of the type that it has beside its partner."""
    dtype = dtype_of(b, x, partner)
    if isinstance(x, Value):
        return cast_value(b, x, dtype) if x in b.weak else x
    return b.add("const", (), Type(dtype), value=float(x) if dtype.is_float else int(x))


def describe(x: object) -> str:
    return str(x.type) if isinstance(x, Value) else f"{type(x).__name__} {x!r}"


def is_weak(b: Builder, x: object) -> bool:
    return not isinstance(x, Value) or x in b.weak


def cast_value(b: Builder, x: Value, dtype: DType) -> Value:
    if x.type.pointer:
        raise KernelTypeError(f"a pointer ({x.type}) is not a number; load from it first")
    return x if x.type.dtype is dtype else b.add("cast", (x,), Type(dtype, x.type.shape))


def same_type(b: Builder, *xs: object) -> tuple[Value, ...]:
    """Operands brought to one element type and one shape."""
    partner: DType | None = None
    for x in xs:
        if not is_weak(b, x):
            partner = x.type.dtype if partner is None else dtypes.promote(partner, x.type.dtype)
    for x in xs:
        if is_weak(b, x):
            mine = dtype_of(b, x, partner)
            partner = mine if partner is None else dtypes.promote(partner, mine)
    return same_shape(b, *(cast_value(b, value_of(b, x, partner), partner) for x in xs))


def same_shape(b: Builder, *values: Value) -> tuple[Value, ...]:
    """Scalars are stretched to the tiles beside them."""
    shapes = {v.type.shape for v in values if v.type.shape}
    if len(shapes) > 1:
        raise KernelTypeError(f"tiles of {' and '.join(str(list(s)) for s in sorted(shapes))} do not broadcast")
    shape = max(shapes, default=())
    return tuple(v if v.type.shape == shape else b.add("broadcast", (v,), v.type.with_shape(shape)) for v in values)


def constant_int(x: object, what: str) -> int:
    """A compile-time integer."""
    if isinstance(x, Value) or isinstance(x, bool) or not hasattr(x, "__index__"):
        raise KernelTypeError(f"{what} must be an int known when the kernel is compiled, not {describe(x)}")
    return int(x)  # type: ignore[call-overload]
