// SPDX-License-Identifier: BSD-3-Clause
// Sleeping does not depend on what peers do, and no wake-up is lost.
#include <cstdlib>
#include <deque>
#include <random>

#include "sleeper.h"
#include "transfer.h"

namespace uct_test {
namespace {

class SleepTest : public TernTest {
  protected:
    // Arms while no other interface progresses. False: too many tries failed.
    static bool arms(Entity& entity) {
        for (int tries = 0; tries < 1000; ++tries) {
            if (entity.progress() != 0) continue;
            const ucs_status_t status = uct_iface_event_arm(entity.iface(), kBoth);
            if (status == UCS_OK) return true;
            if (status != UCS_ERR_BUSY) check(status, "uct_iface_event_arm");
        }
        return false;
    }
};

// The sender computes from time to time. While no message comes, the receiver can arm, and is not
// woken.
TEST_F(SleepTest, HotPeerComputes) {
    for (const char* poll : {"auto", "memory", "cq"}) {
        SCOPED_TRACE(poll);
        const Settings settings{{"POLL", poll}};
        Entity a(settings), b(settings);
        std::size_t received = 0, sent = 0;
        b.handle(0, [&](Bytes) { ++received; });
        const int fd = event_fd(b);
        const Endpoint ep = a.connect(b);
        const auto send = [&](std::size_t count) {
            for (std::size_t i = 0; i < count; ++i, ++sent)
                ASSERT_TRUE(accepted({&a, &b}, [&] { return am_bcopy(ep, 0, pattern(0, 8)); }));
        };
        send(500);
        ASSERT_TRUE(eventually({&a, &b}, [&] { return received == sent; }));
        // Remaining packets of the handshake may wake the receiver.
        int early = 0;
        do {
            ASSERT_TRUE(arms(b));
        } while (wakes(fd, milliseconds(200)) && ++early < 5);
        EXPECT_LT(early, 5) << "nothing comes";
        for (int i = 0; i < 20; ++i) {
            ASSERT_TRUE(arms(b)) << i;
            EXPECT_FALSE(wakes(fd, milliseconds(1))) << i;
            ASSERT_NO_FATAL_FAILURE(send(1));
            EXPECT_TRUE(wakes(fd, deadline())) << i;
            ASSERT_TRUE(eventually({&b}, [&] { return received == sent; })) << i;
            if (i % 5 == 4) linger({&a, &b}, milliseconds(2));  // stays awake for a while
        }
    }
}

// The sender computes in the middle of a transfer.
TEST_F(SleepTest, SenderOfALongMessageComputes) {
    constexpr std::size_t kSize = 2 << 20;
    const Settings settings{{"RNDV_SCHEME", "superpipeline"}};
    for (int steps = 0; steps < 40; steps += 5) {
        SCOPED_TRACE(steps);
        Entity a(settings), b(settings);
        Declared near(b.host(), kSize), far(a.host(), kSize);
        fill(far.part(0, kSize), 5);
        const RemoteKey key(b.host(), far.remote());
        const Endpoint ep = b.connect(a);
        const int fd = event_fd(b);
        ASSERT_TRUE(accepted({&a, &b}, [&] { return am_bcopy(ep, 0, pattern(0, 8)); }));
        Completion completion;
        const uct_iov_t iov = near.iov(0, kSize);
        ASSERT_STATUS(UCS_INPROGRESS,
                      get_zcopy(ep, {&iov, 1}, far.remote().address, key, &completion));
        for (int i = 0; i < steps; ++i) {
            a.progress();
            b.progress();
        }
        int sleeps = 0;
        while (completion.calls == 0) {
            ASSERT_TRUE(arms(b)) << sleeps;
            if (completion.calls != 0) break;
            ASSERT_TRUE(eventually({&a}, [&] { return wakes(fd, milliseconds(0)); })) << sleeps;
            ++sleeps;
        }
        EXPECT_STATUS(UCS_OK, completion.status);
        EXPECT_TRUE(filled(near.part(0, kSize), 5));
    }
}

// Programs sleep if progress returns 0: every message that a handler was called for must count.
TEST_F(SleepTest, WhatIsHeardCounts) {
    Entity b;
    std::atomic<uint64_t> received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    const Address address = b.address();
    const uint64_t seed = any_seed();
    Background sender([&](Entity& a, const std::atomic<bool>& stop) {
        std::minstd_rand random(static_cast<unsigned>(seed));
        const Endpoint ep = a.connect(address);
        uint64_t sent = 0;
        while (!stop) {
            if (am_bcopy(ep, 0, pattern(0, 8)) == UCS_OK) ++sent;
            for (auto i = random() % 400; i != 0; --i) a.progress();
            while (sent > received && !stop) {
                a.progress();
                sched_yield();
            }
        }
    });
    auto end = Clock::now() + deadline();
    while (received < 1000) {
        const uint64_t before = received;
        const unsigned count = b.progress();
        ASSERT_TRUE(count != 0 || received == before) << received;
        if (received != before) end = Clock::now() + deadline();
        ASSERT_LT(Clock::now(), end) << "nothing comes behind " << received;
        if (count == 0 && before % 16 == 0) sched_yield();
    }
}

// Pending requests that could send must count too.
TEST_F(SleepTest, RequestsThatGoCount) {
    Entity a(Settings{{"TX_QUEUE_LEN", "32"}}), b;
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    const Endpoint ep = a.connect(b);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_bcopy(ep, 0, pattern(0, 8)); }));
    std::size_t sent = 1, called = 0;
    while (am_bcopy(ep, 0, pattern(0, 3000)) == UCS_OK) ++sent;
    std::deque<Pending> requests;
    for (int i = 0; i < 200; ++i) {
        Pending& request = requests.emplace_back([&] {
            const ssize_t status = am_bcopy(ep, 0, pattern(0, 3000));
            called += status == UCS_OK;
            return static_cast<ucs_status_t>(status);
        });
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &request, 0));
    }
    const auto end = Clock::now() + deadline();
    while (called < requests.size() && Clock::now() < end) {
        const std::size_t before = called;
        const unsigned count = a.progress();
        ASSERT_TRUE(count != 0 || called == before) << called;
        b.progress();
    }
    ASSERT_EQ(called, requests.size());
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == sent + called; }));
}

