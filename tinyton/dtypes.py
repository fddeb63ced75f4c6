"""Element types: what is in memory, what a register holds, and which type two of them make together."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .errors import KernelTypeError, KernelValueError


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. ``kind`` is b, i, u or f; ``bits`` its width in memory.

    Floats of 16 and 8 bits are computed in float32 and rounded to nearest even after every operation, so their value in
    a register (``register``) and in the interpreter is a float32 that their format can represent. Those of 8 bits
    saturate: what is too large, infinity too, becomes the largest number that is finite. NaN stays NaN.

    >>> import tinyton as tt
    >>> tt.float16.itemsize, tt.float16.register.name
    (2, 'float32')
    """

    name: str
    kind: str
    bits: int

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Of the same type of NumPy or torch, too."""
        if isinstance(other, DType) or not is_foreign(other):
            return self is other
        return BY_NAME.get(_name(other)) is self

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple:
        return from_numpy, (self.name,)

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_narrow(self) -> bool:
        """True for floats of 16 and 8 bits."""
        return self.kind == "f" and self.bits <= 16

    @property
    def is_int(self) -> bool:
        """True for integers and bool."""
        return self.kind != "f"

    @property
    def element_ty(self) -> DType:
        """Itself: ``x.dtype`` and ``x.type`` of a tile or a pointer are those of an element already."""
        return self

    scalar = element_ty

    @property
    def short(self) -> str:
        if self in EIGHT:
            return f"f8{self.name[7:11]}"
        return "i1" if self.kind == "b" else f"{'b' * (self.name == 'bfloat16')}{self.kind}{self.bits}"

    @property
    def register(self) -> DType:
        """The type that holds a value of this one while it is computed with."""
        return float32 if self.is_narrow else self

    @cached_property
    def numpy(self) -> np.dtype:
        """The NumPy type of an element in memory: the bits, of what NumPy does not have."""
        return np.dtype(f"uint{self.bits}" if self.foreign else self.name)

    @property
    def foreign(self) -> bool:
        """True for the floats that NumPy does not have: bfloat16, and those of 8 bits."""
        return self is bfloat16 or self in EIGHT

    @cached_property
    def range(self) -> tuple[int, int]:
        """Least and greatest value of an integer type."""
        if self.kind == "i":
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1


bool_ = DType("bool", "b", 1)
int8, int16, int32, int64 = (DType(f"int{b}", "i", b) for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{b}", "u", b) for b in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{b}", "f", b) for b in (16, 32, 64))


bfloat16 = DType("bfloat16", "f", 16)

# >>> stage 8
float8_e4m3fn, float8_e5m2 = DType("float8_e4m3fn", "f", 8), DType("float8_e5m2", "f", 8)
# <<<
EIGHT: dict[DType, tuple[int, int, int]] = {  # bits of the fraction, what is added to exponents, code of the largest
    # >>> stage 8
    float8_e4m3fn: (3, 7, 0x7E),
    float8_e5m2: (2, 15, 0x7B),
    # <<<
}
ALL = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, *EIGHT, float16, bfloat16, float32, float64)
BY_NAME = {d.name: d for d in ALL}


def from_numpy(dtype: object) -> DType:
    """The element type of a NumPy dtype, of a dtype's name, or of a torch dtype; KernelTypeError if there is none."""
    if isinstance(dtype, DType):
        return dtype
    name = _name(dtype)
    if name not in BY_NAME:
        raise KernelTypeError(f"elements of type {name} are not supported; use one of {', '.join(BY_NAME)}")
    return BY_NAME[name]


def _name(dtype: object) -> str:
    name = str(dtype).removeprefix("torch.")
    try:
        return name if name in BY_NAME else np.dtype(dtype).name  # type: ignore[call-overload]
    except TypeError:
        return name


def is_foreign(x: object) -> bool:
    """True for an element type of NumPy or torch."""
    return isinstance(x, np.dtype) or type(x).__name__ == "dtype" or isinstance(x, type) and issubclass(x, np.generic)


