// CUDA C++ for g++: what generated kernels, and kernels written by hand for tests, use of it.
//
// A kernel's threads are fibers of one thread of the operating system. A fiber runs until it waits for others (a
// barrier, a shuffle) or reaches an atomic; then another one goes on, which of them is left to chance. So whatever
// needs a barrier and has none goes wrong sooner or later. runtime.cpp holds the machine.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __builtin_assume(x) ((x) ? void() : simt::fail("what is assumed does not hold: " #x))
#undef assert
#define assert(x) ((x) ? void() : simt::fail("an assertion does not hold: " #x))

// -- what the machine does ---------------------------------------------------------------------------------------------
namespace simt {
[[noreturn]] void fail(const char* text);  // ends the launch; the text becomes its error
void pause();                              // somebody else may go on
bool toss();                               // one or the other
unsigned thread();                         // number in the block
unsigned long block();                     // number of all that have been
unsigned rank();                           // of the block in its cluster
void* shared(const void* tag, size_t size, size_t align);  // of the block: new for a new tag
void* dynamic(size_t align);
uint32_t window(const void* at);  // an address in shared memory as PTX counts it
char* at(uint32_t address, size_t size, size_t align);
// Waits for others, and has something of one's own in hand. The last to come does `act` with what each member of the
// block, or lane of the warp, has brought (null if it is not among them), before anybody goes on.
using Act = void (*)(void** each);
void meet_block(const char* what, unsigned barrier, unsigned count, void* mine, Act act);
void arrive_in_cluster();
void wait_for_cluster();
char* in_block(const void* at, unsigned rank);  // the same place in the shared memory of another block of the cluster
void meet_warp(const char* what, unsigned mask, void* mine, Act act);

template <class T> T& shared(const void* tag, size_t align) { return *(T*)shared(tag, sizeof(T), align); }
template <class T> T argument(char* args, size_t& at) {  // the next one; they are packed as a struct's members
    std::remove_const_t<T> x;
    at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
    memcpy(&x, args + at, sizeof x);
    at += sizeof x;
    return x;
}
template <class... A> void call(void (*kernel)(A...), char* args) {
    size_t at = 0;
    std::tuple<A...> all{argument<A>(args, at)...};  // braces, so that they are read in order
    std::apply(kernel, all);
}
template <class To, class From> To bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
}  // namespace simt

// -- vectors, and where a thread is --------------------------------------------------------------------------------------
#define VECTORS(name, T, two, four)                                                \
    struct name##1 { T x; };                                                       \
    struct __align__(two) name##2 { T x, y; };                                     \
    struct name##3 { T x, y, z; };                                                 \
    struct __align__(four) name##4 { T x, y, z, w; };                              \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                     \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }             \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTORS(char, signed char, 2, 4)
VECTORS(uchar, unsigned char, 2, 4)
VECTORS(short, short, 4, 8)
VECTORS(ushort, unsigned short, 4, 8)
VECTORS(int, int, 8, 16)
VECTORS(uint, unsigned int, 8, 16)
VECTORS(longlong, long long, 16, 16)
VECTORS(ulonglong, unsigned long long, 16, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)
#undef VECTORS
using dim3 = uint3;
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// -- threads together -------------------------------------------------------------------------------------------------
#define FULL 0xffffffffu
void __syncthreads();
int __syncthreads_or(int on);
int __syncthreads_and(int on);
int __syncthreads_count(int on);
void __syncwarp(unsigned mask = FULL);
unsigned __ballot_sync(unsigned mask, int on);
inline int __any_sync(unsigned mask, int on) { return __ballot_sync(mask, on) != 0; }
inline int __all_sync(unsigned mask, int on) { return __ballot_sync(mask, !on) == 0; }
inline void __threadfence() { simt::pause(); }
inline void __threadfence_block() { simt::pause(); }
inline void __threadfence_system() { simt::pause(); }
[[noreturn]] inline void __trap() { simt::fail("the kernel has trapped"); }
inline void __nanosleep(unsigned) { simt::pause(); }