// A ping-pong between two that sleep whenever they may, and that rest, compute or stay awake at
// random, on idle and on loaded processors. TERN_TEST_SLEEPS sets the number of messages.
class ManySleepsTest : public SleepTest, public testing::WithParamInterface<bool> {};

TEST_P(ManySleepsTest, NoneIsLost) {
    const char* wanted = getenv("TERN_TEST_SLEEPS");
    const uint64_t rounds = wanted != nullptr ? strtoull(wanted, nullptr, 10) : 1000;
    const uint64_t seed = any_seed();
    const auto rest = [](std::minstd_rand& random, Entity& entity) {
        const unsigned what = static_cast<unsigned>(random() % 1024);
        if (what < 16) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
        } else if (what < 64) {
            for (unsigned i = what * 10; i != 0; --i)
                std::atomic_signal_fence(std::memory_order::seq_cst);
        } else if (what < 67) {
            for (int i = 0; i < 6000; ++i) entity.progress();
        }
    };
    std::atomic<bool> over = false;
    std::vector<std::thread> load;
    for (int i = 0; GetParam() && i < 2; ++i)
        load.emplace_back([&] {
            while (!over) {
            }
        });
    Entity a;
    const int fd = event_fd(a);
    uint64_t pongs = 0;
    a.handle(1, [&](Bytes) { ++pongs; });
    const Address address = a.address();
    std::atomic<uint64_t> slept = 0;
    Background other([&](Entity& b, const std::atomic<bool>& stop) {
        std::minstd_rand random(static_cast<unsigned>(seed) + 1);
        const int other_fd = event_fd(b);
        uint64_t pings = 0, answered = 0;
        b.handle(0, [&](Bytes) { ++pings; });
        const Endpoint back = b.connect(address);
        while (!stop) {
            // Being told to stop is no wake-up.
            const bool woken = sleep_until(b, other_fd, [&] { return pings > answered || stop; });
            EXPECT_TRUE(woken || stop) << "the ping behind " << pings << " is slept over";
            ++slept;
            rest(random, b);
            while (pings > answered && am_bcopy(back, 1, pattern(0, random() % 300)) == UCS_OK)
                ++answered;
        }
    });
    std::minstd_rand random(static_cast<unsigned>(seed));
    const Endpoint ep = a.connect(other.address());
    uint64_t sent = 0;
    while (sent < rounds) {
        const uint64_t burst =
            std::min<uint64_t>(rounds - sent, random() % 32 ? 1 : 1 + random() % 60);
        for (uint64_t i = 0; i < burst; ++i)
            ASSERT_TRUE(
                accepted({&a}, [&] { return am_bcopy(ep, 0, pattern(0, random() % 300)); }));
        sent += burst;
        rest(random, a);
        ASSERT_TRUE(sleep_until(a, fd, [&] { return pongs == sent; }))
            << "sent " << sent << ", pongs " << pongs;
    }
    EXPECT_GT(slept, sent / 64);
    // If it sleeps, a last message wakes it. It may have ended already.
    other.stop();
    (void)accepted({&a}, [&] { return am_bcopy(ep, 0, pattern(0, 1)); });
    other.finish();
    over = true;
    for (std::thread& thread : load) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Sleep, ManySleepsTest, testing::Bool(),
                         [](const auto& loaded) { return loaded.param ? "Loaded" : "Quiet"; });

}  // namespace
}  // namespace uct_test
