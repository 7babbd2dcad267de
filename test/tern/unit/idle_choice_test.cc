// SPDX-License-Identifier: BSD-3-Clause
// What is decided about connections and blocks of many peers without a device: which connection
// ends, how long queues are, how large blocks are.
#include "tern/engine/idle_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tern/connection/send_queue.h"
#include "tern/engine/settings.h"
#include "tern/veloblock/block_sizes.h"

namespace tern::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct Row {
    ConnectionUse use;
    ConnectionUse::Counts counts;
    bool up = true;
    bool may_end = true;
};

struct Rows {
    size_t size() const { return rows.size(); }
    Row* row(size_t i) const { return rows[i].up ? &rows[i] : nullptr; }
    static ConnectionUse& use(Row& row) { return row.use; }
    static ConnectionUse::Counts counts(const Row& row) { return row.counts; }
    static bool may_end(const Row& row) { return row.may_end; }

    std::vector<Row>& rows;
};

TEST(IdleChoiceTest, TheOldestThatMayEnd) {
    std::vector<Row> rows(8);
    IdleChoice choice(4);
    EXPECT_FALSE(choice.is_over(4));
    ASSERT_TRUE(choice.is_over(8));
    // All count as used when they are first seen, one by one from now on.
    for (uint64_t i = 1; i <= 8; ++i) {
        ++rows[i % 8].counts.sent;
        EXPECT_EQ(choice.choose(Rows{rows}, 8, i * 1'000'000), nullptr);
    }
    rows[1].up = false;
    rows[2].may_end = false;
    EXPECT_EQ(choice.choose(Rows{rows}, 8, kSecond), &rows[3]);
    // It counts as used now.
    EXPECT_EQ(choice.choose(Rows{rows}, 8, kSecond), &rows[4]);
    ++rows[5].counts.received;
    EXPECT_EQ(choice.choose(Rows{rows}, 8, kSecond), &rows[6]);
}

TEST(IdleChoiceTest, EachExcessOneOnceInAWindow) {
    std::vector<Row> rows(8);
    IdleChoice choice(6);
    EXPECT_EQ(choice.choose(Rows{rows}, 8, 1), nullptr);
    EXPECT_NE(choice.choose(Rows{rows}, 8, kSecond), nullptr);
    EXPECT_NE(choice.choose(Rows{rows}, 8, kSecond), nullptr);
    EXPECT_EQ(choice.choose(Rows{rows}, 8, kSecond), nullptr);
    EXPECT_NE(choice.choose(Rows{rows}, 8, kSecond + 1'000'000), nullptr);
}

TEST(IdleChoiceTest, TheSilenceIsShorterTheMoreConnectionsThereAre) {
    uint64_t before = UINT64_MAX;
    for (uint32_t count = 5; count < 5000; count *= 2) {
        const uint64_t enough = IdleChoice::long_enough(count, 4);
        EXPECT_LE(enough, before);
        EXPECT_GT(enough, 0u);
        before = enough;
    }
    EXPECT_LT(before, IdleChoice::long_enough(5, 4));
}

// Whether a connection that has been silent for so long is ended, of `count`.
bool ends(IdleChoice& choice, uint32_t count, uint64_t now) {
    std::vector<Row> rows(1);
    rows[0].use.since = 1;
    return choice.choose(Rows{rows}, count, now) != nullptr;
}

TEST(IdleChoiceTest, TheLimitGivesWayToPeersThatComeBack) {
    IdleChoice choice(100);
    EXPECT_EQ(choice.remembers(), 200u);
    EXPECT_TRUE(ends(choice, 250, kSecond));
    for (int i = 0; i < 150; ++i) choice.on_begin(true, kSecond);
    EXPECT_FALSE(ends(choice, 250, kSecond + 1'000'000));
    // Others take it back.
    for (int i = 0; i < 100; ++i) choice.on_begin(false, kSecond);
    EXPECT_TRUE(ends(choice, 250, kSecond + 2'000'000));
    // It has an end.
    for (int i = 0; i < 1000; ++i) choice.on_begin(true, kSecond);
    EXPECT_FALSE(ends(choice, 300, kSecond + 3'000'000));
    EXPECT_TRUE(ends(choice, 400, kSecond + 4'000'000));
    // It fades: half after a second, all at last.
    EXPECT_FALSE(ends(choice, 150, 2 * kSecond));
    EXPECT_TRUE(ends(choice, 250, 2 * kSecond));
    EXPECT_TRUE(ends(choice, 101, 60 * kSecond));
}

