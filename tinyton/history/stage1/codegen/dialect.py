"""How CUDA C++ and OpenCL C spell the same things."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtypes import DType, bool_, float32

NATIVE = {"bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "float32": "float"}
NATIVE |= {"uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "float64": "double"}


@dataclass(frozen=True)
class Dialect:
    """The words of one target language."""

    name: str
    long: str
    memory: str  # before a pointer to global memory
    program_id: tuple[str, ...]
    num_programs: tuple[str, ...]
    head: str

    def c(self, dtype: DType) -> str:
        """The type of a value."""
        return NATIVE.get(dtype.name) or (self.long if dtype.kind == "i" else f"unsigned {self.long}")

    def pointer(self, dtype: DType) -> str:
        """The type of a pointer to elements in memory, where a bool is a byte."""
        return f"{self.memory}{'unsigned char' if dtype is bool_ else self.c(dtype)}*"

    def literal(self, value: int | float, dtype: DType) -> str:
        if not dtype.is_float:
            return str(value) if value >= 0 else f"({value})"
        text = "NAN" if math.isnan(value) else "INFINITY" if math.isinf(value) else repr(abs(float(value)))
        text += "f" if dtype is float32 and math.isfinite(value) else ""
        return text if value >= 0 or math.isnan(value) else f"(-{text})"


CUDA = Dialect(
    name="cuda",
    long="long long",
    memory="",
    program_id=tuple(f"(int)blockIdx.{axis}" for axis in "xyz"),
    num_programs=tuple(f"(int)gridDim.{axis}" for axis in "xyz"),
    head='extern "C" __global__ void {name}({params})\n{{\n    const int thread = threadIdx.x;',
)
OPENCL = Dialect(
    name="opencl",
    long="long",
    memory="__global ",
    program_id=tuple(f"(int)get_group_id({axis})" for axis in range(3)),
    num_programs=tuple(f"(int)get_num_groups({axis})" for axis in range(3)),
    head="#pragma OPENCL FP_CONTRACT OFF\n"
    "__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))\n"
    "void {name}({params})\n{{\n    const int thread = get_local_id(0);",
)
