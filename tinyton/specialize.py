"""What makes two calls of a kernel two kernels: element types, widths of integers, alignment, constexpr values,
globals.

Values and shapes are not part of it. An argument's divisibility by 16 is, but only in a kernel whose code it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from .dtypes import ALL, DType, bool_, float64, from_numpy, int32, int64
from .errors import KernelTypeError, TinytonError
from .ir import Type
from .ops.typing import is_record

ALIGNMENT = 16  # bytes that a vector access takes, and what pointers are checked for


@dataclass(frozen=True)
class Arg:
    """What the compiler knows about one run-time argument. ``divisible``: a pointer by 16 bytes, an integer by 16."""

    kind: str  # "pointer", "int", "float"
    dtype: DType
    divisible: bool = False

    def type(self) -> Type:
        return Type(self.dtype, (), self.kind == "pointer")

    def divisor(self) -> int:
        if not self.divisible:
            return 1
        return ALIGNMENT // self.dtype.itemsize if self.kind == "pointer" else 16

    def __str__(self) -> str:
        star = "*" if self.kind == "pointer" else ""
        return f"{star}{self.dtype}{':16' if self.divisible else ''}"


def integer(value: int) -> Arg:
    """An int argument is an int32 if it fits, else an int64."""
    fits = int32.range[0] <= value <= int32.range[1]
    return Arg("int", int32 if fits else int64, value % 16 == 0)


def exact(value: object) -> tuple:
    """A key for a compile-time value that tells apart what ``==`` does not: 1, 1.0 and True, 0.0 and -0.0; all NaNs are
    one value. It is ``(type(value), value)`` where that is enough."""
    if isinstance(value, tuple):
        return type(value), tuple(exact(v) for v in value)
    if is_record(value):
        return type(value), tuple(exact(getattr(value, f.name)) for f in fields(value))  # type: ignore[arg-type]
    if isinstance(value, float) and (value == 0 or value != value):
        return type(value), value.hex()
    return type(value), value


def hashable(what: str, value: object, kind: type[TinytonError] = KernelTypeError) -> object:
    """``value``, which can be part of a key."""
    try:
        hash(value)
        return value
    except TypeError:
        why = f"{what} is a {type(value).__name__}, which cannot be part of a kernel's key; use a tuple or a number"
        raise kind(why) from None


BOOL = Arg("int", bool_)
FLOAT = Arg("float", float64)


@dataclass(frozen=True)
class Specialization:
    """One variant of a kernel."""

    args: tuple[tuple[str, Arg], ...]
    constants: tuple[tuple[str, object], ...]

    def types(self) -> dict[str, Type]:
        return {name: arg.type() for name, arg in self.args}

    def divisors(self, used: frozenset[str] | None = None) -> dict[str, int]:
        return {name: arg.divisor() for name, arg in self.args if used is None or name in used or arg.kind == "pointer"}

    def only(self, used: frozenset[str]) -> Specialization:
        """This, if an integer's divisibility is known of those in ``used`` alone."""
        sure = (a if a.kind == "pointer" or name in used else replace(a, divisible=False) for name, a in self.args)
        return replace(self, args=tuple(zip(self.types(), sure, strict=True)))

    def weak(self) -> frozenset[str]:
        return frozenset(name for name, arg in self.args if arg.kind == "float")

    def __str__(self) -> str:
        parts = [f"{name}: {arg}" for name, arg in self.args] + [f"{name}={value!r}" for name, value in self.constants]
        return ", ".join(parts)


def parse(signature: Mapping[str, object]) -> dict[str, Arg]:
    """A signature in words, for compiling without arguments: ``{"x": "*float32:16", "n": "int32"}``. ``:16`` says
    that a pointer is aligned to 16 bytes, or an integer divisible by 16."""
    out, short = {}, {d.short: d for d in ALL}
    for name, text in signature.items():
        word, _, divisible = str(text).partition(":")
        dtype = from_numpy(short.get(word.lstrip("*"), word.lstrip("*")))
        if word.startswith("*"):
            out[name] = Arg("pointer", dtype, divisible == "16")
        else:
            out[name] = FLOAT if dtype.is_float else Arg("int", dtype, divisible == "16")
    return out
