// SPDX-License-Identifier: BSD-3-Clause

// A thread accepts connections while the nodes themselves make and end some.

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "answerer.h"
#include "common/seed.h"

namespace tern::test {
namespace {

// As in an application that computes now and then, each node is polled only at times. Messages
// contain a number, by which the receiver checks for order and loss.
class World {
  public:
    static constexpr size_t kNodes = 3;

    explicit World(unsigned seed) : random_(seed) {
        EngineSettings settings = quick_settings();
        settings.segment_size = 1024;
        settings.send_queue = 32;
        settings.receive_queue = 64;
        for (auto& node : nodes_) node = std::make_unique<Node>(settings);
        std::vector<Node*> all;
        for (auto& node : nodes_) all.push_back(node.get());
        answerer_ = std::make_unique<Answerer>(all);
    }
    ~World() { answerer_.reset(); }

    size_t pick(size_t below) { return random_() % below; }

    void step() {
        const size_t from = pick(kNodes), to = (from + 1 + pick(kNodes - 1)) % kNodes;
        Way& way = ways_[from][to];
        switch (pick(8)) {
            case 0:
                if (way.channel == nullptr) open(from, to);
                break;
            case 1:
                if (way.channel != nullptr) {
                    nodes_[from]->engine->leave(way.channel, &way);
                    way.channel = nullptr;
                }
                break;
            case 2:
                if (pick(8) == 0) std::this_thread::sleep_for(std::chrono::microseconds(pick(300)));
                break;
            case 3:
            case 4:
                for (size_t i = pick(100); i > 0; --i) poll(from);
                break;
            default:
                for (size_t i = pick(6); i > 0 && way.channel != nullptr; --i) send(from, to);
        }
    }
    // Everything that was sent arrives, in order.
    void finish() {
        const auto all = [&] {
            for (size_t from = 0; from < kNodes; ++from)
                for (size_t to = 0; to < kNodes; ++to)
                    if (ways_[from][to].received != ways_[from][to].sent) return false;
            return true;
        };
        EXPECT_TRUE(until(
            [&] {
                for (size_t i = 0; i < kNodes; ++i) poll(i);
            },
            all));
        for (size_t from = 0; from < kNodes; ++from)
            for (size_t to = 0; to < kNodes; ++to)
                EXPECT_EQ(ways_[from][to].received, ways_[from][to].sent) << from << " to " << to;
        for (auto& node : nodes_) EXPECT_TRUE(node->losses.empty()) << node->reason;
    }
    uint64_t sent() const { return sent_; }
    uint64_t opened() const { return opened_; }
    bool good() const { return good_; }

  private:
    struct Way {
        Channel* channel = nullptr;
        uint64_t sent = 0, received = 0;
    };

    void open(size_t from, size_t to) {
        Way& way = ways_[from][to];
        std::string why;
        way.channel = nodes_[from]->engine->attach(nodes_[to]->engine->address(), &way, why);
        EXPECT_NE(way.channel, nullptr) << why;
        ++opened_;
    }
    void send(size_t from, size_t to) {
        Way& way = ways_[from][to];
        const Status status =
            nodes_[from]->send_number(*way.channel, static_cast<uint32_t>(from), way.sent);
        if (status == Status::kOk) {
            ++way.sent;
            ++sent_;
        } else if (status != Status::kNoResource) {
            ADD_FAILURE() << "status " << static_cast<int>(status);
            good_ = false;
        }
    }
    void poll(size_t at) {
        Node& node = *nodes_[at];
        node.poll();
        for (const auto& [user, status] : node.closures) {
            static_cast<Way*>(user)->channel = nullptr;
            if (status == Status::kOk) continue;
            ADD_FAILURE() << "closed with status " << static_cast<int>(status);
            good_ = false;
        }
        node.closures.clear();
        for (const Node::Message& message : node.messages) {
            const uint64_t number = message.number();
            if (number == ways_[message.id][at].received++) continue;
            ADD_FAILURE() << "message " << number << " from " << message.id << " to " << at;
            good_ = false;
        }
        node.messages.clear();
    }

    std::mt19937 random_;
    std::unique_ptr<Node> nodes_[kNodes];
    Way ways_[kNodes][kNodes];
    std::unique_ptr<Answerer> answerer_;
    uint64_t sent_ = 0, opened_ = 0;
    bool good_ = true;
};

TEST(AcceptStormTest, NothingIsLost) {
    const uint32_t seed = tern::test::any_seed();
    World world(seed);
    const auto begin = std::chrono::steady_clock::now();
    const auto past = [begin](std::chrono::seconds time) {
        return std::chrono::steady_clock::now() - begin > time;
    };
    while (world.good() && !past(world.sent() > 100 ? std::chrono::seconds(4) : patience()))
        world.step();
    world.finish();
    EXPECT_GT(world.sent(), 100u);
    std::cout << world.opened() << " connections asked for, " << world.sent() << " messages\n";
}

// Peers come, send and go, whether or not the target polls in time. Flushed messages arrive.
TEST(AcceptStormTest, PeersComeAndGo) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    EngineSettings settings = quick_settings();
    settings.segment_size = 1024;
    settings.send_queue = 32;
    settings.receive_queue = 64;
    Node target(settings);
    const Answerer answerer({&target});
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    size_t sent = 0, received = 0;
    const auto poll_target = [&] {
        target.poll();
        received += target.messages.size();
        target.messages.clear();
    };
    while (std::chrono::steady_clock::now() < end) {
        Node peer(settings);
        int user = 0;
        std::string why;
        Channel* channel = peer.engine->attach(target.engine->address(), &user, why);
        ASSERT_NE(channel, nullptr) << why;
        const size_t count = random() % 4;
        const bool target_polls = random() % 2 != 0;
        const auto poll = [&] {
            peer.poll();
            if (target_polls || random() % 500 == 0) poll_target();
        };
        for (size_t i = 0; i < count; ++i) {
            Status status = Status::kNoResource;
            ASSERT_TRUE(until(
                [&] {
                    uint32_t length = 0;
                    status = peer.engine->am_bcopy(
                        *channel, 1, [](void*) { return 8u; }, length);
                    poll();
                },
                [&] { return status == Status::kOk; }));
        }
        ASSERT_TRUE(until(
            poll, [&] { return peer.engine->flushing()->flush(*channel, {}) == Status::kOk; }));
        sent += count;
        for (size_t i = random() % 20; i > 0; --i) poll();
    }
    EXPECT_TRUE(
        until(poll_target, [&] { return received == sent && target.engine->connections() == 0; }))
        << received << " of " << sent << ", " << target.engine->connections();
    EXPECT_TRUE(target.losses.empty()) << target.reason;
}

}  // namespace
}  // namespace tern::test
