// PTX instructions as functions of the same names, with _ for what C++ has no letters for. Their operands are those of
// the instruction: results are references, {a, b} is out(a, b) or in(a, b), and [a] is the address a: a pointer to
// global memory, or a number in the window of shared memory.
#pragma once

namespace ptx {
template <class T, size_t N> struct Out { T* at[N]; };
template <class T, size_t N> struct In { T at[N]; };
template <class T, class... R> Out<T, 1 + sizeof...(R)> out(T& x, R&... rest) { return {{&x, &rest...}}; }
template <class T, class... R> In<T, 1 + sizeof...(R)> in(T x, R... rest) { return {{x, (T)rest...}}; }

// -- conversions ------------------------------------------------------------------------------------------------------
inline unsigned short half(double x) { return x != x ? 0x7fff : simt::bits<unsigned short>((_Float16)x); }
inline float of_half(unsigned short h) { return (float)simt::bits<_Float16>(h); }
inline unsigned short bfloat(float x) {
    const unsigned b = simt::bits<unsigned>(x);
    return x != x ? 0x7fff : (unsigned short)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
inline float of_bfloat(unsigned short h) { return simt::bits<float>((unsigned)h << 16); }
inline void cvt_rn_f16_f32(unsigned short& d, float a) { d = half(a); }
inline void cvt_rn_f16_f64(unsigned short& d, double a) { d = half(a); }
inline void cvt_f32_f16(float& d, unsigned short a) { d = of_half(a); }
inline void cvt_rn_bf16_f32(unsigned short& d, float a) { d = bfloat(a); }
inline void cvt_rn_f16x2_f32(unsigned& d, float a, float b) { d = (unsigned)half(a) << 16 | half(b); }
inline void cvt_rn_bf16x2_f32(unsigned& d, float a, float b) { d = (unsigned)bfloat(a) << 16 | bfloat(b); }
inline unsigned char float8(float x, int fraction, int bias, int most) {
    const int e = simt::most<int>(x ? ilogbf(x) : 1 - bias, 1 - bias);
    if (x != x) return 0x7f;
    const double code = nearbyint(ldexp(fabs((double)x), fraction - e)) + ((e + bias - 1) << fraction);
    return (unsigned char)(signbit(x) << 7 | (fabsf(x) < 1e6f && code < most ? (int)code : most));
}
inline float of_float8(unsigned char h, int fraction, int bias) {
    const int e = (h & 0x7f) >> fraction, m = h & ((1 << fraction) - 1);
    const float x = (float)ldexp(m + (e ? 1 << fraction : 0), (e ? e : 1) - bias - fraction);
    return h & 0x80 ? -x : x;
}
inline float of_e4m3(unsigned char h) { return (h & 0x7f) == 0x7f ? NAN : of_float8(h, 3, 7); }
inline float of_e5m2(unsigned char h) { return of_half((unsigned short)(h << 8)); }
inline void cvt_rn_f16x2_e4m3x2(unsigned& d, unsigned short a) {
    d = (unsigned)half(of_e4m3((unsigned char)(a >> 8))) << 16 | half(of_e4m3((unsigned char)a));
}
inline void cvt_rn_satfinite_e4m3x2_f32(unsigned short& d, float a, float b) {
    d = (unsigned short)(float8(a, 3, 7, 0x7e) << 8 | float8(b, 3, 7, 0x7e));
}
inline void cvt_rn_satfinite_e5m2x2_f32(unsigned short& d, float a, float b) {
    d = (unsigned short)(float8(a, 2, 15, 0x7b) << 8 | float8(b, 2, 15, 0x7b));
}
inline void cvt_rna_tf32_f32(unsigned& d, float a) {
    const unsigned b = simt::bits<unsigned>(a);
    d = (b & 0x7f800000) == 0x7f800000 ? b : (b + 0x1000) & ~0x1fffu;
}

// -- arithmetic -------------------------------------------------------------------------------------------------------
inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
inline double flushed(double x) { return x; }
float rounded(char op, char mode, float a, float b);  // in ptx.cpp, where the compiler knows of modes
double rounded(char op, char mode, double a, double b);
#define CALL(name, op, mode, T) inline void name(T& d, T a, T b = 0) { d = rounded(op, mode, a, b); }
#define FTZ(name, op, mode) \
    inline void name(float& d, float a, float b = 0) { d = flushed(rounded(op, mode, flushed(a), flushed(b))); }
#define MODE(word, op, mode)                                \
    CALL(word##_r##mode##_f32, op, #mode[0], float)          \
    CALL(word##_r##mode##_f64, op, #mode[0], double)         \
    FTZ(word##_r##mode##_ftz_f32, op, #mode[0])
#define MODES(word, op) MODE(word, op, n) MODE(word, op, z) MODE(word, op, m) MODE(word, op, p)
MODES(add, '+') MODES(mul, '*') MODES(div, '/') MODES(sqrt, 'r')
CALL(div_full_f32, '/', 'n', float) FTZ(div_full_ftz_f32, '/', 'n')
CALL(div_approx_f32, '/', 'n', float) FTZ(div_approx_ftz_f32, '/', 'n')
CALL(sqrt_approx_f32, 'r', 'n', float) FTZ(sqrt_approx_ftz_f32, 'r', 'n')
CALL(min_f32, '<', 'n', float) CALL(min_f64, '<', 'n', double) FTZ(min_ftz_f32, '<', 'n')
CALL(max_f32, '>', 'n', float) CALL(max_f64, '>', 'n', double) FTZ(max_ftz_f32, '>', 'n')
CALL(min_NaN_f32, 'l', 'n', float) FTZ(min_ftz_NaN_f32, 'l', 'n')
CALL(max_NaN_f32, 'g', 'n', float) FTZ(max_ftz_NaN_f32, 'g', 'n')
#undef MODES
#undef MODE
#undef FTZ
#undef CALL
#define NEAR(name, T, value)                                                        \
    inline void name##_##T(float& d, float a) { const double x = a; d = (float)(value); } \
    inline void name##_ftz_##T(float& d, float a) { const double x = flushed(a); d = flushed((float)(value)); }
NEAR(ex2_approx, f32, exp2(x)) NEAR(lg2_approx, f32, log2(x)) NEAR(rcp_approx, f32, 1 / x)
NEAR(rsqrt_approx, f32, 1 / sqrt(x)) NEAR(tanh_approx, f32, tanh(x))
#undef NEAR
inline void rsqrt_approx_f64(double& d, double a) { d = 1 / sqrt(a); }
inline void rsqrt_approx_ftz_f64(double& d, double a) { d = 1 / sqrt(a); }
inline void mul_wide_u32(unsigned long long& d, unsigned a, unsigned b) { d = (unsigned long long)a * b; }
inline void brev_b32(unsigned& d, unsigned a) {
    for (int k = 0; k < 32; k++) d = d << 1 | (a >> k & 1);
}

// -- stores -----------------------------------------------------------------------------------------------------------
template <class P> void st_global_v4_b32(P at, In<unsigned, 4> v) { *(uint4*)at = {v.at[0], v.at[1], v.at[2], v.at[3]}; }

// -- atomics ----------------------------------------------------------------------------------------------------------
inline void swap16(unsigned short& d, void* at, unsigned short seen, unsigned short next) {
    d = atomicCAS((unsigned short*)at, seen, next);
}
#define SWAP(scope)                                                                                             \
    template <class P> void atom_##scope##_cas_b16(unsigned short& d, P at, unsigned short a, unsigned short b) { \
        swap16(d, (void*)at, a, b);                                                                             \
    }
SWAP(cta) SWAP(gpu) SWAP(sys)
#undef SWAP
}  // namespace ptx
