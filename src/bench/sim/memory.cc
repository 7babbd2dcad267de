// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/memory.h"

#include <cstdlib>
#include <memory>

#include "bench/sim/world.h"
#include "softhca/inspect/inspect.h"

namespace bench::sim {
namespace {

// Of the fabric's; the peers' interfaces share them.
constexpr uint32_t kMembers = 200;
constexpr uint32_t kLongMessage = 8192;

// One peer after the other: so many round trips with each and a flush, so many times.
struct Talk {
    uint32_t peers;
    uint32_t size;
    uint32_t rounds;
    uint32_t trips;
};

Program talk(Node& me, const Talk& talk) {
    for (uint32_t i = 0; i < talk.rounds * talk.peers; ++i) {
        const uint32_t peer = 1 + i % talk.peers;
        for (uint32_t trip = 0; trip < talk.trips; ++trip) {
            const uint64_t before = me.received_from(peer);
            while (!me.send(peer, talk.size)) co_await me.step();
            while (me.received_from(peer) == before) co_await me.step();
        }
        while (!me.flush()) co_await me.step();
    }
}

Program answer(Node& me, uint32_t size, uint64_t messages) {
    for (const uint64_t end = me.received() + messages; messages != 0; --messages) {
        while (me.received() == end - messages) co_await me.step();
        while (!me.send(0, size)) co_await me.step();
    }
}

// What the peers register does not count; a thousand of them must fit into the machine's memory.
void make_peers_small() {
    for (const char* transport : {"UCX_TERN", "UCX_RC_VERBS"}) {
        const std::string name = transport;
        ::setenv((name + "_RX_QUEUE_LEN").c_str(), "32", 1);
        ::setenv((name + "_TX_QUEUE_LEN").c_str(), "32", 1);
    }
    ::setenv("UCX_TERN_TX_BUFFERS", "16", 1);
}

class Footprints {
  public:
    Footprints() : fabric_(nullptr, softhca_inspect_close) {
        fabric_.reset(softhca_inspect_open(nullptr, error_, sizeof error_));
        if (fabric_ == nullptr) throw Failure(error_);
    }
    void add(Stage stage, std::vector<Value>& values) {
        softhca_inspect_usage usage = {};
        if (softhca_inspect_member(fabric_.get(), 0, &usage, error_, sizeof error_) != 0)
            throw Failure(error_);
        const double counts[kCounts] = {static_cast<double>(usage.registered_bytes),
                                        static_cast<double>(usage.queue_bytes),
                                        static_cast<double>(usage.queue_pairs)};
        for (int count = 0; count < kCounts; ++count)
            values.push_back({std::to_string(stage), 0, std::to_string(count), counts[count]});
    }

  private:
    char error_[256] = {};
    std::unique_ptr<softhca_inspect_fabric, void (*)(softhca_inspect_fabric*)> fabric_;
};

}  // namespace

std::vector<Value> count_memory(const std::string& transport, uint32_t ranks, uint32_t hot) {
    World world(transport, ranks,
                {.members = kMembers, .memory = 0, .opened_first = make_peers_small});
    for (uint32_t peer = 1; peer < ranks; ++peer) world.connect(0, peer);
    Footprints footprints;
    std::vector<Value> values;
    footprints.add(kIdle, values);
    const auto run = [&](Stage stage, const Talk& all) {
        std::vector<Program> programs;
        programs.push_back(talk(world.node(0), all));
        // The other peers do nothing, not even poll.
        for (uint32_t peer = 1; peer <= all.peers; ++peer)
            programs.push_back(
                answer(world.node(peer), all.size, uint64_t{all.rounds} * all.trips));
        world.run(std::move(programs));
        footprints.add(stage, values);
    };
    run(kTalked, {ranks - 1, 8, 1, 1});
    run(kHot, {hot, 8, 4, 20});
    run(kHotLong, {hot, std::min(kLongMessage, world.node(0).most()), 8, 20});
    return values;
}

}  // namespace bench::sim
