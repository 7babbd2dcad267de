// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/seed.h"
#include "node.h"

namespace tern::test {

// Nodes that send numbered messages to each other. An endpoint attaches when it is used.
class World {
  public:
    World(size_t nodes, EngineSettings settings) : ways_(nodes, std::vector<Way>(nodes)) {
        // A node answers when the test polls it: on a slow machine, that is late.
        HandshakeTimes& times = settings.handshake;
        times.connect_limit = times.disconnect_limit = times.probe_limit = 300'000'000'000;
        for (size_t i = 0; i < nodes; ++i) nodes_.push_back(std::make_unique<Node>(settings));
    }

    size_t size() const { return nodes_.size(); }
    Node& node(size_t at) { return *nodes_[at]; }
    Channel* channel(size_t from, size_t to) { return ways_[from][to].channel; }

    // Sends a message if there is room. False: there is none.
    bool send(size_t from, size_t to) {
        Way& way = ways_[from][to];
        if (!attach(from, to)) return false;
        const Status status =
            node(from).send_number(*way.channel, static_cast<uint32_t>(from), way.sent);
        if (status == Status::kOk) {
            ++way.sent;
            ++sent_;
        }
        EXPECT_TRUE(status == Status::kOk || status == Status::kNoResource);
        return status == Status::kOk;
    }
    void flush(size_t from, size_t to) {
        if (channel(from, to) == nullptr) return;
        const Status status = node(from).engine->flushing()->flush(*channel(from, to), {});
        EXPECT_TRUE(status == Status::kOk || status == Status::kInProgress ||
                    status == Status::kNoResource);
    }
    void poll(size_t at) {
        Node& here = node(at);
        here.poll();
        for (const auto& [user, status] : here.closures) {
            static_cast<Way*>(user)->channel = nullptr;
            EXPECT_EQ(status, Status::kOk) << here.reason;
        }
        here.closures.clear();
        for (const Node::Message& message : here.messages) {
            EXPECT_EQ(message.number(), ways_[message.id][at].received++)
                << message.id << " to " << at;
        }
        here.messages.clear();
    }
    void poll_all() {
        for (size_t i = 0; i < size(); ++i) poll(i);
    }
    bool all_received() const {
        for (const auto& row : ways_)
            for (const Way& way : row)
                if (way.received != way.sent) return false;
        return true;
    }
    uint64_t ended() const {
        uint64_t sum = 0;
        for (const auto& each : nodes_) sum += each->engine->usage().connections_ended;
        return sum;
    }
    uint64_t sent() const { return sent_; }
    uint64_t received(size_t from, size_t at) const { return ways_[from][at].received; }
    void leave(size_t from, size_t to) {
        Way& way = ways_[from][to];
        node(from).engine->leave(way.channel, &way);
        way.channel = nullptr;
    }

  private:
    struct Way {
        Channel* channel = nullptr;
        uint64_t sent = 0, received = 0;
    };

    bool attach(size_t from, size_t to) {
        Way& way = ways_[from][to];
        if (way.channel != nullptr) return true;
        std::string why;
        way.channel = node(from).engine->attach(node(to).engine->address(), &way, why);
        EXPECT_NE(way.channel, nullptr) << why;
        return way.channel != nullptr;
    }

    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::vector<Way>> ways_;
    uint64_t sent_ = 0;
};

// What random traffic in a World is like: numbers are one more than the most.
struct RandomTraffic {
    size_t friends;   // of a node, to which it sends for a while
    size_t computes;  // calls of a step, in which a node does not poll
    size_t burst;     // messages
};

// Each node sends to a few others for a while, then to others, until `done`. Some nodes do not poll
// for a while. Everything must arrive, in order, and no connection be lost.
template <class Done>
void run_random_traffic(World& world, const RandomTraffic& traffic, Done&& done) {
    std::mt19937 random(any_seed());
    const size_t nodes = world.size();
    const auto pick = [&](size_t below) { return random() % below; };
    std::vector<std::vector<size_t>> friends(nodes, std::vector<size_t>(traffic.friends));
    std::vector<size_t> computes(nodes);
    const auto choose = [&](size_t from) {
        for (size_t& each : friends[from]) each = (from + 1 + pick(nodes - 1)) % nodes;
    };
    for (size_t i = 0; i < nodes; ++i) choose(i);
    const auto step = [&] {
        const size_t at = pick(nodes);
        if (computes[at] != 0) {
            --computes[at];
            return;
        }
        if (pick(500) == 0) choose(at);
        if (pick(2000) == 0) computes[at] = pick(traffic.computes);
        const size_t to = friends[at][pick(traffic.friends)];
        for (size_t i = pick(traffic.burst); i > 0; --i) (void)world.send(at, to);
        if (pick(50) == 0) world.flush(at, to);
        for (size_t i = pick(3); i > 0; --i) world.poll(at);
    };
    EXPECT_TRUE(until(step, [&] { return testing::Test::HasFailure() || done(); }));
    EXPECT_TRUE(until([&] { world.poll_all(); }, [&] { return world.all_received(); }));
    for (size_t i = 0; i < nodes; ++i)
        EXPECT_TRUE(world.node(i).losses.empty()) << world.node(i).reason;
}

}  // namespace tern::test
