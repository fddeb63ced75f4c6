"""Element types: what is in memory, and which type two of them make together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import KernelTypeError


@dataclass(frozen=True)
class DType:
    """An element type. ``kind`` is b, i, u or f; ``bits`` its width in memory."""

    name: str
    kind: str
    bits: int

    def __repr__(self) -> str:
        return self.name

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def short(self) -> str:
        return "i1" if self.kind == "b" else f"{self.kind}{self.bits}"

    @property
    def numpy(self) -> np.dtype:
        """The NumPy type of an element in memory."""
        return np.dtype(self.name)


bool_ = DType("bool", "b", 1)
int8, int16, int32, int64 = (DType(f"int{b}", "i", b) for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{b}", "u", b) for b in (8, 16, 32, 64))
float32, float64 = (DType(f"float{b}", "f", b) for b in (32, 64))

ALL = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64)
BY_NAME = {d.name: d for d in ALL}


def from_numpy(dtype: object) -> DType:
    """The element type of a NumPy dtype; KernelTypeError if there is none."""
    name = dtype.name if isinstance(dtype, DType) else np.dtype(dtype).name  # type: ignore[call-overload]
    if name not in BY_NAME:
        raise KernelTypeError(f"elements of type {name} are not supported; use one of {', '.join(BY_NAME)}")
    return BY_NAME[name]


def promote(a: DType, b: DType) -> DType:
    """The type of an operation on two typed operands."""
    if a is b or bool_ in (a, b):
        return b if a is bool_ else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
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
        return partner if partner is not None and partner.is_float else float32
    if partner is not None and partner is not bool_:
        return partner
    return int32 if -(1 << 31) <= value < 1 << 31 else int64
