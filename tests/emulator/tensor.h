// Tensor cores, and work that goes on while threads do: copies and products that are asked for now and are there when
// somebody has waited for them. Of such work a coin decides whether it reads at once or only when it is waited for.
#pragma once

namespace ptx {
inline void setp_eq_u32(bool& p, unsigned a, unsigned b) { p = a == b; }
inline void setp_ne_b32(bool& p, unsigned a, unsigned b) { p = a != b; }

// -- copies to shared memory, in groups of a thread ---------------------------------------------------------------------
void copy(uint32_t to, const void* from, unsigned size, unsigned there);  // the rest of it is zeros
#define COPY(cache)                                                                                                  \
    template <class P> void cp_async_##cache##_shared_global(uint32_t to, P from, unsigned size, unsigned there) {    \
        copy(to, (const void*)from, size, there);                                                                    \
    }                                                                                                                \
    template <class P> void cp_async_##cache##_shared_global(uint32_t to, P from, unsigned size) {                    \
        copy(to, (const void*)from, size, size);                                                                     \
    }
COPY(ca) COPY(cg)
#undef COPY
void cp_async_commit_group();
void cp_async_wait_group(unsigned later);
inline void cp_async_wait_all() { cp_async_commit_group(), cp_async_wait_group(0); }

// -- matrices of a warp -------------------------------------------------------------------------------------------------
void load_matrices(unsigned* const* to, int n, uint32_t row, bool turned);
void store_matrices(uint32_t row, const unsigned* from, int n, bool turned);
#define MATRICES(n)                                                                                                  \
    inline void ldmatrix_sync_aligned_m8n8_x##n##_shared_b16(Out<unsigned, n> d, uint32_t row) {                      \
        load_matrices(d.at, n, row, false);                                                                          \
    }                                                                                                                \
    inline void ldmatrix_sync_aligned_m8n8_x##n##_trans_shared_b16(Out<unsigned, n> d, uint32_t row) {                \
        load_matrices(d.at, n, row, true);                                                                           \
    }                                                                                                                \
    inline void stmatrix_sync_aligned_m8n8_x##n##_shared_b16(uint32_t row, In<unsigned, n> a) {                       \
        store_matrices(row, a.at, n, false);                                                                         \
    }                                                                                                                \
    inline void stmatrix_sync_aligned_m8n8_x##n##_trans_shared_b16(uint32_t row, In<unsigned, n> a) {                 \
        store_matrices(row, a.at, n, true);                                                                          \
    }
MATRICES(1) MATRICES(2) MATRICES(4)
#undef MATRICES

enum Kind { F16, BF16, TF32, E4M3, E5M2, S8, U8, F64 };  // up to E5M2, sums are float32
struct Mma {  // what a lane has; sums of int32 are exact in a double
    Kind kind;
    int words_x, words_y, sums;
    uint64_t x[4], y[2];
    double sum[4];
};
void multiply(Mma& mine);
inline double value(double x) { return x; }
template <class T> double value(T* x) { return *x; }
template <class S, size_t NX, size_t NY, size_t N, class X, class C>
void mma(Kind kind, Out<S, N> d, In<X, NX> x, In<X, NY> y, C c) {
    Mma mine = {kind, NX, NY, N, {}, {}, {}};
    for (size_t k = 0; k < NX; k++) memcpy(&mine.x[k], &x.at[k], sizeof(X));
    for (size_t k = 0; k < NY; k++) memcpy(&mine.y[k], &y.at[k], sizeof(X));
    for (size_t k = 0; k < N; k++) mine.sum[k] = value(c.at[k]);
    multiply(mine);
    for (size_t k = 0; k < N; k++) *d.at[k] = (S)mine.sum[k];
}
#define MMA(shape, words, kind, S, X, x, y, n)                                                                       \
    template <class C>                                                                                               \
    void mma_sync_aligned_##shape##_row_col_##words(Out<S, n> d, In<X, x> a, In<X, y> b, C c) {                       \
        mma(kind, d, a, b, c);                                                                                       \
    }
