// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/patterns.h"

#include <sys/mman.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "bench/measure/clock.h"
#include "bench/sim/program.h"
#include "bench/sim/turns.h"
#include "bench/sim/ucp_node.h"

namespace bench::sim {
namespace fresh {
namespace {

constexpr uint32_t kHotTrips = 300;  // of short messages: peers are hot, and buffers have grown
constexpr uint64_t kShort = 8;
constexpr uint64_t kLongest = 16 << 20;
constexpr uint64_t kReserved = uint64_t{64} << 30;

// Messages of a size that are timed, after as many that are not. Of memory that is used again there
// are more of these, so that a transport may have registered it.
constexpr uint32_t times_of(uint64_t size) {
    if (size <= 1 << 20) return 8;
    return size <= 4 << 20 ? 4 : 2;
}
constexpr int kRunsBeforeReuse = 3;

// Memory of a program. No address is given twice, and a free page behind each buffer keeps caches
// of registrations from merging two of them.
class Buffers {
  public:
    Buffers() : page_(static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))) {
        void* const begin = ::mmap(nullptr, kReserved, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (begin == MAP_FAILED) throw call_failed("mmap");
        next_ = static_cast<char*>(begin);
        end_ = next_ + kReserved;
    }
    // Its pages are present.
    char* fresh(uint64_t size) {
        const uint64_t whole = (size + page_ - 1) / page_ * page_;
        if (whole + page_ > static_cast<uint64_t>(end_ - next_))
            throw Failure("too many buffers that were never used before");
        char* const buffer = next_;
        next_ += whole + page_;
        if (::mprotect(buffer, whole, PROT_READ | PROT_WRITE) != 0) throw call_failed("mprotect");
        for (uint64_t at = 0; at < whole; at += page_) buffer[at] = 1;
        used_.emplace_back(buffer, whole);
        return buffer;
    }
    // Those that were given until now are not given back.
    void keep() { used_.clear(); }
    // Gives all back, as a program does.
    void unmap() {
        for (const auto& [buffer, bytes] : used_)
            if (::munmap(buffer, bytes) != 0) throw call_failed("munmap");
        used_.clear();
    }

  private:
    uint64_t page_;
    char* next_ = nullptr;
    char* end_ = nullptr;
    std::vector<std::pair<char*, uint64_t>> used_;
};

// Buffers of messages: each its own, or all the same.
class Supply {
  public:
    Supply(Buffers& buffers, uint64_t size, uint32_t messages, bool reused) : reused_(reused) {
        for (uint32_t i = 0; i < (reused ? 1 : messages); ++i)
            buffers_.push_back(buffers.fresh(size));
    }
    char* operator[](uint32_t message) const { return buffers_[reused_ ? 0 : message]; }

  private:
    bool reused_;
    std::vector<char*> buffers_;
};

class FreshRank : public UcpNode {
  public:
    // `open`: bytes of the memory for puts and gets.
    FreshRank(Machine& machine, uint32_t rank, const TransportCosts& costs, Buffers& buffers,
              uint64_t open)
        : UcpNode(machine, rank, costs, buffers.fresh(open), open) {
        buffers.keep();
    }

    void send(const char* from, uint64_t size) {
        sending_ =
            began(kUcp.send, ucp_tag_send_nbx(peer().endpoint, from, size, kTag, &kDefaults));
    }
    void receive(char* to, uint64_t size) {
        receiving_ =
            began(kUcp.receive, ucp_tag_recv_nbx(worker(), to, size, kTag, kAllBits, &kDefaults));
    }
    void put(char* from, uint64_t size) {
        sending_ = began(kUcp.put, ucp_put_nbx(peer().endpoint, from, size, peer().target,
                                               peer().key, &kDefaults));
    }
    void get(char* to, uint64_t size) {
        sending_ = began(kUcp.put, ucp_get_nbx(peer().endpoint, to, size, peer().target, peer().key,
                                               &kDefaults));
    }
    void flush() { flushing_ = began(0, ucp_worker_flush_nbx(worker(), &kDefaults)); }
    bool has_sent() { return has_ended(sending_); }
    bool has_received() { return has_ended(receiving_); }
    bool has_flushed() { return has_ended(flushing_); }

  private:
    bool has_ended(void*& request) {
        if (!ended(request)) return false;
        request = nullptr;
        return true;
    }

    void* sending_ = nullptr;
    void* receiving_ = nullptr;
    void* flushing_ = nullptr;
};

// What one rank does: `times` messages of a size.
struct Work {
    uint64_t size;
    uint32_t times;
    Supply from;
    Supply to;
};

// One side of a ping-pong; the first one begins.
Program pass(FreshRank& me, bool first, const Work& work, uint64_t& took) {
    const uint64_t start = me.now();
    me.receive(work.to[0], work.size);
    for (uint32_t i = 0; i < work.times; ++i) {
        if (first) me.send(work.from[i], work.size);
        while (!me.has_received()) co_await me.step();
        if (i + 1 < work.times) me.receive(work.to[i + 1], work.size);
        if (!first) me.send(work.from[i], work.size);
        while (!me.has_sent()) co_await me.step();
    }
    took = me.now() - start;
}

// Of a ring.
Program pass_on(FreshRank& me, const Work& work, uint64_t& took) {
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < work.times; ++i) {
        me.receive(work.to[i], work.size);
        me.send(work.from[i], work.size);
        while (!me.has_received()) co_await me.step();
        while (!me.has_sent()) co_await me.step();
    }
    took = me.now() - start;
}

// FreshRank::put() or get(), one at a time.
using Access = void (FreshRank::*)(char* buffer, uint64_t size);
Program access(FreshRank& me, Access operation, const Work& work, uint64_t& took) {
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < work.times; ++i) {
        (me.*operation)(work.from[i], work.size);
        while (!me.has_sent()) co_await me.step();
        me.flush();
        while (!me.has_flushed()) co_await me.step();
    }
    took = me.now() - start;
}

