"""Arrays in kernels: a pointer, the extents and the strides, which are arguments of their own in the compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..dtypes import DType
from ..ir import Value
from ..ops.typing import Struct


@dataclass(frozen=True)
class Array(Struct):
    """An array argument. ``.shape`` and ``.strides`` (in elements) are tuples of run-time ints; a stride of 1 is a
    constant. ``.dtype`` and ``.ndim`` are known when the kernel is compiled."""

    METHODS: ClassVar[dict[str, str]] = {}
    base: Any
    shape: tuple
    strides: tuple

    @property
    def dtype(self) -> DType:
        return self.base.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"array of {self.ndim} dimensions of {self.dtype}" if isinstance(self.base, Value) else "array"
