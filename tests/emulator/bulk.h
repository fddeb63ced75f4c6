// Barriers in shared memory, which count arrivals and bytes, and the copies of boxes of arrays that arrive at them.
#pragma once

struct __align__(64) CUtensorMap {  // in a form of our own; `simt_tensor_map` fills it
    uint64_t address, extents[5], strides[4];  // in elements; in bytes, from the second dimension on
    uint32_t box[5], item, rank, swizzle;      // bytes of an element; bytes of a row that is swizzled, or 0
    uint32_t rounds, unused[3];                // whether what is copied is float32 that becomes tf32
};
static_assert(sizeof(CUtensorMap) == 128);

namespace ptx {
inline unsigned long long& nothing() {  // the operand _
    static unsigned long long ignored;
    return ignored;
}
void mbarrier_init(uint32_t at, unsigned count);
void mbarrier_arrive(uint32_t at, unsigned arrivals, long bytes);  // and expects so many bytes more
bool mbarrier_waited(uint32_t at, unsigned parity);
void copy_arrives(uint32_t at);
void load_box(uint32_t to, const CUtensorMap* map, const int* first, int rank, uint32_t barrier);
void store_box(const CUtensorMap* map, const int* first, int rank, uint32_t from);
void cp_async_bulk_commit_group();
void cp_async_bulk_wait_group(unsigned later);
inline void cp_async_bulk_wait_group_read(unsigned later) { cp_async_bulk_wait_group(later); }

#define MBARRIERS(space)                                                                                             \
    inline void mbarrier_init_##space##_b64(uint32_t at, unsigned count) { mbarrier_init(at, count); }                \
    template <class S> void mbarrier_arrive_##space##_b64(S&, uint32_t at, unsigned n = 1) {                          \
        mbarrier_arrive(at, n, 0);                                                                                   \
    }                                                                                                                \
    template <class S> void mbarrier_arrive_expect_tx_##space##_b64(S&, uint32_t at, unsigned bytes) {                \
        mbarrier_arrive(at, 1, bytes);                                                                               \
    }                                                                                                                \
    inline void mbarrier_expect_tx_relaxed_cta_##space##_b64(uint32_t at, unsigned bytes) {                           \
        mbarrier_arrive(at, 0, bytes);                                                                               \
    }                                                                                                                \
    inline void mbarrier_try_wait_parity_##space##_b64(bool& p, uint32_t at, unsigned parity) {                       \
        p = mbarrier_waited(at, parity);                                                                             \
    }                                                                                                                \
    inline void mbarrier_test_wait_parity_##space##_b64(bool& p, uint32_t at, unsigned parity) {                      \
        p = mbarrier_waited(at, parity);                                                                             \
    }                                                                                                                \
    inline void cp_async_mbarrier_arrive_noinc_##space##_b64(uint32_t at) { copy_arrives(at); }
MBARRIERS(shared) MBARRIERS(shared_cta)
#undef MBARRIERS
#define BOXES(rank)                                                                                                  \
    template <class P>                                                                                               \
    void cp_async_bulk_tensor_##rank##d_shared_cluster_global_mbarrier_complete_tx_bytes(                             \
        uint32_t to, P map, In<unsigned, rank> first, uint32_t barrier) {                                                 \
        load_box(to, (const CUtensorMap*)map, (const int*)first.at, rank, barrier);                                              \
    }                                                                                                                \
    template <class P>                                                                                               \
    void cp_async_bulk_tensor_##rank##d_global_shared_cta_bulk_group(P map, In<unsigned, rank> first, uint32_t from) {     \
        store_box((const CUtensorMap*)map, (const int*)first.at, rank, from);                                                    \
    }
BOXES(1) BOXES(2) BOXES(3) BOXES(4) BOXES(5)
#undef BOXES
inline void fence_mbarrier_init_release_cluster() {}
template <class P> void prefetch_tensormap(P) {}
inline void setmaxnreg_inc_sync_aligned_u32(int) {}
inline void setmaxnreg_dec_sync_aligned_u32(int) {}
inline void barrier_cluster_arrive_release() { simt::arrive_in_cluster(); }
inline void barrier_cluster_wait_acquire() { simt::wait_for_cluster(); }
template <class P> void mapa_u64(P& to, uint64_t at, unsigned rank) { to = (P)simt::in_block((const void*)at, rank); }
inline void bar_sync(unsigned barrier, unsigned count) { simt::meet_block("bar.sync", barrier, count, nullptr, nullptr); }
}  // namespace ptx
