// The machine under simt.h: one fiber a thread, blocks (or clusters of them) one after another, in an order left to chance.
#include "simt.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace simt {
constexpr size_t STACK = 2 << 20, PAGE = 64 << 10, WINDOW = 256 << 10;  // no machine has larger pages
constexpr int SECONDS = 60;                                               // of work that a launch may take

struct Fiber {
    ucontext_t start;
    jmp_buf state;
    char* stack = nullptr;
    bool begun = false, ended = false;
    const char* waits = nullptr;
    unsigned long arrivals = 0;  // at the barrier of its cluster
};
struct Meeting {
    unsigned mask = 0;
    const char* what = nullptr;
    Act act = nullptr;
    std::vector<unsigned> waiting = {};
    std::vector<void*> brought = {};
};

struct Block {
    uint3 index = {};
    unsigned long number = 0;
    std::map<unsigned, Meeting> barriers = {};
    std::vector<std::vector<Meeting>> warps = {};
    std::map<const void*, std::pair<char*, size_t>> places = {};  // of its shared arrays, by tag
    size_t taken = 0;
    unsigned left = 0;  // threads that have not ended
};

static std::vector<Fiber> fibers;  // of a cluster: a block's after the other's
static std::vector<Block> cluster;
static Block* self;
static std::vector<unsigned> ready, waiting;  // the latter at the cluster's barrier
static unsigned long phase, arrived;          // of that
static unsigned current, threads, alive;  // a number in its block; of a block; of a cluster
static unsigned long blocks;              // how many there have been
static jmp_buf home, out;
static std::string report;
static std::mt19937_64 chance;
static void (*body)(char*);
static char* arguments;
static size_t dynamic_size;
static std::map<char*, size_t> arrays;  // in global memory: each ends where a page begins that nobody may touch

static std::string text(const char* format, ...) {
    char line[512];
    va_list more;
    va_start(more, format);
    vsnprintf(line, sizeof line, format, more);
    va_end(more);
    return line;
}
static std::string who(unsigned t) {
    return text("thread (%u, %u)", t % blockDim.x, t / blockDim.x);
}
[[noreturn]] static void stop(const std::string& why) {
    report = why + text(", in block (%u, %u, %u)", blockIdx.x, blockIdx.y, blockIdx.z);
    _longjmp(out, 1);
}
void fail(const char* why) { stop(why + (" in " + who(current))); }
bool toss() { return chance() & 1; }
unsigned thread() { return current; }
unsigned long block() { return self->number; }
unsigned rank() { return unsigned(self - cluster.data()); }
static unsigned number() { return rank() * threads + current; }  // a number in the cluster
static Fiber& fiber() { return fibers[number()]; }

