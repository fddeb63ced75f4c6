"""How CUDA C++ and OpenCL C spell the same things."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..dtypes import DType, bool_, float32
from .ptx import PTX

NATIVE = {"bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short"}
NATIVE |= {"int32": "int", "uint32": "unsigned int", "float32": "float", "float64": "double"}
NARROW = {"float16": "half", "bfloat16": "bfloat"}  # of names of helpers that make them floats of a register
# >>> stage 8
NARROW |= {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
# <<<


class Dialect(NamedTuple):
    """The words of one target language."""

    name: str
    long: str
    function: str  # before a helper function
    memory: str  # before a pointer to global memory
    barrier: str
    shuffle: bool
    unroll: bool
    float_suffix: str  # of math functions on float32
    high: str  # the upper half of a product of unsigned 64-bit integers
    program_id: tuple[str, ...]  # by axis
    num_programs: tuple[str, ...]
    head: str  # with {name}, {params}, {attribute}, {threads}, {programs}
    thread: str  # a thread's number
    member: str  # which of the programs that share its block
    shared: str  # before an array in shared memory, with {align}
    local: str  # before a pointer to it
    helpers: dict[str, str]
    arch: int = -1  # the oldest card of NVIDIA's that the text is for, 90 for sm_90; 0: any; -1: none
    alone: bool = False  # it is for that card alone, as in sm_90a

    def c(self, dtype: DType) -> str:
        """The type of a register."""
        return NATIVE.get(dtype.register.name) or (self.long if dtype.kind == "i" else f"unsigned {self.long}")

    def stored(self, dtype: DType) -> str:
        """The type of an element in memory."""
        narrow = dtype.is_narrow or dtype is bool_
        return ("unsigned short" if dtype.bits == 16 else "unsigned char") if narrow else self.c(dtype)

    def literal(self, value: object, dtype: DType) -> str:
        if dtype is bool_:
            return "true" if value else "false"
        if dtype.is_int:
            return self._integer(int(value), dtype)  # type: ignore[call-overload]
        x = float(value)  # type: ignore[arg-type]
        if math.isnan(x) or math.isinf(x):
            word = "NAN" if math.isnan(x) else "INFINITY"
            text = word if dtype.register is float32 else f"(double){word}"
            return f"(-{text})" if x < 0 else text
        if dtype.register is float32:
            text = str(np.float32(x))
            return (text if "." in text or "e" in text else text + ".0") + "f"
        return repr(x)

    def _integer(self, value: int, dtype: DType) -> str:
        suffix = "u" if dtype.kind == "u" else ""
        if dtype.bits == 64 and not -(1 << 31) <= value < 1 << 31:
            suffix += "LL" if "long long" in self.long else "L"
        if dtype.kind == "i" and value == dtype.range[0] and dtype.bits >= 32:
            return f"({value + 1}{suffix} - 1)"
        return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"

    def on(self, capability: tuple[int, int], alone: bool = True) -> Dialect:
        """The language for cards from this compute capability on, or for that ``alone``."""
        return self._replace(arch=10 * capability[0] + capability[1], alone=alone)

    # >>> stage 9
    def in_clusters(self, blocks: int) -> Dialect:
        """The language where so many neighbouring blocks run a program together."""
        index, count = (f"(int)({word}.x / {blocks})" for word in ("blockIdx", "gridDim"))
        ids, counts = (index, *self.program_id[1:]), (count, *self.num_programs[1:])
        return self._replace(program_id=ids, num_programs=counts)

    # <<<
    def math(self, name: str, dtype: DType) -> str:
        return name + (self.float_suffix if dtype.register is float32 else "")


def launch_bounds(threads: int, blocks: int | None = None) -> str:
    """How CUDA is told the threads of a block: as a maximum, which `exact_block` makes a requirement. (From sm_90 on,
    nvcc also knows ``__block_size__``, but that makes every launch a launch of clusters, and small programs slow.)
    ``blocks`` is how many a multiprocessor is to hold at once, which limits registers."""
    return f"__launch_bounds__({threads}{f', {blocks}' if blocks else ''})"


CUDA = Dialect(
    name="cuda",
    arch=0,
    long="long long",
    function="__device__ __forceinline__",
    memory="",
    barrier="__syncthreads();",
    shuffle=True,
    unroll=True,
    float_suffix="f",
    high="__umul64hi",
    program_id=tuple(f"(int)blockIdx.{x}" for x in "xyz"),
    num_programs=tuple(f"(int)gridDim.{x}" for x in "xyz"),
    head='extern "C" __global__ void {attribute}\n{name}({params})\n{{',
    thread="threadIdx.x",
    member="threadIdx.y",
    shared="__shared__ __align__({align})",
    local="",
    helpers=PTX
    | {
        "quotient": """
{fn} float quotient(float a, float b) {{  // a / b, rounded once, of near numbers (Markstein, 1990)
    const float inverse = 1.0f / b, q = a * inverse;
    return fmaf(-fmaf(b, q, -a), inverse, q);
}}""",
        "quotient_for_16_bits": """
{fn} float quotient_for_16_bits(float a, float b) {{  // a / b, of b near 1, to 2**-46: to be rounded again
    const float most = 0x1.fffffcp-1f / b, rest = fmaf(-b, most, 1.0f) * most;  // of 1 / b, of one sign: a may be inf
    return fmaf(a, most, a * rest);
}}""",
        "Reach": """
