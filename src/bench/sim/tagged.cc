// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/patterns.h"

#include <algorithm>
#include <deque>

#include "bench/sim/grid.h"
#include "bench/sim/programs.h"
#include "bench/sim/side.h"
#include "bench/sim/turns.h"
#include "bench/sim/ucp_node.h"

namespace bench::sim {
namespace tagged {
namespace {

constexpr uint32_t kRateSizes[] = {8, 64, 512, 2048, 4096};
constexpr uint64_t kHaloSizes[] = {16 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr uint64_t kAnswer = 4;
// Before what is timed: peers are hot, buffers have grown, and receives were seen that can be
// matched.
constexpr uint32_t kWindowsBefore = 20;
constexpr uint32_t kWindows = 8;
constexpr uint32_t kHalosBefore = 60;
constexpr uint32_t kHalos = 10;
// Computations take as long as the rank's messages at so many bytes per ns, which is less than the
// bandwidth of every profile.
constexpr uint64_t kHidden = 5;

class TaggedRank : public UcpNode {
  public:
    TaggedRank(Machine& machine, uint32_t rank, const TransportCosts& costs)
        : TaggedRank(machine, rank, costs, shared_memory(3 * kRoom)) {}
    // Returns the number of the peer.
    size_t connect(TaggedRank& peer) {
        UcpNode::connect(peer);
        return peers_++;
    }

    // Each message has a place of its own in the memory of its direction.
    void send(size_t to, uint64_t place, uint64_t size) {
        requests_.push_back(
            began(kUcp.send,
                  UcpNode::send(peer(to).endpoint, memory_ + kRoom + place, size, tag_of(rank_))));
    }
    void receive(uint32_t from, uint64_t place, uint64_t size) {
        requests_.push_back(
            began(kUcp.receive, ucp_tag_recv_nbx(worker(), memory_ + 2 * kRoom + place, size,
                                                 tag_of(from), kAllBits, &kDefaults)));
    }
    // Whether all that was begun has ended.
    bool settled() {
        for (; !requests_.empty() && ended(requests_.front()); ++done_) requests_.pop_front();
        return requests_.empty();
    }

  private:
    static constexpr uint64_t kRoom = uint64_t{4} << 20;

    TaggedRank(Machine& machine, uint32_t rank, const TransportCosts& costs, char* memory)
        : UcpNode(machine, rank, costs, memory, kRoom), rank_(rank), memory_(memory) {}
    static ucp_tag_t tag_of(uint32_t rank) { return ucp_tag_t{rank} << 32 | kTag; }

    const uint32_t rank_;
    char* const memory_;
    size_t peers_ = 0;
    std::deque<void*> requests_;
};

// OSU's sender: a window at once, and the answer. Its peer is rank 1.
Program send_windows(TaggedRank& me, uint64_t size, uint32_t windows, uint64_t& took) {
    const uint64_t start = me.now();
    for (uint32_t window = 0; window < windows; ++window) {
        for (uint32_t i = 0; i < kWindow; ++i) {
            me.send(0, i * size, size);
            co_await me.compute(0);
        }
        while (!me.settled()) co_await me.step();
        me.receive(1, 0, kAnswer);
        while (!me.settled()) co_await me.step();
    }
    took = me.now() - start;
}
Program answer_windows(TaggedRank& me, uint64_t size, uint32_t windows) {
    for (uint32_t window = 0; window < windows; ++window) {
        for (uint32_t i = 0; i < kWindow; ++i) {
            me.receive(0, i * size, size);
            co_await me.compute(0);
        }
        while (!me.settled()) co_await me.step();
        me.send(0, 0, kAnswer);
        while (!me.settled()) co_await me.step();
    }
}

struct Neighbour {
    uint32_t rank;
    size_t peer;  // its number
};
struct Halo {
    uint64_t size;     // of each message
    uint64_t packing;  // ns for each message, before it is sent
};
// Receives are posted before the messages of the others are sent, but for the first one.
Program exchange_halos(TaggedRank& me, const std::vector<Neighbour>& neighbours, Halo halo,
                       uint32_t times, uint64_t& took) {
    const uint64_t size = halo.size;
    const uint64_t start = me.now();
    for (uint32_t time = 0; time < times; ++time) {
        for (size_t i = 0; i < neighbours.size(); ++i) {
            me.receive(neighbours[i].rank, i * size, size);
            co_await me.compute(0);
        }
        for (size_t i = 0; i < neighbours.size(); ++i) {
            if (halo.packing != 0) co_await me.compute(halo.packing);
            me.send(neighbours[i].peer, i * size, size);
            co_await me.compute(0);
        }
        co_await me.compute(neighbours.size() * size / kHidden);
        while (!me.settled()) co_await me.step();
    }
    took = me.now() - start;
}

class Measurement {
  public:
    Measurement(const std::string& transport, uint32_t ranks)
        : costs_(costs_of(transport)), machine_(verbs_below(costs_)), neighbours_(ranks) {
        for (uint32_t rank = 0; rank < ranks; ++rank) ranks_.emplace_back(machine_, rank, costs_);
        const std::vector<uint32_t> edges = edges_of(ranks, 2);
        for (uint32_t rank = 0; rank < ranks; ++rank) {
            for (const uint32_t peer : neighbours(rank, edges)) {
                std::vector<Neighbour>& mine = neighbours_[rank];
                const auto is_known = [peer](const Neighbour& each) { return each.rank == peer; };
                const auto known = std::ranges::find_if(mine, is_known);
                const size_t number =
                    known != mine.end() ? known->peer : ranks_[rank].connect(ranks_[peer]);
                mine.push_back({peer, number});
            }
        }
        end_ = machine_.now();
    }

    std::vector<Value> run() {
        std::vector<Value> values;
        if (ranks_.size() == 2) {
            for (const uint32_t size : kRateSizes) {
                (void)windows(size, kWindowsBefore);
                values.push_back({"message rate", static_cast<double>(size), "M/s",
                                  kWindows * kWindow / windows(size, kWindows) * 1000});
            }
            return values;
        }
        for (const bool packed : {false, true}) {
            for (const uint64_t size : kHaloSizes) {
                const Halo halo{size, packed ? machine_.copy_time(size) : 0};
                (void)halos(halo, kHalosBefore);
                values.push_back({packed ? "packed halo with work" : "halo with work",
                                  static_cast<double>(size), "us",
                                  halos(halo, kHalos) / kHalos / 1000});
            }
        }
        return values;
    }

  private:
    double windows(uint64_t size, uint32_t count) {
        uint64_t took = 0;
        std::vector<Program> programs;
        programs.push_back(send_windows(ranks_[0], size, count, took));
        programs.push_back(answer_windows(ranks_[1], size, count));
        run_all(programs);
        return static_cast<double>(took);
    }
    double halos(const Halo& halo, uint32_t times) {
        std::vector<uint64_t> took(ranks_.size());
        std::vector<Program> programs;
        for (size_t rank = 0; rank < ranks_.size(); ++rank)
            programs.push_back(
                exchange_halos(ranks_[rank], neighbours_[rank], halo, times, took[rank]));
        run_all(programs);
        return static_cast<double>(*std::ranges::max_element(took));
    }
    void run_all(std::vector<Program>& programs) {
        run_programs(machine_, end_, programs, {},
                     [this](uint32_t rank) -> TaggedRank& { return ranks_[rank]; });
    }

    const TransportCosts& costs_;
    Machine machine_;
    std::deque<TaggedRank> ranks_;
    std::vector<std::vector<Neighbour>> neighbours_;  // of each rank
    uint64_t end_ = 0;                                // of what has run
};

}  // namespace
}  // namespace tagged

std::vector<Value> measure_tagged(const std::string& transport, uint32_t ranks) {
    return tagged::Measurement(transport, ranks).run();
}

}  // namespace bench::sim