// -- memory -----------------------------------------------------------------------------------------------------------
static char* mapped(size_t size) {  // zeros, between pages that nobody may touch; gives where they end
    size = (size + PAGE - 1) / PAGE * PAGE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char* const at = (char*)mmap(nullptr, size + 2 * PAGE, PROT_NONE, flags, -1, 0);
    if (at == MAP_FAILED || mprotect(at + PAGE, size, PROT_READ | PROT_WRITE)) return nullptr;
    return at + PAGE + size;
}
static char* window_end(unsigned of = rank()) {
    static std::vector<char*> ends;
    while (ends.size() <= of) ends.push_back(mapped(WINDOW));
    return ends[of];
}
char* in_block(const void* at, unsigned rank) {
    if (rank >= cluster.size()) fail("there are not so many blocks in the cluster");
    return (char*)at - window_end() + window_end(rank);
}
static std::string nearby(const char* at) {
    for (auto& b : cluster)
        for (auto& [tag, place] : b.places) {
            const long off = at - place.first;
            if (off >= 0 && off < (long)(place.second + PAGE))
                return text("byte %ld of the %zu of a shared array", off, place.second);
        }
    if (at < window_end() + PAGE && at >= window_end() - WINDOW - PAGE) return "before a shared array";
    for (auto& [first, size] : arrays)
        if (at >= first - PAGE && at < first + size + PAGE) return text("byte %ld of an array of %zu", at - first, size);
    for (auto& f : fibers)
        if (f.stack && at >= f.stack - PAGE && at < f.stack + STACK) return "the stack, of which there is no more";
    return text("address %p, which is nowhere", (void*)at);
}
void* shared(const void* tag, size_t size, size_t align) {
    auto& places = self->places;
    auto& taken = self->taken;
    const auto found = places.find(tag);
    if (found != places.end()) return found->second.first;
    const size_t end = (size_t)window_end();
    taken = end - (end - taken - size) / align * align;
    if (taken > WINDOW) fail("there is not so much shared memory");
    char* const at = window_end() - taken;
    memset(at, chance() % 3 ? 0xff : 0x7e, size);  // NaNs and -1, or large numbers
    places[tag] = {at, size};
    return at;
}
void* dynamic(size_t align) { return shared(&dynamic_size, dynamic_size, align); }
uint32_t window(const void* p) { return (uint32_t)((char*)p - (window_end() - WINDOW)); }
char* at(uint32_t address, size_t size, size_t align) {
    if (address % align) fail(text("address %u in shared memory is no multiple of %zu", address, align).c_str());
    char* const p = window_end() - WINDOW + address;
    for (auto& [tag, place] : self->places)
        if (p >= place.first && p + size <= place.first + place.second) return p;
    fail(text("%s is accessed", nearby(p).c_str()).c_str());
}