MMA(m16n8k8, f32_f16_f16_f32, F16, float, unsigned, 2, 1, 4)
MMA(m16n8k16, f32_f16_f16_f32, F16, float, unsigned, 4, 2, 4)
MMA(m16n8k8, f32_bf16_bf16_f32, BF16, float, unsigned, 2, 1, 4)
MMA(m16n8k16, f32_bf16_bf16_f32, BF16, float, unsigned, 4, 2, 4)
MMA(m16n8k4, f32_tf32_tf32_f32, TF32, float, unsigned, 2, 1, 4)
MMA(m16n8k8, f32_tf32_tf32_f32, TF32, float, unsigned, 4, 2, 4)
MMA(m16n8k16, s32_s8_s8_s32, S8, int, unsigned, 2, 1, 4) MMA(m16n8k32, s32_s8_s8_s32, S8, int, unsigned, 4, 2, 4)
MMA(m16n8k16, s32_u8_u8_s32, U8, int, unsigned, 2, 1, 4) MMA(m16n8k32, s32_u8_u8_s32, U8, int, unsigned, 4, 2, 4)
MMA(m16n8k32, f32_e4m3_e4m3_f32, E4M3, float, unsigned, 4, 2, 4)
MMA(m16n8k32, f32_e5m2_e5m2_f32, E5M2, float, unsigned, 4, 2, 4)
MMA(m8n8k4, f64_f64_f64_f64, F64, double, double, 1, 1, 2)
MMA(m16n8k4, f64_f64_f64_f64, F64, double, double, 2, 1, 4)
#undef MMA

// -- matrices of a warp-group, in its groups ------------------------------------------------------------------------------
struct Wgmma {  // what a thread has
    Kind kind;
    int columns;
    void* const* sum;
    bool registers, add, turned_x, turned_y;
    unsigned words[4];
    uint64_t x, y;
    int sign_x, sign_y;
};
void multiply(Wgmma& mine);
void wgmma_fence_sync_aligned();
void wgmma_commit_group_sync_aligned();
void wgmma_wait_group_sync_aligned(unsigned later);
inline void fence_proxy_async() {}
inline void fence_proxy_async_shared_cta() {}
inline void place(Wgmma& w, uint64_t x) { w.x = x; }
inline void place(Wgmma& w, In<unsigned, 4> x) { w.registers = true, memcpy(w.words, x.at, sizeof w.words); }
template <int N, class S, class X, class... M>
void wgmma(Kind kind, Out<S, N / 2> d, X x, uint64_t y, bool add, M... more) {
    const int m[] = {(int)more..., 0, 0, 0, 0};  // signs, and which operands are turned
    Wgmma mine = {kind, N, (void**)d.at, false, add, false, false, {}, 0, y, 1, 1};
    place(mine, x);
    if (sizeof...(M)) mine.sign_x = m[0], mine.sign_y = m[1];
    if (sizeof...(M) > 2) mine.turned_x = !mine.registers && m[2], mine.turned_y = m[mine.registers ? 2 : 3];
    multiply(mine);
}
#define WGMMA(depth, words, kind)                                                                                   \
    template <int N, class D, class... A> void wgmma_mma_async_sync_aligned_m64k##depth##_##words(D d, A... a) {      \
        wgmma<N>(kind, d, a...);                                                                                     \
    }
WGMMA(16, f32_f16_f16, F16) WGMMA(16, f32_bf16_bf16, BF16) WGMMA(8, f32_tf32_tf32, TF32)
WGMMA(32, f32_e4m3_e4m3, E4M3) WGMMA(32, f32_e5m2_e5m2, E5M2) WGMMA(32, s32_s8_s8, S8) WGMMA(32, s32_u8_u8, U8)
#undef WGMMA
}  // namespace ptx
