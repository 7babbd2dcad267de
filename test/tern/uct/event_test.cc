// SPDX-License-Identifier: BSD-3-Clause
// Sleeping until an event occurs.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "../../softhca/device/fabric.h"
#include "sleeper.h"

namespace uct_test {
namespace {

namespace softhca = conformance::softhca;

class EventTest : public testing::Test {
  protected:
    void SetUp() override {
        Entity entity;
        if (!(entity.attr().cap.event_flags & UCT_IFACE_FLAG_EVENT_FD)) GTEST_SKIP() << "no events";
    }
};
class TernEventTest : public TernTest {
  protected:
    void TearDown() override {
        if (!IsSkipped()) end_faults();
    }
};

TEST_F(EventTest, DescriptorIsOneAndStays) {
    Entity entity;
    const int fd = event_fd(entity);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(event_fd(entity), fd);
    EXPECT_FALSE(wakes(fd, milliseconds(0)));
}

TEST_F(EventTest, NothingHappens) {
    Entity entity;
    const int fd = event_fd(entity);
    ASSERT_TRUE(eventually({&entity},
                           [&] { return uct_iface_event_arm(entity.iface(), kBoth) == UCS_OK; }));
    EXPECT_FALSE(wakes(fd, milliseconds(50)));
}

TEST_F(EventTest, BusyUntilWhatCameIsHandled) {
    Entity a, b;
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    event_fd(b);
    const Endpoint ep = a.connect(b);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_bcopy(ep, 0, pattern(0, 8)); }));
    ASSERT_TRUE(eventually({&a, &b}, [&] {
        return received == 1 && uct_iface_event_arm(b.iface(), UCT_EVENT_RECV) == UCS_OK;
    }));
    for (std::size_t i = 1; i < 50; ++i) {
        // A message comes before the receiver arms: whether arming succeeds or not, the receiver
        // must not miss it.
        ASSERT_TRUE(accepted({&a}, [&] { return am_bcopy(ep, 0, pattern(0, 8)); }));
        linger({&a}, milliseconds(1));
        const ucs_status_t status = uct_iface_event_arm(b.iface(), UCT_EVENT_RECV);
        if (status == UCS_OK) {
            EXPECT_TRUE(wakes(event_fd(b), deadline()));
        } else {
            EXPECT_STATUS(UCS_ERR_BUSY, status);
        }
        ASSERT_TRUE(eventually({&a, &b}, [&] {
            return received == i + 1 && uct_iface_event_arm(b.iface(), UCT_EVENT_RECV) == UCS_OK;
        })) << i;
        EXPECT_FALSE(wakes(event_fd(b), milliseconds(0)));
    }
}

TEST_F(EventTest, MessageWakes) {
    for (const int before : {0, 3, 500}) {  // unconnected, cold and hot
        Entity b;
        const int fd = event_fd(b);
        std::atomic<int> received = 0, wanted = before;
        b.handle(0, [&](Bytes) { ++received; });
        const Address address = b.address();
        Background sender([&](Entity& a, const std::atomic<bool>& stop) {
            const Endpoint ep = a.connect(address);
            int sent = 0;
            while (!stop) {
                if (sent < wanted && am_bcopy(ep, 0, pattern(0, 50)) == UCS_OK) ++sent;
                a.progress();
                if (sent == wanted) sched_yield();
            }
        });
        ASSERT_TRUE(eventually({&b}, [&] { return received == before; }));
        for (int i = 1; i <= 20; ++i) {
            // The next message is sent when the receiver is probably asleep.
            std::thread later([&] {
                std::this_thread::sleep_for(milliseconds(2));
                ++wanted;
            });
            EXPECT_TRUE(sleep_until(b, fd, [&] { return received == before + i; })) << i;
            later.join();
        }
        linger({&b}, milliseconds(5));
        sender.finish();
    }
}

TEST_F(EventTest, SendCompletionWakes) {
    Entity a;
    const int fd = event_fd(a);
    Background receiver([&](Entity& b, const std::atomic<bool>& stop) {
        b.handle(0, [](Bytes) {});
        while (!stop) b.progress();
    });
    const Endpoint ep = a.connect(receiver.address());
    Memory memory(a.host(), 8192);
    for (int i = 0; i < 200; ++i) {
        Completion completion;
        const uct_iov_t iov = memory.iov(0, 4000);
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted({&a}, [&] {
            return status = am_zcopy(ep, 0, {}, {&iov, 1}, &completion);
        }));
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(sleep_until(
                a, fd, [&] { return completion.calls == 1; }, UCT_EVENT_SEND_COMP))
                << i;
        }
        ASSERT_TRUE(accepted({&a}, [&] { return am_bcopy(ep, 0, pattern(0, 2000)); }));
        Completion flush;
        ASSERT_TRUE(accepted(
            {&a}, [&] { return status = uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush); }));
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(sleep_until(
                a, fd, [&] { return flush.calls == 1; }, UCT_EVENT_SEND_COMP))
                << i;
        }
    }
}

