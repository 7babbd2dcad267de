// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/patterns.h"

#include <algorithm>
#include <cstdlib>

#include "bench/sim/world.h"

namespace bench::sim {
namespace {

// Of the fabric's; the peers' interfaces share them.
constexpr uint32_t kMembers = 200;
constexpr uint32_t kAtOnce = 64;  // peers
constexpr uint32_t kLongMessage = 8192;

// One peer after the other: so many round trips with each and a flush, so many times.
struct Talk {
    uint32_t first = 1;
    uint32_t peers = 0;
    uint32_t size;
    uint32_t rounds;
    uint32_t trips;
};

Program talk(Node& me, const Talk& talk) {
    for (uint32_t i = 0; i < talk.rounds * talk.peers; ++i) {
        const uint32_t peer = talk.first + i % talk.peers;
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

void add_footprint(Stage stage, std::vector<Value>& values) {
    const softhca_inspect_usage usage = usages(1).front();
    const uint64_t counts[kCounts] = {usage.registered_bytes, usage.queue_bytes, usage.queue_pairs};
    for (int count = 0; count < kCounts; ++count)
        values.push_back(
            {std::to_string(stage), 0, std::to_string(count), static_cast<double>(counts[count])});
}

}  // namespace

std::vector<Value> count_memory(const std::string& transport, uint32_t ranks, uint32_t hot) {
    World world(transport, ranks,
                {.members = {kMembers, true}, .memory = 0, .opened_first = make_peers_small});
    for (uint32_t peer = 1; peer < ranks; ++peer) world.connect(0, peer);
    std::vector<Value> values;
    add_footprint(kIdle, values);
    // Few at once: the others do not even poll.
    const auto run = [&](Stage stage, uint32_t peers, const Talk& with_each) {
        for (uint32_t first = 1; first <= peers; first += kAtOnce) {
            Talk talk_now = with_each;
            talk_now.first = first;
            talk_now.peers = std::min(kAtOnce, peers - first + 1);
            std::vector<Program> programs;
            programs.push_back(talk(world.node(0), talk_now));
            for (uint32_t i = 0; i < talk_now.peers; ++i)
                programs.push_back(answer(world.node(first + i), with_each.size,
                                          uint64_t{with_each.rounds} * with_each.trips));
            world.run(std::move(programs), first);
        }
        add_footprint(stage, values);
    };
    run(kTalked, ranks - 1, {.size = 8, .rounds = 1, .trips = 1});
    run(kHot, hot, {.size = 8, .rounds = 4, .trips = 20});
    run(kHotLong, hot,
        {.size = std::min(kLongMessage, world.node(0).most()), .rounds = 8, .trips = 20});
    return values;
}

}  // namespace bench::sim
