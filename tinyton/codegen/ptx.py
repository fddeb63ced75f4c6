"""What only NVIDIA's compilers understand: PTX instructions, and looks at bits, as named functions. No other text of a
kernel has PTX in it, save what a user writes: so whatever can stand in for these instructions can run CUDA C++.

An entry is the text of a function, as `Writer.use` or, of those for one type, `Writer.helper` fills it in.
"""

from __future__ import annotations

PTX = {
    "half_bits": """
{fn} unsigned short half_bits(float x) {{  // round to nearest even
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}}""",
    "half_value": """
{fn} float half_value(unsigned short h) {{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}}""",
    "bfloat_bits": """
{fn} unsigned short bfloat_bits(float x) {{  // round to nearest even; a NaN stays one
#if __CUDA_ARCH__ >= 800
    unsigned short h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    const unsigned int b = bits_of(x);
    return (unsigned short)(x != x ? b >> 16 | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
#endif
}}""",
    "wide_product": """
{fn} unsigned long long wide_product(unsigned int a, unsigned int b) {{
    unsigned long long p;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(p) : "r"(a), "r"(b));
    return p;
}}""",
    "power_of_2": """
{fn} float power_of_2(float x) {{  // below the least normal number, 0
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}}""",
    "reciprocal": """
{fn} float reciprocal(float x) {{  // within 1 unit in the last place; below the least normal number, 0
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}}""",
    "bits_of": "\n{fn} unsigned int bits_of(float x) {{ return __float_as_uint(x); }}",
    "float_of": "\n{fn} float float_of(unsigned int b) {{ return __uint_as_float(b); }}",
    "bits_of_double": """
{fn} unsigned long long bits_of_double(double x) {{
    return (unsigned long long)__double_as_longlong(x);
}}""",
    "double_of": "\n{fn} double double_of(unsigned long long b) {{ return __longlong_as_double((long long)b); }}",
    "double_to_half": """
{fn} float double_to_half(double x) {{
    unsigned short h;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
    return half_value(h);
}}""",
    # >>> stage 7
    "exchange": """
{fn} unsigned short {name}(unsigned short* at, unsigned short seen, unsigned short next) {{
    asm volatile("atom.{scope}.cas.b16 %0, [%1], %2, %3;" : "=h"(seen) : "l"(at), "h"(seen), "h"(next) : "memory");
    return seen;
}}""",
    "rounded": """
{fn} {T} {name}({params}) {{
    {T} r;
    asm("{word} %0, {places};" : "={letter}"(r) : {ins});
    return r;
}}""",
    # <<<
}