// Two sleepers make a connection: neither polls.
TEST_F(EventTest, SleepersConnect) {
    for (int round = 0; round < 10; ++round) {
        Entity a;
        const int fd = event_fd(a);
        int received = 0;
        a.handle(1, [&](Bytes) { ++received; });
        const Address address = a.address();
        Background other([&](Entity& b, const std::atomic<bool>& stop) {
            const int other_fd = event_fd(b);
            int arrived = 0, answered = 0;
            b.handle(0, [&](Bytes) { ++arrived; });
            const Endpoint back = b.connect(address);
            while (!stop) {
                sleep_until(
                    b, other_fd,
                    [&] {
                        if (arrived > answered && am_bcopy(back, 1, pattern(0, 8)) == UCS_OK)
                            ++answered;
                        return stop.load();
                    },
                    kBoth, milliseconds(50));
            }
        });
        const Endpoint ep = a.connect(other.address());
        bool sent = false;
        EXPECT_TRUE(sleep_until(a, fd, [&] {
            if (!sent) sent = am_bcopy(ep, 0, pattern(0, 8)) == UCS_OK;
            return received > 0;
        })) << round;
    }
}

// Packets of the handshake are lost: the sleeper must wake up to repeat them.
TEST_F(TernEventTest, SleeperRepeatsLostPackets) {
    NEEDS_SOFTWARE_HCA();
    Entity a;
    const int fd = event_fd(a);
    Background receiver([&](Entity& b, const std::atomic<bool>& stop) {
        b.handle(0, [](Bytes) {});
        while (!stop) b.progress();
    });
    softhca::inject("drop-qp=any");
    const Endpoint ep = a.connect(receiver.address());
    EXPECT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
    Completion flush;
    EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush));
    linger({&a}, milliseconds(5));
    EXPECT_EQ(flush.calls, 0);
    softhca::inject("none");
    EXPECT_TRUE(sleep_until(a, fd, [&] { return flush.calls == 1; }));
    EXPECT_STATUS(UCS_OK, flush.status);
}

// A sleeper learns that a connection cannot be made.
TEST_F(TernEventTest, SleeperLearnsThatThereIsNobody) {
    Entity a(impatient());
    const int fd = event_fd(a);
    const Endpoint ep = a.connect(Entity().address());
    EXPECT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
    EXPECT_TRUE(sleep_until(a, fd, [&] { return !a.failures().empty(); }));
}

// A ping-pong between two that sleep at random moments, with the peer hot at times: no wake-up may
// be lost.
TEST_F(EventTest, ThousandSleeps) {
    const uint64_t seed = any_seed();
    constexpr uint64_t kRounds = 1000;
    Entity a;
    const int fd = event_fd(a);
    std::atomic<uint64_t> pings = 0, pongs = 0;
    a.handle(1, [&](Bytes) { ++pongs; });
    const Address address = a.address();
    Background other([&](Entity& b, const std::atomic<bool>& stop) {
        std::minstd_rand random(static_cast<unsigned>(seed) + 1);
        const int other_fd = event_fd(b);
        uint64_t answered = 0;
        b.handle(0, [&](Bytes) { ++pings; });
        const Endpoint back = b.connect(address);
        while (!stop) {
            const auto next = [&] { return stop || pings > answered; };
            if (random() % 3) {
                sleep_until(b, other_fd, next, kBoth, milliseconds(100));
            } else {
                b.progress();
            }
            if (random() % 4 == 0)
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
            while (pings > answered && am_bcopy(back, 1, pattern(0, random() % 300)) == UCS_OK)
                ++answered;
        }
    });
    std::minstd_rand random(static_cast<unsigned>(seed));
    const Endpoint ep = a.connect(other.address());
    uint64_t sent = 0;
    while (sent < kRounds) {
        // Bursts make the sender hot.
        const uint64_t burst =
            std::min<uint64_t>(kRounds - sent, random() % 8 ? 1 : 1 + random() % 60);
        for (uint64_t i = 0; i < burst; ++i) {
            ASSERT_TRUE(
                accepted({&a}, [&] { return am_bcopy(ep, 0, pattern(0, random() % 300)); }));
        }
        sent += burst;
        if (random() % 4 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        ASSERT_TRUE(sleep_until(a, fd, [&] { return pongs == sent; }))
            << "sent " << sent << ", pings " << pings << ", pongs " << pongs;
    }
}

// A sleeper's peer sends without a pause and never sleeps.
TEST_F(EventTest, SenderThatNeverSleeps) {
    Entity b;
    const int fd = event_fd(b);
    uint64_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    const Address address = b.address();
    Background sender([&](Entity& a, const std::atomic<bool>& stop) {
        const Endpoint ep = a.connect(address);
        while (!stop) {
            am_bcopy(ep, 0, pattern(0, 100));
            a.progress();
        }
    });
    // The receiver tries to sleep even if it has work.
    const auto end = Clock::now() + deadline();
    while (received < 20000 && Clock::now() < end) {
        for (int i = 0; i < 16; ++i) b.progress();
        const ucs_status_t status = uct_iface_event_arm(b.iface(), kBoth);
        if (status == UCS_OK) {
            ASSERT_TRUE(wakes(fd, deadline())) << received;
        } else {
            ASSERT_STATUS(UCS_ERR_BUSY, status);
        }
    }
    EXPECT_GE(received, 20000u);
}

}  // namespace
}  // namespace uct_test
