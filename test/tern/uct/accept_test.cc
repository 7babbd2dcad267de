// SPDX-License-Identifier: BSD-3-Clause
// A target that makes no progress: UCX's asynchronous thread accepts connections for it.
#include <memory>
#include <vector>

#include "traffic.h"
#include "transfer.h"

namespace uct_test {
namespace {

constexpr std::size_t kSize = 4096;

class AcceptTest : public TernTest {
  protected:
    void SetUp() override {
        TernTest::SetUp();
        if ((a_.attr().cap.atomic64.fop_flags & UCS_BIT(UCT_ATOMIC_OP_CSWAP)) == 0)
            GTEST_SKIP() << "memory like this is open on devices with atomics";
    }
    // Connects and writes a word to the target's memory.
    void write(Entity& from, const Endpoint& ep, const Group& who, uint64_t value) {
        const RemoteKey key(from.host(), memory_.remote());
        ASSERT_TRUE(accepted(who, [&] {
            return put_short(ep, {reinterpret_cast<const std::byte*>(&value), 8},
                             memory_.remote().address, key);
        }));
        ASSERT_TRUE(flush_wait(who, ep));
        EXPECT_EQ(word(0), value);
    }
    uint64_t& word(std::size_t index) { return reinterpret_cast<uint64_t*>(memory_.data())[index]; }

    Entity a_, target_;
    const Group alone_{&a_}, both_{&a_, &target_};
    // Open memory: accesses need no help from its owner.
    Declared memory_{target_.host(), kSize, UCT_MD_MEM_ACCESS_ALL};
};

TEST_F(AcceptTest, OneSidedOperationsNeedNoProgressOfTheTarget) {
    const Endpoint ep = a_.connect(target_);
    const RemoteKey key(a_.host(), memory_.remote());
    const uint64_t at = memory_.remote().address;
    Declared local(a_.host(), kSize);
    // The first operation connects.
    uint64_t before = 5;
    Completion fetched, got;
    word(3) = 40;
    ASSERT_TRUE(accepted(alone_, [&] {
        return uct_ep_atomic64_fetch(ep.get(), UCT_ATOMIC_OP_ADD, 2, &before, at + 24, key.get(),
                                     &fetched);
    }));
    ASSERT_TRUE(accepted(alone_, [&] {
        return uct_ep_atomic64_post(ep.get(), UCT_ATOMIC_OP_ADD, 3, at + 24, key.get());
    }));
    ASSERT_TRUE(flush_wait(alone_, ep));
    EXPECT_EQ(fetched.calls, 1);
    EXPECT_EQ(before, 40u);
    EXPECT_EQ(word(3), 45u);
    ASSERT_TRUE(accepted(alone_, [&] { return put_bcopy(ep, pattern(4, 1000), at + 1000, key); }));
    ASSERT_TRUE(flush_wait(alone_, ep));
    EXPECT_TRUE(same(memory_.part(1000, 1000), pattern(4, 1000)));
    const uct_iov_t iov = local.iov(0, 1000);
    ASSERT_TRUE(accepted(alone_, [&] { return get_zcopy(ep, {&iov, 1}, at + 1000, key, &got); }));
    ASSERT_TRUE(eventually(alone_, [&] { return got.calls == 1; }));
    EXPECT_TRUE(same(local.part(0, 1000), pattern(4, 1000)));
    EXPECT_TRUE(a_.failures().empty());
}

// The messages use the same connection, and none is lost.
TEST_F(AcceptTest, MessagesGoOnWhenTheTargetDoes) {
    const uint64_t queue_pairs = objects("queue_pairs");
    const Endpoint ep = a_.connect(target_);
    ASSERT_NO_FATAL_FAILURE(write(a_, ep, alone_, 7));
    std::size_t received = 0, sent = 0;
    target_.handle(9, [&](Bytes message) {
        EXPECT_TRUE(same(message, pattern(received, 100))) << received;
        ++received;
    });
    for (; sent < 8; ++sent) {  // as many as a receiver allows that does not poll
        ASSERT_TRUE(accepted(alone_, [&] { return am_bcopy(ep, 9, pattern(sent, 100)); }));
    }
    ASSERT_TRUE(flush_wait(alone_, ep));
    EXPECT_EQ(received, 0u);
    Stream stream;
    stream.count = 500;
    Stream other = stream;
    other.id = 2;
    Flow there(a_, target_, stream), back(target_, a_, other);
    ASSERT_TRUE(run({&there, &back}));
    EXPECT_EQ(received, sent);
    EXPECT_EQ(objects("queue_pairs"), queue_pairs + 2) << "one connection";
}

TEST_F(AcceptTest, TargetConnectsToo) {
    for (int round = 0; round < 20; ++round) {
        Entity c, d;
        const uint64_t queue_pairs = objects("queue_pairs");
        Stream stream;
        stream.seed = static_cast<uint64_t>(round);
        stream.count = 20;
        Stream other = stream;
        other.id = 2;
        Flow there(c, d, stream), back(d, c, other);
        there.sender.step();
        // By now, or soon, `d` has accepted the connection.
        std::this_thread::sleep_for(std::chrono::microseconds(100 * (round % 5)));
        for (int i = 0; i < round; ++i) c.progress();
        back.sender.step();
        ASSERT_TRUE(run({&there, &back})) << round;
        EXPECT_EQ(objects("queue_pairs"), queue_pairs + 2) << round;
    }
}

TEST_F(AcceptTest, PeersThatAreGoneBeforeItHears) {
    std::size_t received = 0;
    target_.handle(9, [&](Bytes) { ++received; });
    const uint64_t queue_pairs = objects("queue_pairs");
    for (uint64_t i = 1; i <= 10; ++i) {
        Entity peer;
        const Group peer_alone{&peer};
        const Endpoint ep = peer.connect(target_);
        ASSERT_NO_FATAL_FAILURE(write(peer, ep, peer_alone, i));
        ASSERT_TRUE(accepted(peer_alone, [&] { return am_bcopy(ep, 9, pattern(0, 8)); }));
        ASSERT_TRUE(flush_wait(peer_alone, ep));
    }
    EXPECT_TRUE(eventually({&target_}, [&] { return received == 10; })) << received;
    EXPECT_TRUE(eventually({&target_}, [&] { return objects("queue_pairs") == queue_pairs; }));
    EXPECT_TRUE(target_.failures().empty());
}

// The target never makes progress, but tells its peers when it is closed.
TEST_F(AcceptTest, TargetIsClosedWithoutProgress) {
    const uint64_t queue_pairs = objects("queue_pairs");
    auto closing = std::make_unique<Entity>();
    const Endpoint ep = a_.connect(*closing);
    ASSERT_TRUE(accepted(alone_, [&] { return am_bcopy(ep, 9, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait(alone_, ep));
    closing->close();
    EXPECT_TRUE(eventually(alone_, [&] { return objects("queue_pairs") == queue_pairs; }));
    EXPECT_TRUE(a_.failures().empty()) << "nothing was under way";
}

}  // namespace
}  // namespace uct_test
