// SPDX-License-Identifier: BSD-3-Clause
// The queue for room on the device: whose turn it is, and how often each tries.
#include "tern/connection/connecting.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "tern/base/rank_variables.h"
#include "tern/connection/connection.h"
#include "tern/engine/settings.h"

namespace tern::test {
namespace {

std::unique_ptr<Connection> connection() {
    struct Any : Connection {
        using Connection::Connection;
    };
    const PeerAddress nobody;
    return std::make_unique<Any>(0, nobody, Handshake(1, nobody, nobody, {}, {}));
}

TEST(RoomQueueTest, OnlyTheFirstTries) {
    RoomQueue queue;
    queue.make_room(2);
    const auto a = connection(), b = connection();
    EXPECT_TRUE(queue.may_try(nullptr, 0)) << "nobody waits";
    queue.add(*a);
    queue.add(*b);
    queue.add(*a);
    EXPECT_EQ(queue.size(), 2u);
    EXPECT_EQ(queue.first(), a.get());
    EXPECT_TRUE(queue.may_try(a.get(), 0));
    EXPECT_FALSE(queue.may_try(b.get(), 0));
    EXPECT_FALSE(queue.may_try(nullptr, 0)) << "those that come later wait too";
    queue.remove(*a);
    EXPECT_TRUE(queue.may_try(b.get(), 0));
    queue.remove(*b);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.first(), nullptr);
}

TEST(RoomQueueTest, TriesInVainAreRareAndRoomIsTakenAtOnce) {
    RoomQueue queue;
    queue.make_room(1);
    const auto a = connection();
    queue.add(*a);
    uint64_t now = 0;
    constexpr uint64_t kSecond = 1'000'000'000;
    unsigned tries = 0;
    for (; now < kSecond; ++tries) {
        ASSERT_TRUE(queue.may_try(a.get(), now));
        queue.failed(now);
        EXPECT_FALSE(queue.may_try(a.get(), now));
        ASSERT_GT(queue.next(), now);
        now = queue.next();
    }
    EXPECT_LE(tries, 100u);
    queue.failed(now);
    queue.freed();
    EXPECT_TRUE(queue.may_try(a.get(), now));
}

TEST(RanksOfTheNodeTest, AreWhatTheLauncherSays) {
    for (const char* variable : base::kLocalRanksVariables) unsetenv(variable);
    EXPECT_EQ(base::local_ranks(), 0u);
    for (const char* wrong : {"", "0", "-1", "4(x2)", "many", "99999999"}) {
        setenv("SLURM_NTASKS_PER_NODE", wrong, 1);
        EXPECT_EQ(base::local_ranks(), 0u) << wrong;
    }
    setenv("SLURM_NTASKS_PER_NODE", "8", 1);
    EXPECT_EQ(base::local_ranks(), 8u);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "192", 1);
    EXPECT_EQ(base::local_ranks(), 192u);
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    unsetenv("SLURM_NTASKS_PER_NODE");
}

TEST(UsualConnectionsTest, AreAShareOfHalfOfTheDevice) {
    using engine_limits::usual_connections;
    constexpr uint32_t kAny = UINT32_MAX;
    EXPECT_EQ(usual_connections(1 << 18, kAny, 192, 1), 682u);
    EXPECT_EQ(usual_connections(1 << 18, kAny, 192, 2), 341u);
    EXPECT_EQ(usual_connections(1 << 18, kAny, 1, 1), 4096u);
    EXPECT_EQ(usual_connections(1 << 18, 1000, 1, 1), 500u) << "the completion queue";
    EXPECT_EQ(usual_connections(70, kAny, 1, 1), 35u);
    EXPECT_EQ(usual_connections(70, kAny, 64, 4), 16u);
    // Nobody says how many ranks there are.
    EXPECT_EQ(usual_connections(1 << 18, kAny, 0, 3), 4096u);
    EXPECT_EQ(usual_connections(16384, kAny, 0, 1), 1024u);
    EXPECT_EQ(usual_connections(70, kAny, 0, 1), 64u);
}

}  // namespace
}  // namespace tern::test