Program idle(FreshRank&) {
    co_return;
}
Program settle(FreshRank& me) {
    me.flush();
    while (!me.has_flushed()) co_await me.step();
}

class Measurement {
  public:
    Measurement(const std::string& transport, uint32_t ranks)
        : costs_(costs_of(transport)), machine_(verbs_below(costs_)) {
        for (uint32_t rank = 0; rank < ranks; ++rank)
            ranks_.emplace_back(machine_, rank, costs_, buffers_, ranks == 2 ? kLongest : kShort);
        for (uint32_t rank = 0; rank < ranks; ++rank)
            ranks_[rank].connect(ranks_[(rank + 1) % ranks]);
        end_ = machine_.now();
        (void)messages(kShort, kHotTrips, true);
    }

    std::vector<Value> run() {
        for (const bool reused : {false, true}) {
            const std::string kind = reused ? "reused " : "fresh ";
            for (const uint64_t size : kFreshSizes) {
                const auto add = [&](const std::string& what, auto&& measure) {
                    const uint32_t times = times_of(size);
                    for (int i = reused ? kRunsBeforeReuse : 1; i > 0; --i) (void)measure(times);
                    values_.push_back({kind + what, static_cast<double>(size), "us",
                                       measure(times) / times / 1000});
                };
                if (ranks_.size() != 2) {
                    add("send in a ring",
                        [&](uint32_t times) { return messages(size, times, reused); });
                    continue;
                }
                add("send", [&](uint32_t times) { return messages(size, times, reused) / 2; });
                add("put",
                    [&](uint32_t times) { return accesses(&FreshRank::put, size, times, reused); });
                add("get",
                    [&](uint32_t times) { return accesses(&FreshRank::get, size, times, reused); });
            }
        }
        return std::move(values_);
    }

  private:
    Work work(uint64_t size, uint32_t times, bool reused) {
        return {size, times, Supply(buffers_, size, times, reused),
                Supply(buffers_, size, times, reused)};
    }
    // A ping-pong of two ranks, or a ring. In ns, of the slowest rank.
    double messages(uint64_t size, uint32_t times, bool reused) {
        const double took = exchange(works(size, times, reused));
        if (!reused) give_back();
        return took;
    }
    // Of rank 0, while rank 1 only progresses its worker.
    double accesses(Access operation, uint64_t size, uint32_t times, bool reused) {
        const Work mine = reused ? kept(0, size, times) : work(size, times, false);
        uint64_t took = 0;
        std::vector<Program> programs;
        programs.push_back(access(ranks_[0], operation, mine, took));
        programs.push_back(idle(ranks_[1]));
        finish(std::move(programs));
        if (!reused) give_back();
        return static_cast<double>(took);
    }
    double exchange(const std::vector<Work>& works) {
        std::vector<uint64_t> took(ranks_.size());
        std::vector<Program> programs;
        for (size_t rank = 0; rank < ranks_.size(); ++rank)
            programs.push_back(ranks_.size() == 2
                                   ? pass(ranks_[rank], rank == 0, works[rank], took[rank])
                                   : pass_on(ranks_[rank], works[rank], took[rank]));
        finish(std::move(programs));
        return static_cast<double>(*std::ranges::max_element(took));
    }
    // Caches of registrations release what is gone when they get something new, which must not be
    // timed.
    void give_back() {
        buffers_.unmap();
        const std::vector<Work> more = works(kFreshSizes[0], 2, false);
        buffers_.keep();
        (void)exchange(more);
    }
    std::vector<Work> works(uint64_t size, uint32_t times, bool reused) {
        std::vector<Work> all;
        for (size_t rank = 0; rank < ranks_.size(); ++rank)
            all.push_back(reused ? kept(rank, size, times) : work(size, times, false));
        return all;
    }
    // Buffers of a size that are not given back.
    Work kept(size_t rank, uint64_t size, uint32_t times) {
        const auto found = kept_.find({rank, size});
        if (found != kept_.end()) return {size, times, found->second.from, found->second.to};
        const Work made = work(size, times, true);
        buffers_.keep();
        return kept_.emplace(std::pair(rank, size), made).first->second;
    }
    void finish(std::vector<Program> programs) {
        run_all(programs);
        programs.clear();
        for (FreshRank& rank : ranks_) programs.push_back(settle(rank));
        run_all(programs);
    }
    void run_all(std::vector<Program>& programs) {
        run_programs(machine_, end_, programs, {},
                     [this](uint32_t rank) -> FreshRank& { return ranks_[rank]; });
    }

    const TransportCosts& costs_;
    Machine machine_;
    Buffers buffers_;
    std::map<std::pair<size_t, uint64_t>, Work> kept_;
    std::deque<FreshRank> ranks_;
    uint64_t end_ = 0;  // of what has run
    std::vector<Value> values_;
};

}  // namespace
}  // namespace fresh

std::vector<Value> measure_fresh(const std::string& transport, uint32_t ranks) {
    return fresh::Measurement(transport, ranks).run();
}

}  // namespace bench::sim
