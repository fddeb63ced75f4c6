"""What the typing rules share: Python numbers become values, operands meet in one type and one shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

# >>> stage 6
from dataclasses import dataclass, fields

# === before
# from dataclasses import fields
# <<<
from functools import cache, reduce
from typing import Any, ClassVar

from .. import dtypes
from ..dtypes import DType, float32
from ..errors import KernelTypeError, KernelValueError
from ..ir import Builder, Type, Value

Operand = Value | bool | int | float


class Struct:
    """A compile-time record of values, such as a block pointer: a frozen dataclass derived from this. Its fields are
    values, compile-time objects, tuples or records. ``METHODS`` has the ops, by name, or the
    rules that are called on it as methods, with the record as first argument."""

    METHODS: ClassVar[dict[str, Any]] = {}

    def __bool__(self) -> bool:
        raise KernelTypeError(f"{describe(self)} is neither true nor false")


# >>> stage 6
@dataclass(frozen=True)
class FString(Struct):
    """An f-string of run-time values: its parts, which are texts and pairs of a value and a format."""

    parts: tuple


# <<<
def is_record(x: object) -> bool:
    """True for a `Struct`, and for a frozen dataclass of the user's."""
    frozen = getattr(getattr(type(x), "__dataclass_params__", None), "frozen", False)
    return isinstance(x, Struct) or frozen and type(x).__module__.split(".")[0] != __name__.split(".")[0]


def record(kind: type, values: Mapping[str, object]) -> Any:
    """An instance of a frozen dataclass with these fields, of which nothing is run."""
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def taken_apart(x: object) -> tuple[tuple, Sequence[object], Callable[[Iterable], Any]] | None:
    """How a tuple, a record or a dictionary is built, its parts, and what makes one like it of others."""
    if is_record(x):
        names = tuple(f.name for f in fields(x) if hasattr(x, f.name))  # type: ignore[arg-type]
        values = [getattr(x, n) for n in names]
        return (type(x), *names), values, lambda new: record(type(x), dict(zip(names, new, strict=True)))
    if isinstance(x, dict):
        return (dict, *x), list(x.values()), lambda new: dict(zip(x, new, strict=True))
    if isinstance(x, tuple):
        return (type(x), len(x)), x, getattr(x, "_make", tuple)  # a named tuple stays one
    return None


def skeleton(x: object) -> object:
    """How a value is built, whatever its leaves are."""
    apart = taken_apart(x)
    return apart and (apart[0], *map(skeleton, apart[1]))


