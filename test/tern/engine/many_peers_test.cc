// SPDX-License-Identifier: BSD-3-Clause

// What calls of progress cost with many peers: those that find nothing, also while a peer connects,
// and those that end all connections.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "counted_calls.h"
#include "node.h"

namespace tern::test {
namespace {

// A node, and peers that have connected to it and are silent.
class Hub {
  public:
    Node& node() { return node_; }

    void connect(size_t peers) {
        while (peers_.size() < peers) {
            peers_.push_back(std::make_unique<Node>(small_settings()));
            Node& peer = *peers_.back();
            std::string why;
            Channel* const channel = peer.engine->attach(node_.engine->address(), this, why);
            ASSERT_NE(channel, nullptr) << why;
            channels_.push_back(channel);
            ASSERT_TRUE(peer.send(*channel, 1, "first", node_));
            ASSERT_TRUE(until([&] { poll(peer); }, [&] { return !node_.messages.empty(); }));
            node_.messages.clear();
        }
        for (const auto& peer : peers_)
            for (int i = 0; i < 100; ++i) poll(*peer);
    }

    // All peers leave. `poll` polls the node.
    template <class Poll>
    void end(Poll&& poll) {
        for (size_t i = 0; i < peers_.size(); ++i) peers_[i]->engine->leave(channels_[i], this);
        EXPECT_TRUE(until(
            [&] {
                for (const auto& peer : peers_) peer->poll();
                poll();
            },
            [&] { return node_.engine->connections() == 0; }));
        peers_.clear();
        channels_.clear();
    }

  private:
    void poll(Node& peer) {
        peer.poll();
        node_.poll();
    }

    Node node_{small_settings()};
    std::vector<std::unique_ptr<Node>> peers_;
    std::vector<Channel*> channels_;
};

TEST(ManyPeersTest, AnEmptyPollIsNotDearerWhileAPeerConnects) {
    constexpr int kPolls = 1000;
    Hub hub;
    hub.connect(1);
    Node& node = hub.node();
    const QueueLooks looks(port().context);
    const auto count = [&] {
        const uint64_t before = QueueLooks::count();
        for (int i = 0; i < kPolls; ++i) node.poll();
        return QueueLooks::count() - before;
    };
    const uint64_t usual = count();
    // It does not answer.
    Node silent(small_settings());
    std::string why;
    ASSERT_NE(node.engine->attach(silent.engine->address(), &silent, why), nullptr) << why;
    EXPECT_LE(count(), usual * 3 / 2);
}

#ifdef TERN_COUNTS_INSTRUCTIONS
// TERN_MANY_PEERS=N: with so many besides.
TEST(ManyPeersTest, AnEmptyPollTakesAsManyInstructionsAsWithFew) {
    constexpr int kPolls = 128;  // two of them look for packets
    Hub hub;
    const auto count_with = [&](size_t peers) {
        hub.connect(peers);
        const uint64_t count = Instructions::of([&] {
            for (int i = 0; i < kPolls; ++i) hub.node().poll();
        });
        RecordProperty("with_" + std::to_string(peers), std::to_string(count / kPolls));
        return count;
    };
    const uint64_t of_16 = count_with(16);
    ASSERT_GT(of_16, uint64_t{kPolls});
    std::vector<size_t> more{64, 128};
    if (const char* many = getenv("TERN_MANY_PEERS"); many != nullptr)
        more.push_back(static_cast<size_t>(atoi(many)));
    for (const size_t peers : more) EXPECT_LE(count_with(peers), of_16 * 11 / 10) << peers;
}

TEST(ManyPeersTest, TheirEndTakesTimeInProportion) {
    if (getenv("TERN_MANY_PEERS") == nullptr) GTEST_SKIP() << "takes long: set TERN_MANY_PEERS";
    const auto of_each = [](size_t peers) {
        Hub hub;
        hub.connect(peers);
        uint64_t count = 0;
        hub.end([&] { count += Instructions::of([&] { hub.node().poll(); }); });
        return count / peers;
    };
    const uint64_t with_8 = of_each(8);
    EXPECT_LE(of_each(48), with_8 * 3 / 2);
}
#endif

}  // namespace
}  // namespace tern::test