def promote(a: DType, b: DType) -> DType:
    """The type of an operation on two typed operands."""
    if a is b:
        return a
    if bool_ in (a, b):
        return b if a is bool_ else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits == b.bits and a.is_float:
        raise KernelTypeError(f"{a} and {b} have no common type; write .to(tt.float32) on one of them")
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    wider = f"int{min(64, 2 * unsigned.bits)}"
    raise KernelTypeError(f"{a} and {b} have no common type; write .to(tt.{wider}) on one of them")


def of_literal(value: bool | int | float, partner: DType | None) -> DType:
    """The type that a Python number takes beside an operand of type ``partner`` (None: alone)."""
    if isinstance(value, bool):
        return partner or bool_
    if isinstance(value, float):
        dtype = partner if partner is not None and partner.is_float else float32
    elif partner is not None and partner is not bool_:
        dtype = partner
    else:
        dtype = int32 if int32.range[0] <= value <= int32.range[1] else int64
    fit(value, dtype)
    return dtype


def fit(value: int | float, dtype: DType) -> None:
    """Refuses a literal that ``dtype`` cannot hold."""
    if dtype.is_int and dtype is not bool_ and not dtype.range[0] <= value <= dtype.range[1]:
        raise KernelValueError(f"{value} is out of range for {dtype}, which holds {dtype.range[0]} to {dtype.range[1]}")
    finite = abs(value) < math.inf  # an int may be greater than any float
    if dtype.is_float and finite and (abs(value) > sys.float_info.max or not np.isfinite(round_to(value, dtype))):
        raise KernelValueError(f"{value} is out of range for {dtype}; infinity is float('inf')")
    if dtype in EIGHT and abs(value) > (most := float(unpack(np.uint8(EIGHT[dtype][2]), dtype))):
        raise KernelValueError(f"{value} is out of range for {dtype}, whose largest number is {most:g}")


def round_to(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Rounds float32 values to what ``dtype`` can represent (nearest, ties to even), kept in its register type."""
    if dtype is float16:
        with np.errstate(over="ignore"):
            return np.asarray(x).astype(np.float16).astype(np.float32)
    if dtype.foreign:
        return unpack(pack(np.asarray(x, np.float32), dtype), dtype)
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype.register.numpy)


def pack(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Values in their register type -> elements as they lie in memory."""
    if dtype is bfloat16:
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(x), bits >> 16 | 0x40, rounded).astype(np.uint16).reshape(np.shape(x))
    if dtype in EIGHT:
        fraction, bias, most = EIGHT[dtype]
        bits, down, cut = np.ascontiguousarray(x, np.float32).view(np.uint32), 127 - bias, 23 - fraction
        size, least = bits & 0x7FFFFFFF, down + 1 << 23
        steps = np.float32(2.0 ** (down + cut - 126))  # whose neighbours are the smallest step apart
        small = (np.minimum(size, least).view(np.float32) + steps).view(np.uint32) - steps.view(np.uint32)
        code = (size + (1 << cut - 1) - 1 + (size >> cut & 1) >> cut) - (down << fraction)
        code = np.minimum(np.where(size < least, small, code), most)
        return np.where(np.isnan(x), 0x7F, bits >> 24 & 0x80 | code).astype(np.uint8).reshape(np.shape(x))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x).astype(dtype.numpy)


def unpack(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Elements as they lie in memory -> values in their register type."""
    if dtype is bfloat16:
        return (np.asarray(x).astype(np.uint32) << 16).view(np.float32)
    if dtype in EIGHT:  # of one half, a shift; the other has no infinity, and exponents of another zero
        code, (fraction, bias, _) = np.asarray(x).astype(np.uint16), EIGHT[dtype]
        half = (code << 8 & 0x8000 | (code & 0x7F) << 10 - fraction).view(np.float16).astype(np.float32)
        if dtype.name == "float8_e5m2":
            return half
        return np.where(code & 0x7F == 0x7F, np.float32(np.nan), half * np.float32(2.0 ** (15 - bias)))
    return np.asarray(x).astype(dtype.register.numpy)
