// The instructions of tensor.h.
#include <memory>
#include "simt.h"
#include "later.h"

namespace ptx {
using simt::at;
using simt::fail;
// -- copies -----------------------------------------------------------------------------------------------------------
static std::map<unsigned, Later> copies;
void copy(uint32_t to, const void* from, unsigned size, unsigned there) {
    char* const place = at(to, size, size);
    if (there > size || (there && (uintptr_t)from % size)) fail("cp.async reads more than there is, or misaligned");
    if (there) (void)*((const volatile char*)from + there - 1);
    const auto work = [=] { memcpy(place, from, there), memset(place + there, 0, size - there); };
    if (simt::toss()) return work();
    of(copies, simt::thread()).open.push_back(work);
}
void finish_copies(unsigned thread) {  // and leave the groups empty
    Later& q = of(copies, thread);
    q.groups.push_back(std::move(q.open));
    for (Work& group : q.groups) {
        for (auto& work : group) work();
        group.clear();
    }
    q.groups.pop_back();
    q.open.clear();
}
void cp_async_commit_group() { commit(of(copies, simt::thread())); }
void cp_async_wait_group(unsigned later) { wait(of(copies, simt::thread()), later); }

// -- matrices of a warp -------------------------------------------------------------------------------------------------
struct Rows {
    uint32_t row;
    int n;
    bool turned, store;
    unsigned words[4];
};
static void exchange(void** each) {
    for (int lane = 0; lane < 32; lane++)
        for (int m = 0; m < ((Rows*)each[lane])->n; m++)
            for (int e = 0; e < 2; e++) {
                Rows& mine = *(Rows*)each[lane];
                const int row = mine.turned ? lane % 4 * 2 + e : lane / 4, column = mine.turned ? lane / 4 : lane % 4 * 2 + e;
                char* const place = at(((Rows*)each[m * 8 + row])->row, 16, 16) + column * 2;
                if (mine.store) memcpy(place, (char*)&mine.words[m] + e * 2, 2);
                else memcpy((char*)&mine.words[m] + e * 2, place, 2);
            }
}
void load_matrices(unsigned* const* to, int n, uint32_t row, bool turned) {
    Rows mine = {row, n, turned, false, {}};
    simt::meet_warp("ldmatrix", FULL, &mine, exchange);
    for (int k = 0; k < n; k++) *to[k] = mine.words[k];
}
void store_matrices(uint32_t row, const unsigned* from, int n, bool turned) {
    Rows mine = {row, n, turned, true, {}};
    memcpy(mine.words, from, n * sizeof(unsigned));
    simt::meet_warp("stmatrix", FULL, &mine, exchange);
}

static int bits(Kind kind) { return kind == F64 || kind == TF32 ? 32 : kind < TF32 ? 16 : 8; }  // a register: one float64
static double element(Kind kind, uint64_t word) {
    switch (kind) {
        case F16: return of_half((unsigned short)word);
        case BF16: return of_bfloat((unsigned short)word);
        case TF32: return simt::bits<float>((unsigned)word & ~0x1fffu);
        case E4M3: return of_e4m3((unsigned char)word);
        case E5M2: return of_e5m2((unsigned char)word);
        case S8: return (signed char)word;
        case U8: return (unsigned char)word;
        default: return simt::bits<double>(word);
    }
}
static double rounded(Kind kind, double sum) {
    return kind == F64 ? sum : kind < S8 ? (float)sum : (int)(unsigned)(long long)sum;
}
// The lane and the register that hold element (row, k) of an operand, and where in that; registers run along k with
// `step` between them.
struct Place {
    int lane, word, shift;
    Place(Kind kind, int row, int k, int step) {
        const int per = 32 / bits(kind);
        lane = row % 8 * 4 + k / per % 4, word = k / per / 4 * step + row / 8, shift = k % per * bits(kind);
    }
};
static int row_of(int lane, int r) { return lane / 4 + (r >> 1 & 1) * 8; }  // of the sum r of a lane
static int column_of(int lane, int r) { return r / 4 * 8 + lane % 4 * 2 + (r & 1); }
void multiply(Mma& mine) {
    simt::meet_warp("mma", FULL, &mine, [](void** each) {
        for (int lane = 0; lane < 32; lane++)
            for (int r = 0; r < ((Mma*)each[lane])->sums; r++) {
                Mma& mine = *(Mma*)each[lane];
                const int depth = mine.words_y * 4 * 32 / bits(mine.kind);
                double sum = 0;
                for (int k = 0; k < depth; k++) {
                    const Place x(mine.kind, row_of(lane, r), k, mine.words_x / mine.words_y);
                    const Place y(mine.kind, column_of(lane, r), k, 1);
                    sum += element(mine.kind, ((Mma*)each[x.lane])->x[x.word] >> x.shift)
                           * element(mine.kind, ((Mma*)each[y.lane])->y[y.word] >> y.shift);
                }
                mine.sum[r] = rounded(mine.kind, mine.sum[r] + sum);
            }
    });
}

// -- matrices of a warp-group -------------------------------------------------------------------------------------------
// Each warp has 16 of the 64 rows, and waits for the others of its group nowhere.
static std::map<unsigned, Later> products;
static Later& own() { return of(products, simt::thread() / 32); }
// Element (row, k) of an operand in shared memory, whose rows are of `width` bytes, eight of them a piece; they run along
// k, or along the other dimension if it is turned. Addresses are swizzled.
static double element(Kind kind, uint64_t word, int row, int k, bool turned) {
    const int width = 256 >> (word >> 62), size = bits(kind) / 8;
    const uint32_t start = (word & 0x3fff) << 4, aside = (word >> 16 & 0x3fff) << 4, down = (word >> 32 & 0x3fff) << 4;
    if (!(word >> 62)) fail("a descriptor of wgmma without swizzling is not known here");
    uint32_t place = start;
    if (turned) place += row * size / width * aside + k / 8 * down + k % 8 * width + row * size % width;
    else place += row / 8 * down + row % 8 * width + k * size;
    place ^= (place >> 7 & (width / 16 - 1)) << 4;
    uint64_t got = 0;
    memcpy(&got, at(place, size, size), size);
    return element(kind, got);
}
static void set(Kind kind, void* sum, double value) {
    if (kind < S8) *(float*)sum = (float)value;
    else *(int*)sum = (int)value;
}
void multiply(Wgmma& mine) {
    simt::meet_warp("wgmma", FULL, &mine, [](void** each) {
        Later& q = own();
        if (!q.fenced) fail("wgmma comes without wgmma.fence before");
        const Wgmma first = *(Wgmma*)each[0];
        const unsigned above = simt::thread() / 32 % 4 * 16;
        std::vector<std::vector<void*>> to;
        std::vector<Wgmma> all;
        for (int lane = 0; lane < 32; lane++) {
            const Wgmma& w = *(Wgmma*)each[lane];
            if (w.x != first.x || w.y != first.y) fail("the threads of a warp describe different tiles");
            all.push_back(w);
            to.emplace_back(w.sum, w.sum + w.columns / 2);
            for (void* sum : to.back()) {
                Sum& s = q.sums[sum];
                if (s.products++) continue;
                s.value = first.kind < S8 ? *(float*)sum : *(int*)sum;
                set(first.kind, sum, first.kind < S8 ? NAN : -1);
            }
        }
        const int n = first.columns, depth = 256 / bits(first.kind);
        const auto result = std::make_shared<std::vector<double>>();
        const auto work = [=] {
            std::vector<double> x, y;
            for (int row = 0; row < 16; row++)
                for (int k = 0; k < depth; k++) {
                    const Place p(first.kind, row, k, 2);
                    const unsigned word = all[p.lane].words[p.word] >> p.shift;
                    x.push_back(first.registers ? element(first.kind, word)
                                                : element(first.kind, first.x, above + row, k, first.turned_x));
                }
            for (int c = 0; c < n; c++)
                for (int k = 0; k < depth; k++) y.push_back(element(first.kind, first.y, c, k, first.turned_y));
            for (int row = 0; row < 16; row++)
                for (int c = 0; c < n; c++) {
                    double sum = 0;
                    for (int k = 0; k < depth; k++) sum += x[row * depth + k] * y[c * depth + k];
                    result->push_back(first.sign_x * first.sign_y * sum);
                }
        };
        if (simt::toss()) work();
        q.open.push_back([=, &q] {
            if (result->empty()) work();
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < n / 2; r++) {
                    Sum& s = q.sums[to[lane][r]];
                    const double more = (*result)[row_of(lane, r) * n + column_of(lane, r)];
                    s.value = rounded(first.kind, (first.add ? s.value : 0) + more);
                    if (--s.products) continue;
                    set(first.kind, to[lane][r], s.value);
                    q.sums.erase(to[lane][r]);
                }
        });
    });
}
void wgmma_fence_sync_aligned() {
    simt::meet_warp("wgmma.fence", FULL, nullptr, [](void**) { own().fenced = true; });
}
void wgmma_commit_group_sync_aligned() {
    simt::meet_warp("wgmma.commit_group", FULL, nullptr, [](void**) { commit(own()); });
}
void wgmma_wait_group_sync_aligned(unsigned later) {
    simt::meet_warp("wgmma.wait_group", FULL, &later, [](void** each) {
        wait(own(), *(unsigned*)each[0]);
        own().fenced = false;
    });
}
}  // namespace ptx