struct Reach {{  // of operands of divisions
    unsigned int least = ~0u, low = ~0u, high = 0;
    float most = 0;
    __device__ void add(float b) {{ low = min(low, bits_of(b)), high = max(high, bits_of(b)); }}
    __device__ void add(float a, float b) {{
        least = min(least, bits_of(a) * 2 - 1);  // without the sign; 0 becomes the greatest
        most = fmaxf(most, fabsf(a)), add(b);
    }}
    __device__ bool near() const {{  // each a is 0, NaN, or from 2**-100 to 2**100 in size, each b from 2**-24 to 2**24
        return least >= 0x1affffff && most <= 0x1p100f && low >= 0x33800000 && high <= 0x4b800000;
    }}
}};""",
        "exp_float": """
{fn} float exp_float(float x) {{  // within 4 units in the last place to 16, 7 to 87; below 1.2e-38, 0
    const float t = __fmul_rd(x, 1.44269502f), rest = fmaf(-t, 0.693147182f, x), power = power_of_2(t);
    return fmaf(power, fminf(rest, 1.0f), power);  // if that is inf, the rest is above 0; or NaN, which becomes 1
}}""",
        "exp2_float": """
{fn} float exp2_float(float x) {{  // within 2.1 units in the last place; below 1.2e-38, 0
    return power_of_2(x);
}}""",
        "sigmoid_float": """
{fn} float sigmoid_float(float x) {{  // within 5 units in the last place to 16, 8 to 87
    return reciprocal(1.0f + exp_float(-x));
}}""",
        "tanh_float": """
{fn} float tanh_float(float x) {{  // within 2.1 units in the last place
    const float a = fabsf(x), u = x * x;
    float p = fmaf(u, 0.016437581f, -0.052671813f);
    p = fmaf(u, fmaf(u, fmaf(u, p, 0.13320725f), -0.33332947f), 0.0f);
    const float far = copysignf(fmaf(-2.0f, reciprocal(1.0f + power_of_2(a * 2.88539f)), 1.0f), x);
    const float near = fmaf(x, p, x);
    return a < 0.55f ? near : far;
}}""",
        "erf_float": """
{fn} float erf_float(float x) {{  // within 2.5 units in the last place
    const float a = fabsf(x), u = x * x;
    float p = fmaf(u, 0.0042818141f, -0.026474496f), q = fmaf(a, -0.0021400035f, 0.024904838f);
    p = fmaf(u, fmaf(u, fmaf(u, p, 0.11277f), -0.37612222f), 0.12837913f);
    q = fmaf(a, fmaf(a, fmaf(a, fmaf(a, q, -0.13828582f), -0.92948518f), -1.6223114f), -0.0010994188f);
    const float near = fmaf(x, p, x), far = copysignf(1.0f - power_of_2(q), x);
    return a < 0.7f ? near : far;
}}""",
    },
)


OPENCL = Dialect(
    name="opencl",
    long="long",
    function="static inline",
    memory="__global ",
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    shuffle=False,
    unroll=False,
    float_suffix="",
    high="mul_hi",
    program_id=tuple(f"(int)get_group_id({axis})" for axis in range(3)),
    num_programs=tuple(f"(int)get_num_groups({axis})" for axis in range(3)),
    head="__kernel __attribute__((reqd_work_group_size({threads}, {programs}, 1)))\nvoid {name}({params})\n{{",
    thread="get_local_id(0)",
    member="get_local_id(1)",
    shared="__local __attribute__((aligned({align})))",
    local="__local ",
    helpers={
        "half_bits": """
{fn} unsigned short half_bits(float x) {{  // round to nearest even
    uchar2 h;  // bytes may be looked at as any type
    vstore_half_rte(x, 0, (half*)&h);
    return as_ushort(h);
}}""",
        "half_value": """
{fn} float half_value(unsigned short h) {{
    const uchar2 bytes = as_uchar2(h);
    return vload_half(0, (const half*)&bytes);
}}""",
        "bits_of": "\n{fn} unsigned int bits_of(float x) {{ return as_uint(x); }}",
        "float_of": "\n{fn} float float_of(unsigned int b) {{ return as_float(b); }}",
        "bits_of_double": "\n{fn} unsigned long bits_of_double(double x) {{ return as_ulong(x); }}",
        "double_of": "\n{fn} double double_of(unsigned long b) {{ return as_double(b); }}",
        "double_to_half": """
{fn} float double_to_half(double x) {{
    uchar2 h;
    vstore_half_rte(x, 0, (half*)&h);
    return half_value(as_ushort(h));
}}""",
    },
)

COMMON = {
    "bfloat_bits": """
{fn} unsigned short bfloat_bits(float x) {{  // round to nearest even; a NaN stays one
    unsigned int b = bits_of(x);
    return (unsigned short)(x != x ? b >> 16 | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
}}""",
    "bfloat_value": "\n{fn} float bfloat_value(unsigned short h) {{ return float_of((unsigned int)h << 16); }}",
    # >>> stage 8
    "float8_bits": """
{fn} unsigned char float8_bits(float x, unsigned int cut, unsigned int down, unsigned int most) {{
    const unsigned int b = bits_of(x), size = b & 0x7fffffff, steps = (down + cut + 1) << 23;
    unsigned int code = ((size + (1u << (cut - 1)) - 1 + (size >> cut & 1)) >> cut) - (down << (23 - cut));
    if (size < (down + 1) << 23) code = bits_of(float_of(size) + float_of(steps)) - steps;  // of the smallest step
    return (unsigned char)(x != x ? 0x7f : (b >> 24 & 0x80) | (code < most ? code : most));
}}""",
    "e4m3_bits": """
{fn} unsigned char e4m3_bits(float x) {{  // round to nearest even, at most 448; a NaN stays one
    return float8_bits(x, 20, 120, 0x7e);
}}""",
    "e5m2_bits": """
{fn} unsigned char e5m2_bits(float x) {{  // round to nearest even, at most 57344; a NaN stays one
    return float8_bits(x, 21, 112, 0x7b);
}}""",
    "e4m3_value": "\n{fn} float e4m3_value(unsigned char h) {{ return float8_value(h); }}",
    "float8_value": """
{fn} float float8_value(unsigned char h) {{  // of e4m3
    const float x = half_value((unsigned short)((h & 0x80) << 8 | (h & 0x7f) << 7)) * 256.0f;
    return (h & 0x7f) == 0x7f ? NAN : x;
}}""",
    "e5m2_value": "\n{fn} float e5m2_value(unsigned char h) {{ return half_value((unsigned short)(h << 8)); }}",
    # <<<
}
ROUND = "\n{{fn}} float round_{0}(float x) {{{{ return {1}_value({1}_bits(x)); }}}}"
COMMON |= {f"round_{name}": ROUND.format(name, word) for name, word in NARROW.items()}
