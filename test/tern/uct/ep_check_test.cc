// SPDX-License-Identifier: BSD-3-Clause
// uct_ep_check: whether a peer lives.
#include <thread>

#include "message.h"
#include "sleeper.h"
#include "transfer.h"

namespace uct_test {
namespace {

constexpr milliseconds kLimit{5000};

class EpCheckTest : public TernTest {
  protected:
    // Spawns a process whose interface takes some messages, and then makes no progress until it is
    // killed.
    static int spawn_peer(Team& team) {
        return team.spawn([](Link& link) {
            Entity self(impatient());
            std::size_t received = 0;
            self.handle(0, [&](Bytes) { ++received; });
            link.send(self.address());
            const auto messages = link.receive<std::size_t>();
            EXPECT_TRUE(eventually({&self}, [&] { return received >= messages; }));
            linger({&self}, milliseconds(200));
            link.send();
            link.receive();
        });
    }
    static ucs_status_t check_it(const Endpoint& ep) { return uct_ep_check(ep.get(), 0, nullptr); }
    // Checks once, as UCP's keepalive does.
    static void ask(Entity& self, const Endpoint& ep) {
        const ucs_status_t status = check_it(ep);
        EXPECT_TRUE(status == UCS_OK || status == UCS_INPROGRESS || status == UCS_ERR_NO_RESOURCE)
            << Status{status};
        linger({&self}, milliseconds(5));
    }
    // Checks with a completion, which must be called once. Returns its status.
    static ucs_status_t answer(Entity& self, const Endpoint& ep) {
        Completion completion;
        EXPECT_STATUS(UCS_INPROGRESS, uct_ep_check(ep.get(), 0, &completion));
        EXPECT_TRUE(eventually({&self}, [&] { return completion.calls == 1; }));
        linger({&self});
        EXPECT_EQ(completion.calls, 1);
        return completion.status;
    }
    // Does not wait long for a device, but for an answer to a connect.
    static Settings patient() { return impatient({{"CONNECT_TIMEOUT", "5m"}}); }
    static void receiver(std::size_t messages, std::size_t received_before);
    static void connected(std::size_t messages);
    static void dies_of_it(Entity& self, const Endpoint& ep) {
        ASSERT_TRUE(eventually(
            {&self},
            [&] {
                if (self.failures(ep) == 0) check_it(ep);
                return self.failures(ep) > 0;
            },
            kLimit));
        linger({&self});
        EXPECT_EQ(self.failures().size(), 1u);
        EXPECT_NE(check_it(ep), UCS_OK);
    }
};

// Checks a peer that was sent some messages, before and after it is killed.
void EpCheckTest::connected(std::size_t messages) {
    Team team;
    spawn_peer(team);
    Entity self(impatient());
    const Endpoint ep = self.connect(team[0].receive<Address>());
    team[0].send(messages);
    for (std::size_t i = 0; i < messages; ++i) {
        ASSERT_TRUE(accepted({&self}, [&] { return am_short(ep, 0, pattern(0, 8)); }));
    }
    ASSERT_TRUE(eventually(
        {&self}, [&] { return uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK; }));
    linger({&self}, milliseconds(250));
    team[0].receive();
    // The peer lives, but makes no progress.
    for (int i = 0; i < 60; ++i) ask(self, ep);
    EXPECT_TRUE(self.failures().empty());
    team.kill(0);
    dies_of_it(self, ep);
}

// Only the peer sends, until it is killed; this side has sent so many messages. What is lost with
// the connection is nobody's.
void EpCheckTest::receiver(std::size_t messages, std::size_t received_before) {
    Team team;
    const int victim = team.spawn([](Link& link) {
        Entity self(patient());
        std::size_t taken = 0;
        self.handle(0, [&](Bytes) { ++taken; });
        link.send(self.address());
        const auto expected = link.receive<std::size_t>();
        const Endpoint back = self.connect(link.receive<Address>());
        EXPECT_TRUE(eventually({&self}, [&] { return taken == expected; }));
        for (;;) {
            (void)am_short(back, 0, pattern(0, 8));
            self.progress();
        }
    });
    Entity self(patient());
    std::size_t received = 0;
    self.handle(0, [&](Bytes) { ++received; });
    const Endpoint ep = self.connect(team[victim].receive<Address>());
    team[victim].send(messages);
    team[victim].send(self.address());
    for (std::size_t i = 0; i < messages; ++i) {
        ASSERT_TRUE(accepted({&self}, [&] { return am_short(ep, 0, pattern(0, 8)); }));
    }
    ASSERT_TRUE(eventually({&self}, [&] { return received >= received_before; }));
    EXPECT_TRUE(self.failures().empty());
    team.kill(victim);
    dies_of_it(self, ep);
}

// What this side tells a hot peer when it falls asleep is the first that gets no answer.
TEST_F(EpCheckTest, ReceiverThatFallsAsleep) {
    constexpr std::size_t kStream = 500;
    Team team;
    const int victim = team.spawn([](Link& link) {
        Entity self(patient());
        self.handle(0, [](Bytes) {});
        link.send(self.address());
        const Endpoint back = self.connect(link.receive<Address>());
        for (std::size_t i = 0; i < kStream; ++i)
            EXPECT_TRUE(accepted({&self}, [&] { return am_short(back, 0, pattern(0, 8)); }));
        linger({&self}, milliseconds(200));
        link.send();
        link.receive();
    });
    Entity self(patient());
    std::size_t received = 0;
    self.handle(0, [&](Bytes) { ++received; });
    const Endpoint ep = self.connect(team[victim].receive<Address>());
    ASSERT_TRUE(accepted({&self}, [&] { return am_short(ep, 0, pattern(0, 8)); }));
    team[victim].send(self.address());
    ASSERT_TRUE(eventually({&self}, [&] { return received == kStream; }));
    linger({&self}, milliseconds(200));
    team[victim].receive();
    ASSERT_TRUE(flush_wait({&self}, ep));
    team.kill(victim);
    (void)event_fd(self);
    ASSERT_TRUE(eventually({}, [&] { return uct_iface_event_arm(self.iface(), kBoth) == UCS_OK; }));
    dies_of_it(self, ep);
}

TEST_F(EpCheckTest, ReceiverOfFewMessages) {
    receiver(1, 2);
}

TEST_F(EpCheckTest, ReceiverOfAStream) {
    receiver(1, 3000);
}

TEST_F(EpCheckTest, ReceiverThatHasSentNothing) {
    receiver(0, 3000);
}

TEST_F(EpCheckTest, ColdPeer) {
    connected(1);
}

TEST_F(EpCheckTest, HotPeer) {
    connected(1000);
}

TEST_F(EpCheckTest, PeerNeverTalkedTo) {
    Entity self(impatient()), other;
    const uint64_t queue_pairs = objects("queue_pairs");
    const Endpoint ep = self.connect(other);
    const auto end = Clock::now() + milliseconds(600);
    while (Clock::now() < end) {
        const ucs_status_t status = check_it(ep);
        EXPECT_TRUE(status == UCS_OK || status == UCS_INPROGRESS || status == UCS_ERR_NO_RESOURCE)
            << Status{status};
        linger({&self, &other}, milliseconds(5));
    }
    EXPECT_TRUE(self.failures().empty());
    // A check opens no connection.
    EXPECT_EQ(objects("queue_pairs"), queue_pairs);
    other.close();
    dies_of_it(self, ep);
}

// The answer arrives while this side does not progress.
TEST_F(EpCheckTest, AskedAndLookedAwayFor) {
    Entity self(impatient()), other;
    const Endpoint ep = self.connect(other);
    for (int i = 0; i < 2; ++i) {
        EXPECT_STATUS(UCS_OK, check_it(ep));
        linger({&self}, milliseconds(150));
        std::this_thread::sleep_for(milliseconds(600));
    }
    linger({&self}, milliseconds(100));
    EXPECT_TRUE(self.failures().empty());
}

// From UCX 1.22 on a check may have a completion.
TEST_F(EpCheckTest, WhoAsksMayBeTold) {
    Team team;
    spawn_peer(team);
    Entity self(impatient());
    const Endpoint ep = self.connect(team[0].receive<Address>());
    team[0].send(std::size_t{0});
    for (const char* when : {"nothing was sent", "it is connected", "again"})
        EXPECT_STATUS(UCS_OK, answer(self, ep)) << when;
    team.kill(0);
    EXPECT_NE(answer(self, ep), UCS_OK);
}

// There is no connection yet, and none can be made.
TEST_F(EpCheckTest, WhoAsksIsToldOfADeadPeer) {
    Team team;
    spawn_peer(team);
    Entity self(impatient());
    const Endpoint ep = self.connect(team[0].receive<Address>());
    team.kill(0);
    EXPECT_NE(answer(self, ep), UCS_OK);
}

TEST_F(EpCheckTest, KilledPeerNeverTalkedTo) {
    Team team;
    spawn_peer(team);
    Entity self(impatient());
    const Endpoint ep = self.connect(team[0].receive<Address>());
    team.kill(0);
    dies_of_it(self, ep);
}

TEST_F(EpCheckTest, DestroyedWhileAsking) {
    Entity self(impatient()), other;
    for (int i = 0; i < 20; ++i) {
        Endpoint ep = self.connect(other);
        check_it(ep);
        if (i % 2) linger({&self, &other}, milliseconds(1));
        check_it(ep);
        ep.reset();
    }
    linger({&self, &other}, milliseconds(500));
    EXPECT_TRUE(self.failures().empty());
}

TEST_F(EpCheckTest, Oneself) {
    Entity self(impatient());
    const Endpoint ep = self.connect(self);
    for (int i = 0; i < 100; ++i) ask(self, ep);
    EXPECT_TRUE(self.failures().empty());
}

}  // namespace
}  // namespace uct_test