def flatten(x: object) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The leaves of a tuple or a record, depth first, and what makes one like it of other leaves. Anything else is a
    leaf itself."""
    apart = taken_apart(x)
    if apart is None:
        return [x], lambda new: new[0]
    parts = [flatten(part) for part in apart[1]]

    def rebuild(new: Sequence[Any]) -> Any:
        left = iter(new)
        return apart[2](inner([next(left) for _ in leaves]) for leaves, inner in parts)

    return [leaf for leaves, _ in parts for leaf in leaves], rebuild


def run_time(*xs: object) -> bool:
    """True if there are run-time values in these."""
    return any(isinstance(v, Value) for v in flatten(xs)[0])


def literal(b: Builder, value: bool | int | float, dtype: DType) -> Value:
    if dtype.is_narrow:
        value = float(dtypes.round_to(value, dtype))
    return b.add("const", (), Type(dtype), value=float(value) if dtype.is_float else int(value))


def value_of(b: Builder, x: object, partner: DType | None = None) -> Value:
    """``x`` as a typed value; a Python number, or a float argument, takes the type of its partner."""
    if isinstance(x, Value):
        if x in b.weak:
            dtype = partner if partner is not None and partner.is_float else float32
            return b.add("cast", (x,), Type(dtype, x.type.shape))  # another value: this one has a type of its own
        return x
    if isinstance(x, (bool, int, float)):
        return literal(b, x, dtypes.of_literal(x, partner))
    raise KernelTypeError(f"expected a tile or a number, not {describe(x)}")


def describe(x: object) -> str:
    if isinstance(x, Value):
        return str(x.type)
    if isinstance(x, Struct):
        return str(x) if type(x).__str__ is not object.__str__ else f"a {type(x).__name__}"
    if is_record(x) or (isinstance(x, tuple) and run_time(x)):
        return f"a {type(x).__name__} of {', '.join(map(describe, flatten(x)[0]))}"
    if x is None:
        return "None"
    return f"{type(x).__name__} {x!r}" if not callable(x) else f"function {getattr(x, '__name__', x)}"


def is_weak(b: Builder, x: object) -> bool:
    return not isinstance(x, Value) or x in b.weak


def cast_value(b: Builder, x: Value, dtype: DType) -> Value:
    if x.type.pointer:
        raise KernelTypeError(f"a pointer ({x.type}) is not a number; load from it first")
    return x if x.type.dtype is dtype else b.add("cast", (x,), Type(dtype, x.type.shape))


def number(b: Builder, x: object) -> Value:
    """A typed operand that is not a pointer."""
    v = value_of(b, x)
    return cast_value(b, v, v.type.dtype)  # which refuses pointers


def floating(b: Builder, x: object) -> Value:
    """An operand of a function that is for floats: integers become float32."""
    v = number(b, x)
    return v if v.type.dtype.is_float else cast_value(b, v, float32)


def same_type(b: Builder, *xs: object) -> tuple[Value, ...]:
    """Operands brought to one element type and one shape."""
    for x in xs:
        if not isinstance(x, (Value, bool, int, float)):
            raise KernelTypeError(f"expected a tile or a number, not {describe(x)}")
    strong = [number(b, x).type.dtype for x in xs if not is_weak(b, x)]
    partner = reduce(dtypes.promote, strong) if strong else None
    weak = [dtypes.of_literal(0.0 if isinstance(x, Value) else x, partner) for x in xs if is_weak(b, x)]  # type: ignore[arg-type]
    dtype = reduce(dtypes.promote, strong + weak)
    return same_shape(b, *(cast_value(b, value_of(b, x, dtype), dtype) for x in xs))


def same_shape(b: Builder, *values: Value) -> tuple[Value, ...]:
    shape = reduce(broadcast_shape, (v.type.shape for v in values), ())
    return tuple(broadcast(b, v, shape) for v in values)


@cache
def broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's rule: shapes are aligned at the right, an extent of 1 stretches."""
    rank = max(len(a), len(b))
    left, right = ((1,) * (rank - len(s)) + s for s in (a, b))
    out = []
    for d, (m, n) in enumerate(zip(left, right, strict=True)):
        if m != n and 1 not in (m, n):
            what = f"shapes {list(a)} and {list(b)} do not broadcast"
            raise KernelTypeError(f"{what}: dimension {d} is {m} on one side, {n} on the other")
        out.append(max(m, n))
    return tuple(out)


def broadcast(b: Builder, v: Value, shape: tuple[int, ...]) -> Value:
    """``v`` stretched to ``shape``, which `broadcast_shape` has found to fit."""
    if v.type.shape == shape:
        return v
    while v.type.shape and len(v.type.shape) < len(shape):
        v = b.add("expand", (v,), v.type.with_shape((1, *v.type.shape)), axis=0)
    return v if v.type.shape == shape else b.add("broadcast", (v,), v.type.with_shape(shape))


def constant_int(x: object, what: str) -> int:
    """A compile-time integer."""
    if isinstance(x, Value):
        message = f"{what} must be known when the kernel is compiled; this is a run-time value ({x.type})"
        raise KernelTypeError(f"{message}. Pass it as a parameter annotated tt.constexpr", argument=what)
    if isinstance(x, bool) or not hasattr(x, "__index__"):
        raise KernelTypeError(f"{what} must be an int, not {describe(x)}", argument=what)
    return int(x)  # type: ignore[call-overload]


def axis_of(axis: object, rank: int, of: str = "a tile") -> int:
    """A dimension of a tile, counted from the end if negative."""
    k = constant_int(axis, "axis")
    if not -rank <= k < rank:
        raise KernelValueError(f"{of} of {rank} dimension{'s' * (rank != 1)} has no axis {k}", argument="axis")
    return k % rank


def axes_of(axis: object, rank: int) -> tuple[int, ...]:
    """Dimensions of a tile, in order: one, those of a tuple, or all (None)."""
    axes = [axis_of(k, rank) for k in (range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,))]
    for k in axes:
        if axes.count(k) > 1:
            raise KernelTypeError(f"axis {k} is named more than once", argument="axis")
    return tuple(sorted(axes))


def constant_dtype(x: object) -> DType:
    if not isinstance(x, DType):
        raise KernelTypeError(f"expected an element type such as tt.float32, not {describe(x)}", argument="dtype")
    return x