// -- fibers -----------------------------------------------------------------------------------------------------------
static void leave() {  // to the scheduler, until it resumes this thread
    if (!_setjmp(fiber().state)) _longjmp(home, 1);
}
static bool complete(const Meeting& m, unsigned warp) {  // lanes that have ended are not waited for
    size_t awaited = 0;
    for (unsigned t = warp * 32; t < std::min(threads, warp * 32 + 32); t++)
        awaited += m.mask >> t % 32 & 1 && !fibers[rank() * threads + t].ended;
    return m.waiting.size() == awaited;
}
static void finish(Meeting& m) {
    if (m.act) m.act(m.brought.data());
    ready.insert(ready.end(), m.waiting.begin(), m.waiting.end());
    m.waiting.clear();
}
static void everybody() {  // of the cluster that has not ended has arrived
    if (!arrived || arrived < alive) return;
    arrived = 0, phase++;
    ready.insert(ready.end(), waiting.begin(), waiting.end());
    waiting.clear();
}
static void begin() {
    body(arguments);
    fiber().ended = true;
    alive--;
    if (!--self->left)  // what it had is somebody else's now
        for (auto& [tag, place] : self->places) memset(place.first, 0xff, place.second);
    for (Meeting& m : self->warps[current / 32])
        if (!m.waiting.empty() && complete(m, current / 32)) finish(m);
    if (fiber().arrivals > phase) arrived--;
    everybody();
    _longjmp(home, 1);
}
static void resume(unsigned t) {
    Fiber& f = fibers[t];
    self = &cluster[t / threads], blockIdx = self->index;
    t = current = t % threads;
    threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
    f.waits = nullptr;
    if (_setjmp(home)) return;
    if (f.begun) _longjmp(f.state, 1);
    f.begun = true;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack;
    f.start.uc_stack.ss_size = STACK;
    f.start.uc_link = nullptr;
    makecontext(&f.start, begin, 0);
    setcontext(&f.start);
}
void pause() {
    if (toss()) return;
    ready.push_back(number());
    leave();
}
static void come(Meeting& m, size_t places, unsigned place, const char* what, void* mine, Act act) {
    if (m.waiting.empty()) m.brought.assign(places, nullptr), m.what = what, m.act = act;
    if (strcmp(m.what, what)) stop(text("%s is at %s, others wait at %s", who(current).c_str(), what, m.what));
    m.brought[place] = mine;
    m.waiting.push_back(number());
    fiber().waits = what;
}
void meet_block(const char* what, unsigned barrier, unsigned count, void* mine, Act act) {
    Meeting& m = self->barriers[barrier];
    come(m, threads, current, what, mine, act);
    if (m.waiting.size() == count) finish(m);
    leave();
}
void arrive_in_cluster() {
    Fiber& f = fiber();
    if (f.arrivals > phase) fail("a thread arrives twice at a barrier of the cluster");
    f.arrivals = phase + 1;
    arrived++;
    everybody();
    pause();
}
void wait_for_cluster() {
    Fiber& f = fiber();
    if (!f.arrivals) fail("a thread waits at a barrier of the cluster before it arrives");
    if (f.arrivals <= phase) return pause();
    f.waits = "a barrier of the cluster";
    waiting.push_back(number());
    leave();
}
void meet_warp(const char* what, unsigned mask, void* mine, Act act) {
    const unsigned warp = current / 32, lane = current % 32;
    if (!(mask >> lane & 1)) fail(text("%s has a mask without the lane that calls it", what).c_str());
    auto& open = self->warps[warp];
    size_t k = 0;
    while (k < open.size() && open[k].mask != mask) k++;
    if (k == open.size()) open.push_back({mask});
    come(open[k], 32, lane, what, mine, act);
    if (complete(open[k], warp)) finish(open[k]);
    leave();
}
static std::string deadlock() {
    std::map<std::string, std::vector<unsigned>> waiting;
    const unsigned count = unsigned(cluster.size()) * threads;
    for (unsigned t = 0; t < count; t++)
        if (!fibers[t].ended) waiting[fibers[t].waits ? fibers[t].waits : "nothing"].push_back(t % threads);
    std::string why = text("deadlock: %u of %u threads have ended", count - alive, count);
    for (auto& [what, which] : waiting)
        why += text("; %zu wait at %s, first %s", which.size(), what.c_str(), who(which[0]).c_str());
    return why;
}
static void run_cluster(uint3 first, unsigned size) {
    cluster.assign(size, {});
    for (Block& b : cluster) {
        b.index = first, b.number = ++blocks, b.left = threads;
        b.warps.assign((threads + 31) / 32, {});
        first.x++;
    }
    waiting.clear();
    phase = arrived = 0;
    alive = size * threads;
    ready.resize(alive);
    std::iota(ready.begin(), ready.end(), 0);
    for (Fiber& f : fibers) f.begun = f.ended = false, f.arrivals = 0;
    while (alive) {
        if (ready.empty()) stop(deadlock());
        std::swap(ready[chance() % ready.size()], ready.back());
        const unsigned t = ready.back();
        ready.pop_back();
        resume(t);
    }
}

// -- faults -----------------------------------------------------------------------------------------------------------
static void fault(int signal, siginfo_t* info, void*) {
    if (signal == SIGSEGV || signal == SIGBUS) fail((nearby((char*)info->si_addr) + " is accessed").c_str());
    if (signal == SIGFPE) fail("an integer is divided by zero");
    if (signal == SIGVTALRM) fail(text("the kernel still runs after %d seconds", SECONDS).c_str());
    fail("an access is misaligned, or an index is outside of its array");  // the compiler's own checks
}
constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGVTALRM};
}  // namespace simt

using namespace simt;

