// SPDX-License-Identifier: BSD-3-Clause
// Memory of direct messages: registered for them, and deregistered during them.
#include "direct.h"
#include "traffic.h"

#include <poll.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>

namespace uct_test {
namespace {

// Send buffers and words for grants are counted; the words take 32 KiB.
TEST_F(DirectTest, RegisteredMemoryIsCounted) {
    const auto registered = [](const char* tuples, uint64_t& sent) {
        TagPair pair(direct({{"TM_TUPLES", tuples}, {"tm_depth", "64"}}));
        warm(pair);
        for (uint64_t i = 0; i < 4; ++i) {
            Receive receive(pair.b, 3000);
            EXPECT_STATUS(UCS_OK, receive.post(kTag));
            linger(pair.all, milliseconds(5));
            pair.send(kTag, pattern(i, 3000));
            EXPECT_TRUE(pair.until([&] { return receive.done(); }));
        }
        pair.ep.reset();
        linger(pair.all, milliseconds(5));
        const Counters counters = pair.a.entity.close_and_count();
        sent = counters["direct_sent"];
        return counters["registered_bytes"];
    };
    uint64_t sent = 0;
    const uint64_t without = registered("0", sent);
    EXPECT_EQ(sent, 0u);
    const uint64_t with = registered("64", sent);
    EXPECT_GT(sent, 0u);
    EXPECT_GE(with, without + 32768 + 32 * uint64_t{3000});
}

// Deregistering the memory of a granted receive is an error of the user's: the device must not
// write to the memory any more. The connection of the message's sender fails, and no other.
TEST_F(DirectTest, MemoryOfAGrantedReceiveIsDeregistered) {
    bool invalidate = false;
    // If the message arrives in spite of that, the receive was not granted: tries again.
    for (int i = 0; i < 50; ++i) {
        TagPair pair(direct());
        warm(pair);
        TagEntity other(direct());
        Endpoint other_ep = other.entity.connect(pair.b.entity);
        const Group all{&pair.a.entity, &pair.b.entity, &other.entity};
        Receive receive(pair.b, 3000), later(pair.b, 3000);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        ASSERT_STATUS(UCS_OK, later.post(kTag));
        linger(pair.all, milliseconds(5));
        Completion completion;
        if (invalidate)
            receive.invalidate(completion);
        else
            receive.undeclare();
        (void)tag_bcopy(pair.ep, kTag, pattern(1, 3000));
        linger({&pair.a.entity}, milliseconds(2));
        EXPECT_TRUE(receive.clean()) << "written to";
        ASSERT_TRUE(eventually(
            all, [&] { return pair.a.entity.failures(pair.ep) != 0 || receive.done(); }));
        if (receive.done()) continue;
        EXPECT_TRUE(receive.clean() && later.clean());
        EXPECT_FALSE(later.done());
        // The receive can still be canceled as soon as its owner knows of the failure, too; and the
        // next posted receive gets the next message, from any peer.
        ASSERT_TRUE(
            eventually(all, [&] { return receive.done() || receive.cancel(true) == UCS_OK; }));
        ASSERT_TRUE(accepted(all, [&] { return tag_bcopy(other_ep, kTag, pattern(2, 2000)); }));
        ASSERT_TRUE(eventually(all, [&] { return later.done(); }));
        EXPECT_TRUE(same(later.bytes(), pattern(2, 2000)));
        EXPECT_EQ(other.entity.failures(other_ep), 0u);
        pair.ep = pair.a.entity.connect(pair.b.entity);
        warm(pair);
        if (std::exchange(invalidate, true)) return;
    }
    FAIL() << "never granted";
}

// The same while the interface's own thread grants receives and takes messages.
TEST_F(DirectTest, MemoryOfAGrantedReceiveIsDeregisteredByAnotherThread) {
    const uint64_t seed = any_seed();
    std::mt19937_64 random(seed);
    unsigned rounds = 0, cut = 0;
    const auto end = Clock::now() + deadline();
    while (Clock::now() < end && (rounds < 10 || cut < 2)) {
        ++rounds;
        TagPair pair(direct());
        warm(pair);
        Receive receive(pair.b, 3000), other(pair.b, 3000);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        // Turns of this thread count time, because a sleep takes as long as the machine likes. In
        // every other round the message is sent only when the declaration has ended.
        std::atomic<bool> ready{false}, over{false};
        std::atomic<unsigned> turn{0};
        std::vector<std::byte> before;
        const unsigned end_of_declaration = 1U << random() % 11;
        const unsigned message = 1U << random() % 11;
        const bool message_last = rounds % 2 == 0;
        std::thread thread([&] {
            ready = true;
            while (turn < end_of_declaration) std::this_thread::yield();
            receive.undeclare();
            const Bytes memory = receive.memory(3000);
            before.assign(memory.begin(), memory.end());
            over = true;
        });
        while (!ready) std::this_thread::yield();
        ASSERT_STATUS(UCS_OK, other.post(kTag));
        for (bool sent = false; !over || !sent; ++turn) {
            if (!sent && (message_last ? over.load() : turn >= message)) {
                (void)tag_bcopy(pair.ep, kTag, pattern(message, 3000));
                sent = true;
            }
            progress(pair.all);
        }
        thread.join();
        linger(pair.all, milliseconds(20));
        if (!receive.done() || receive.in_place) {
            EXPECT_TRUE(same(receive.memory(3000), before));
        }
        for (Receive* each : {&receive, &other})
            ASSERT_TRUE(pair.until([&] { return each->done() || each->cancel(true) == UCS_OK; }));
        cut += pair.close_and_count()["direct_stopped"] != 0;
    }
    EXPECT_GE(cut, 1u);
}

// The owner may be asleep: the end of the declaration wakes it.
TEST_F(DirectTest, MemoryOfAGrantedReceiveIsDeregisteredWhileItsOwnerSleeps) {
    // If nothing wakes the owner, the receive was not granted: tries again.
    for (int i = 0; i < 50; ++i) {
        TagPair pair(direct());
        warm(pair);
        Receive receive(pair.b, 3000);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        int fd = -1;
        ASSERT_STATUS(UCS_OK, uct_iface_event_fd_get(pair.b.entity.iface(), &fd));
        const auto wakes = [fd](int limit) {
            pollfd it{fd, POLLIN, 0};
            return ::poll(&it, 1, limit) == 1;
        };
        // Waits until no other event wakes the interface.
        const auto arm = [&] { return uct_iface_event_arm(pair.b.entity.iface(), UCT_EVENT_RECV); };
        const auto asleep = [&] {
            linger(pair.all, milliseconds(5));
            return arm() == UCS_OK && !wakes(20);
        };
        ASSERT_TRUE(pair.until(asleep));
        std::thread([&] { receive.undeclare(); }).join();
        if (!wakes(200)) continue;
        EXPECT_STATUS(UCS_ERR_BUSY, arm());
        // The interface can sleep again, and the peer's messages still arrive.
        EXPECT_TRUE(eventually(pair.all, asleep));
        ASSERT_STATUS(UCS_OK, receive.cancel(true));
        Receive later(pair.b, 3000);
        ASSERT_STATUS(UCS_OK, later.post(kTag));
        bool sent = false;
        ASSERT_TRUE(pair.until([&] {
            // The sender may learn only now that its connection has failed.
            if (pair.a.entity.failures(pair.ep) != 0) {
                pair.ep = pair.a.entity.connect(pair.b.entity);
                sent = false;
            }
            sent = sent || tag_bcopy(pair.ep, kTag, pattern(1, 3000)) == UCS_OK;
            return later.done();
        }));
        EXPECT_TRUE(receive.clean());
        EXPECT_EQ(pair.close_and_count()["direct_stopped"], 1u);
        return;
    }
    FAIL() << "never granted";
}

// No error: the message came another way, and the receive's entry in the XRC queue is void.
TEST_F(DirectTest, MemoryIsDeregisteredAsSoonAsItsReceiveIsOver) {
    TagPair pair(direct());
    warm(pair);
    for (uint64_t i = 1; i <= 20; ++i) {
        Receive receive(pair.b, 100), second(pair.b, 100);
        receive.then = [&] { receive.undeclare(); };
        second.then = [&] { second.undeclare(); };
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        ASSERT_STATUS(UCS_OK, second.post(kTag));
        linger(pair.all, milliseconds(2));
        pair.send(kTag, pattern(i, 99), i);
        pair.send(kTag, pattern(i, 98), i % 2);
        ASSERT_TRUE(pair.until([&] { return receive.done() && second.done(); }));
        EXPECT_STATUS(UCS_OK, receive.status);
        EXPECT_STATUS(UCS_OK, second.status);
    }
    linger(pair.all, milliseconds(20));
    EXPECT_EQ(pair.a.entity.failures().size() + pair.b.entity.failures().size(), 0u);
    EXPECT_GT(pair.close_and_count()["direct_grants_void"], 0u);
}

}  // namespace
}  // namespace uct_test
