// The instructions of bulk.h.
#include "simt.h"
#include "later.h"

namespace ptx {
using simt::at;
using simt::fail;
struct Barrier {
    unsigned count;
    long pending, bytes = 0;
    unsigned phase = 0;
    Work coming = {};  // what has not yet arrived
};
static std::map<std::pair<unsigned long, uint32_t>, Barrier> barriers;  // by block and address
static long vain;  // how often nobody got on
static Barrier& barrier(uint32_t address) {
    at(address, 8, 8);
    const auto found = barriers.find({simt::block(), address});
    if (found == barriers.end()) fail("an mbarrier is used that is not initialised");
    return found->second;
}
static void change(Barrier& b, long arrivals, long bytes) {
    b.pending -= arrivals, b.bytes += bytes;
    if (b.pending < 0) fail("more threads arrive at an mbarrier than it was initialised for");
    if (!b.pending && !b.bytes) b.phase++, b.pending = b.count;
}
void mbarrier_init(uint32_t address, unsigned count) {
    memset(at(address, 8, 8), 0xff, 8);
    const unsigned long first = simt::block() - simt::rank();  // of its cluster: what others have left does not matter
    barriers.erase(barriers.begin(), barriers.lower_bound({first, 0}));
    barriers[{simt::block(), address}] = {count, count};
    vain = 0;
}
void mbarrier_arrive(uint32_t address, unsigned arrivals, long bytes) {
    Barrier& b = barrier(address);
    b.bytes += bytes;
    change(b, arrivals, 0);
}
bool mbarrier_waited(uint32_t address, unsigned parity) {
    Barrier& b = barrier(address);
    Work coming;
    coming.swap(b.coming);
    for (auto& work : coming)
        if (simt::toss()) work();
        else b.coming.push_back(work);
    if (b.phase % 2 != parity) return vain = 0, true;
    if (++vain > 1000000) fail("deadlock: all threads wait, one of them at an mbarrier");
    simt::pause();
    return false;
}
void copy_arrives(uint32_t address) {
    barrier(address);
    barrier(address).coming.push_back([=, t = simt::thread()] {
        finish_copies(t);
        change(barrier(address), 1, 0);
    });
}

// -- boxes ------------------------------------------------------------------------------------------------------------
static void each_element(const CUtensorMap& m, const int* first, uint32_t shared,
                     const std::function<void(char* global, uint32_t shared, bool inside)>& element) {
    const uint32_t rank = m.rank;
    uint64_t k[5] = {};
    for (uint64_t n = 0;; n++) {
        char* global = (char*)m.address;
        bool inside = true;
        for (uint32_t d = 0; d < rank; d++) {
            const long place = first[d] + (long)k[d];
            inside &= place >= 0 && place < (long)m.extents[d];
            global += place * (long)(d ? m.strides[d - 1] : m.item);
        }
        const uint32_t place = shared + (uint32_t)n * m.item;
        element(global, place ^ (m.swizzle ? (place >> 7 & (m.swizzle / 16 - 1)) << 4 : 0), inside);
        uint32_t d = 0;
        while (d < rank && ++k[d] == m.box[d]) k[d++] = 0;
        if (d == rank) return;
    }
}
static uint32_t box_bytes(const CUtensorMap& m) {
    uint32_t size = m.item;
    for (uint32_t d = 0; d < m.rank; d++) size *= m.box[d];
    return size;
}
static void check(const CUtensorMap& m, int rank, uint32_t shared) {
    if (m.rank != (uint32_t)rank) fail("a tensor map has another number of dimensions than the copy");
    at(shared, box_bytes(m), 128);
}
void load_box(uint32_t to, const CUtensorMap* map, const int* first, int rank, uint32_t address) {
    check(*map, rank, to);
    const std::vector<int> from(first, first + rank);
    const auto work = [=, m = *map] {
        each_element(m, from.data(), to, [&](char* global, uint32_t shared, bool inside) {
            char* const place = at(shared, m.item, 1);
            if (inside) memcpy(place, global, m.item);
            else memset(place, 0, m.item);
            if (m.rounds) cvt_rna_tf32_f32(*(unsigned*)place, *(const float*)place);
        });
        change(barrier(address), 0, -(long)box_bytes(m));
    };
    if (simt::toss()) work();
    else barrier(address).coming.push_back(work);
}
static std::map<unsigned, Later> stores;
void store_box(const CUtensorMap* map, const int* first, int rank, uint32_t from) {
    check(*map, rank, from);
    const std::vector<int> to(first, first + rank);
    const auto work = [=, m = *map] {
        each_element(m, to.data(), from, [&](char* global, uint32_t shared, bool inside) {
            if (inside) memcpy(global, at(shared, m.item, 1), m.item);
        });
    };
    if (simt::toss()) work();
    else of(stores, simt::thread()).open.push_back(work);
}
void cp_async_bulk_commit_group() { commit(of(stores, simt::thread())); }
void cp_async_bulk_wait_group(unsigned later) { wait(of(stores, simt::thread()), later); }
}  // namespace ptx

// As cuTensorMapEncodeTiled: extents of elements from the fastest dimension on, strides in bytes from the next one on.
extern "C" void simt_tensor_map(void* to, void* address, uint32_t item, uint32_t rank, const uint64_t* extents,
                                const uint64_t* strides, const uint32_t* box, uint32_t swizzle, uint32_t rounds) {
    CUtensorMap map = {(uint64_t)address, {}, {}, {}, item, rank, swizzle, rounds};
    memcpy(map.extents, extents, rank * sizeof *extents), memcpy(map.strides, strides, (rank - 1) * sizeof *strides);
    memcpy(map.box, box, rank * sizeof *box);
    memcpy(to, &map, sizeof map);
}