void __syncthreads() { meet_block("__syncthreads", 0, threads, nullptr, nullptr); }
static int vote(int on, Act act) {
    int mine[2] = {on, 0};
    meet_block("a vote of the block", 0, threads, mine, act);
    return mine[1];
}
template <class F> static void count(void** each, F of) {
    int on = 0;
    for (unsigned t = 0; t < threads; t++) on += ((int*)each[t])[0] != 0;
    for (unsigned t = 0; t < threads; t++) ((int*)each[t])[1] = of(on);
}
int __syncthreads_or(int on) {
    return vote(on, [](void** each) { count(each, [](int n) { return n > 0; }); });
}
int __syncthreads_and(int on) {
    return vote(on, [](void** each) { count(each, [](int n) { return n == (int)threads; }); });
}
int __syncthreads_count(int on) {
    return vote(on, [](void** each) { count(each, [](int n) { return n; }); });
}
void __syncwarp(unsigned mask) { meet_warp("__syncwarp", mask, nullptr, nullptr); }
unsigned __ballot_sync(unsigned mask, int on) {
    unsigned mine[2] = {on != 0, 0};
    meet_warp("a vote of the warp", mask, mine, [](void** each) {
        unsigned all = 0;
        for (int k = 0; k < 32; k++) all |= (each[k] ? *(unsigned*)each[k] : 0) << k;
        for (int k = 0; k < 32; k++)
            if (each[k]) ((unsigned*)each[k])[1] = all;
    });
    return mine[1];
}
namespace simt {
uint64_t shuffle(unsigned mask, uint64_t value, int from, bool inside) {
    struct Mine {
        uint64_t value, got;
        int from;
    } mine = {value, value, inside ? from : lane()};
    meet_warp("a shuffle", mask, &mine, [](void** each) {
        for (int k = 0; k < 32; k++)
            if (each[k]) {
                Mine& m = *(Mine*)each[k];
                m.got = each[m.from] ? ((Mine*)each[m.from])->value : ~0ull;  // of lanes that are not there, anything
            }
    });
    return mine.got;
}
}  // namespace simt

// What Python calls.
extern "C" {
char* simt_allocate(size_t size) {  // filled with ones
    size = std::max<size_t>((size + 15) / 16 * 16, 16);
    char* const end = mapped(size);
    if (!end) return nullptr;
    memset(end - size, 0xff, size);
    arrays[end - size] = size;
    return end - size;
}
void simt_free(char* at) {
    const size_t size = arrays[at], whole = (size + PAGE - 1) / PAGE * PAGE;
    arrays.erase(at);
    munmap(at + size - whole - PAGE, whole + 2 * PAGE);
}
// Runs a kernel, in clusters of so many blocks; gives what went wrong, or null.
const char* simt_launch(void (*kernel)(char*), char* args, const unsigned* grid, const unsigned* block, size_t shared,
                        uint64_t seed, unsigned size) {
    body = kernel, arguments = args, dynamic_size = shared;
    gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
    chance.seed(seed);
    threads = block[0] * block[1] * block[2];
    if (fibers.size() < size * threads) fibers.resize(size * threads);
    for (Fiber& f : fibers)
        if (!f.stack) f.stack = mapped(STACK) - STACK;
    static char handlers[64 << 10];
    stack_t here = {}, before = {};
    here.ss_sp = handlers, here.ss_size = sizeof handlers;
    sigaltstack(&here, &before);
    struct sigaction mine = {}, old[std::size(SIGNALS)];
    mine.sa_sigaction = fault, mine.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (size_t k = 0; k < std::size(SIGNALS); k++) sigaction(SIGNALS[k], &mine, &old[k]);
    itimerval limit = {{0, 0}, {SECONDS, 0}}, none = {};
    setitimer(ITIMER_VIRTUAL, &limit, nullptr);
    report.clear();
    if (!_setjmp(out)) {
        if (grid[0] % size) stop("the grid is no multiple of the cluster");
        const unsigned across = grid[0] / size;
        std::vector<unsigned> order((size_t)across * grid[1] * grid[2]);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), chance);
        for (const unsigned n : order)
            run_cluster({n % across * size, n / across % grid[1], n / across / grid[1]}, size);
    }
    setitimer(ITIMER_VIRTUAL, &none, nullptr);
    for (size_t k = 0; k < std::size(SIGNALS); k++) sigaction(SIGNALS[k], &old[k], nullptr);
    sigaltstack(&before, nullptr);
    return report.empty() ? nullptr : report.c_str();
}
}