namespace simt {
uint64_t shuffle(unsigned mask, uint64_t value, int lane, bool inside);
template <class T> T shuffled(unsigned mask, T value, int lane, bool inside = true) {
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    word = shuffle(mask, word, lane, inside);
    memcpy(&value, &word, sizeof value);
    return value;
}
inline int lane() { return int(thread() % 32); }
}  // namespace simt
template <class T> T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
    return simt::shuffled(mask, x, (simt::lane() & -width) | (lane & (width - 1)));
}
template <class T> T __shfl_xor_sync(unsigned mask, T x, int by, int width = 32) {
    const int from = simt::lane() ^ by;
    return simt::shuffled(mask, x, from, from < (simt::lane() & -width) + width);
}
template <class T> T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
    const int from = simt::lane() - int(by);
    return simt::shuffled(mask, x, from, from >= (simt::lane() & -width));
}
template <class T> T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
    const int from = simt::lane() + int(by);
    return simt::shuffled(mask, x, from, from < (simt::lane() & -width) + width);
}

// -- memory -----------------------------------------------------------------------------------------------------------
#define LOAD(name) template <class T> T name(const T* from) { return *from; }
#define STORE(name) template <class T, class V> void name(T* to, V x) { *to = (T)x; }
LOAD(__ldg) LOAD(__ldca) LOAD(__ldcg) LOAD(__ldcs) LOAD(__ldlu) LOAD(__ldcv)
STORE(__stwb) STORE(__stcg) STORE(__stcs) STORE(__stwt)
#undef LOAD
#undef STORE
inline size_t __cvta_generic_to_shared(const void* at) { return simt::window(at); }

#define ATOMIC(name, more)                                                                     \
    template <class T, class V> T name##more(T* at, V value) {                                 \
        simt::pause();                                                                         \
        const T seen = *at, x = (T)value;                                                      \
        *at = name##_of(seen, x);                                                              \
        return seen;                                                                           \
    }
#define ATOMICS(name, meaning)                                                                 \
    template <class T> T name##_of(T seen, T x) { return (T)(meaning); }                       \
    ATOMIC(name, ) ATOMIC(name, _block) ATOMIC(name, _system)
inline float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
inline float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
ATOMICS(atomicAdd, seen + x)
ATOMICS(atomicSub, seen - x)
ATOMICS(atomicMin, x < seen ? x : seen)
ATOMICS(atomicMax, x > seen ? x : seen)
ATOMICS(atomicAnd, seen & x)
ATOMICS(atomicOr, seen | x)
ATOMICS(atomicXor, seen ^ x)
ATOMICS(atomicExch, x)
#undef ATOMICS
#undef ATOMIC
#define SWAP(more)                                                                             \
    template <class T, class E, class V> T atomicCAS##more(T* at, E expected, V value) {       \
        simt::pause();                                                                         \
        const T seen = *at;                                                                    \
        if (seen == (T)expected) *at = (T)value;                                               \
        return seen;                                                                           \
    }
SWAP() SWAP(_block) SWAP(_system)
#undef SWAP

// -- numbers ----------------------------------------------------------------------------------------------------------
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { return b > a ? b : a; }
namespace simt {  // the other one of a NaN, even of a signalling one; -0 is less than 0
template <class T> T least(T a, T b) { return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b; }
template <class T> T most(T a, T b) { return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b; }
}  // namespace simt
#define fminf simt::least<float>
#define fmaxf simt::most<float>
#define fmin simt::least<double>
#define fmax simt::most<double>
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float __fmul_rd(float a, float b) {  // rounded down
    const double exact = (double)a * b;
    const float near = (float)exact;
    return near > exact ? nextafterf(near, -INFINITY) : near;
}
inline float __expf(float x) { return expf(x); }
inline unsigned __float_as_uint(float x) { return simt::bits<unsigned>(x); }
inline int __float_as_int(float x) { return simt::bits<int>(x); }
inline float __uint_as_float(unsigned x) { return simt::bits<float>(x); }
inline float __int_as_float(int x) { return simt::bits<float>(x); }
inline long long __double_as_longlong(double x) { return simt::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return simt::bits<double>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
#include "ptx.h"
#include "tensor.h"
#include "bulk.h"