// Below the limit too. Each is asked twice, with a pause, before others are.
TEST(IdleChoiceTest, MakesRoomForThoseThatWait) {
    constexpr uint64_t kPause = 1'000'000, kSilence = 10'000'000;
    std::vector<Row> rows(3);
    IdleChoice choice(1000);
    EXPECT_EQ(choice.choose(Rows{rows}, 3, kSecond, 0), nullptr);
    EXPECT_EQ(choice.choose(Rows{rows}, 3, kSecond, 1), nullptr) << "all are new";
    uint64_t now = kSecond + kSilence;
    ++rows[1].counts.sent;
    Row* const first = choice.choose(Rows{rows}, 3, now, 1);
    ASSERT_NE(first, nullptr);
    EXPECT_NE(first, &rows[1]) << "it was used";
    EXPECT_EQ(choice.choose(Rows{rows}, 3, now, 1), nullptr) << "as many as wait";
    now += kPause;
    EXPECT_EQ(choice.choose(Rows{rows}, 3, now, 1), first);
    now += kPause;
    Row* const second = choice.choose(Rows{rows}, 3, now, 1);
    ASSERT_NE(second, nullptr) << "the first one's peer computes";
    EXPECT_NE(second, first);
    EXPECT_NE(second, &rows[1]);
    ++second->counts.received;
    now += kPause;
    EXPECT_EQ(choice.choose(Rows{rows}, 3, now, 1), nullptr) << "it has been used since";
}

// However many wait: a thousand ends in a second.
TEST(IdleChoiceTest, EndsNoMoreThanAThousandInASecond) {
    std::vector<Row> rows(300);
    IdleChoice choice(1000);
    unsigned asked = 0;
    for (uint64_t now = kSecond; now < 2 * kSecond; now += 20'000)
        asked += choice.choose(Rows{rows}, 300, now, 300) != nullptr;
    EXPECT_GT(asked, 1000u);
    EXPECT_LE(asked, 2000u);
}

TEST(IdleChoiceTest, ASmallLimitIsMeantAsItIs) {
    IdleChoice choice(63);
    EXPECT_EQ(choice.remembers(), 0u);
    for (int i = 0; i < 1000; ++i) choice.on_begin(true, kSecond);
    EXPECT_TRUE(ends(choice, 120, kSecond));
}

TEST(SendQueuesTest, TheFirstAreLong) {
    const SendQueues queues{.long_places = 256, .later_places = 42, .long_queues = 2};
    EXPECT_EQ(queues.places_of_next(0), 256u);
    EXPECT_EQ(queues.places_of_next(256), 256u);
    EXPECT_EQ(queues.places_of_next(512), 42u);
    EXPECT_EQ(queues.places_of_next(298), 256u) << "a long one has ended";
}

// As many connections as fit, and not one more.
TEST(CompletionsTest, ConnectionsForWhichEntriesSuffice) {
    EngineSettings settings;
    const auto entries = [&](uint32_t connections) {
        const uint32_t with_long = std::min(connections, settings.long_queues);
        return settings.completions(with_long, connections - with_long);
    };
    for (const uint32_t long_queues : {0u, 1u, 64u, EngineSettings::kUnlimited}) {
        settings.long_queues = long_queues;
        EXPECT_EQ(settings.connections_for(entries(0) - 1), 0u);
        for (uint64_t room = entries(0); room < 40'000; room += 7) {
            const uint32_t connections = settings.connections_for(room);
            EXPECT_LE(entries(connections), room);
            EXPECT_GT(entries(connections + 1), room);
        }
    }
}

TEST(BlockSizesTest, FollowUseWithinTheBudget) {
    const BlockSizes sizes(4096, 65536, 1 << 20);
    uint32_t usual = 0;
    EXPECT_EQ(sizes.next(0, 0, usual, 0).block, 4096u);
    for (int i = 0; i < 100; ++i) BlockSizes::average(usual, 2048);
    EXPECT_NEAR(usual, 2048, 16);
    const BlockSizes::Size large = sizes.next(0, 0, usual, 0);
    EXPECT_GE(large.block, 16 * (usual + BlockWriter::kOverhead));
    // What is left, but a first block in any case.
    EXPECT_EQ(sizes.next(0, 0, usual, (1 << 20) - 8192).block, 8192u);
    EXPECT_EQ(sizes.next(0, 0, usual, 1 << 20).block, 4096u);
    EXPECT_EQ(sizes.next(0, 65536, 0, 0).block, 65536u);
    EXPECT_EQ(sizes.requested(1 << 20), 65536u);
    for (uint32_t index = 0; index < 16; ++index) {
        const BlockSizes::Size size = sizes.next(index, 0, usual, 0);
        EXPECT_EQ(size.memory(), large.memory());
        EXPECT_EQ(size.shift, index % 8 * 64);
        EXPECT_LE(size.block, size.most);
    }
}

}  // namespace
}  // namespace tern::test
