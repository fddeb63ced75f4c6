// Work that goes on while threads do, in groups that are waited for.
#pragma once
#include <functional>
#include <map>
#include <vector>

namespace ptx {
using Work = std::vector<std::function<void()>>;
struct Sum {  // a register that products will write to: what it will be, and how many of them
    double value;
    int products;
};
struct Later {  // what a thread, or a warp-group, has asked for
    unsigned long block = ~0ul;
    Work open = {};
    std::vector<Work> groups = {};
    std::map<void*, Sum> sums = {};
    bool fenced = false;
};
inline Later& of(std::map<unsigned, Later>& all, unsigned owner) {
    Later& q = all[owner + 1024 * simt::rank()];
    if (q.block != simt::block()) q = {simt::block()};  // what others have left does not matter
    return q;
}
inline void commit(Later& q) {
    q.groups.push_back(std::move(q.open));
    q.open.clear();
}
inline void wait(Later& q, size_t later) {
    while (q.groups.size() > later) {
        for (auto& work : q.groups[0]) work();
        q.groups.erase(q.groups.begin());
    }
}
void finish_copies(unsigned thread);
}  // namespace ptx
