// SPDX-License-Identifier: BSD-3-Clause
// Both paths of a connection at once: order, promotion, growth, revocation, release.
#include <gtest/gtest.h>

#include "paths_world.h"
#include "schedules.h"

namespace tern {
namespace {

TEST(Paths, KeepTheOrderThroughEverything) {
    each_schedule(10'000, [](Random random) {
        PathsWorld::Limits limits;
        limits.block_first = 512 + kStep * static_cast<uint32_t>(random.below(13));
        limits.block_most = limits.block_first << random.below(5);
        limits.longest = static_cast<uint32_t>(random.chance(50) ? random.below(200)
                                                                 : random.below(limits.block_most));
        limits.notify = random.chance(25);
        limits.pays = static_cast<unsigned>(random.below(101));
        limits.words = random.chance(50);
        const auto steps = static_cast<unsigned>(random.between(10, 1000));
        PathsWorld world(random, limits);
        world.chaos(steps);
        world.settle();
        world.expect_room();
        if (world.wrong().empty()) world.expect_no_blocks();
        return world.wrong();
    });
}

// One side streams and looks at nothing but its credit word for long, while the other side sends
// too: frames are handled when what they say is old.
TEST(Paths, TheCreditWordMayBeFarAheadOfFrames) {
    each_schedule(300, [](Random random) {
        PathsWorld world(random, {.block_first = 4096,
                                  .block_most = 4096u << random.below(6),
                                  .longest = 2000,
                                  .words = true});
        world.promote(0);
        world.promote(1);
        world.settle();
        uint64_t streamed = 0;
        for (unsigned i = 0; i < 3000 && world.wrong().empty(); ++i) {
            streamed += world.send(0, static_cast<uint32_t>(random.below(2000)), true);
            world.deliver_to_busy(0);
            if (random.chance(20)) (void)world.send(1, static_cast<uint32_t>(random.below(200)));
            world.arrive_unhandled(1);
            if (random.chance(1)) world.settle();
        }
        world.settle();
        world.expect_room();
        if (world.wrong().empty() && world.words_written() < streamed / 300)
            return std::string("the credit word is hardly used");
        return world.wrong();
    });
}

// Runs far beyond the range of the sequences, on both paths.
TEST(Paths, SequencesMayWrapAround) {
    PathsWorld world(Random(1), {.block_first = 2048, .block_most = 2048, .longest = 16});
    while (world.sent_hot() < 300'000 && world.wrong().empty()) {
        world.promote(0);
        world.promote(1);
        world.chaos(1000);
        world.settle();
    }
    EXPECT_EQ(world.wrong(), "");
    EXPECT_GT(world.sent_cold(), 150'000u);
}

class PathsOneWay : public testing::Test {
  protected:
    static constexpr uint32_t kFirst = 1024;
    static constexpr uint32_t kMost = 8192;

    void become_hot() {
        world_.promote(1);
        world_.settle();
        ASSERT_TRUE(world_.hot(0));
    }
    void TearDown() override { EXPECT_EQ(world_.wrong(), ""); }

    PathsWorld world_{Random(1), {.block_first = kFirst, .block_most = kMost, .longest = 64}};
};

TEST_F(PathsOneWay, SwitchToTheBlockAndBack) {
    ASSERT_TRUE(world_.send(0, 8));
    EXPECT_EQ(world_.sent_cold(), 1u);
    become_hot();
    ASSERT_TRUE(world_.send(0, 8));
    EXPECT_EQ(world_.sent_hot(), 1u);
    world_.revoke(1);
    world_.settle();
    EXPECT_FALSE(world_.hot(0));
    ASSERT_TRUE(world_.send(0, 8));
    EXPECT_EQ(world_.sent_cold(), 2u);
    world_.settle();
}

TEST_F(PathsOneWay, AFullBlockGrows) {
    become_hot();
    for (int round = 0; round < 1000 && world_.block_size(0) < kMost; ++round) {
        while (world_.send(0, 8)) {
        }
        world_.settle();
        ASSERT_TRUE(world_.hot(0));
    }
    EXPECT_EQ(world_.block_size(0), kMost);
    const uint64_t blocks = world_.blocks_offered();
    EXPECT_EQ(blocks, 4u) << "doubled thrice";
    for (int round = 0; round < 100; ++round) {
        while (world_.send(0, 8)) {
        }
        world_.settle();
    }
    EXPECT_EQ(world_.blocks_offered(), blocks) << "it has all it may have";
}

// The reader always has another frame to take, and never gets to the control frames that are due.
TEST_F(PathsOneWay, AStreamGoesOnWhileItsReaderIsBusy) {
    become_hot();
    for (int i = 0; i < 10'000; ++i) {
        ASSERT_TRUE(world_.send(0, i % 65)) << i;
        world_.deliver_to_busy(0);
        world_.deliver_to_busy(1);
    }
    EXPECT_EQ(world_.sent_hot(), 10'000u);
}

TEST_F(PathsOneWay, ABlockTooSmallForThePayloadGrowsToFit) {
    become_hot();
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(world_.send(0, 1000));
        world_.settle();
    }
    EXPECT_EQ(world_.block_size(0), 4096u);
    EXPECT_GE(BlockWriter::max_payload(4096), 1000u);
    EXPECT_LT(BlockWriter::max_payload(2048), 1000u);
    EXPECT_GT(world_.sent_hot(), 10u);
}

TEST_F(PathsOneWay, NoBlockGrowsForWhatWouldNeverFit) {
    become_hot();
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(world_.send(0, BlockWriter::max_payload(kMost) + 1));
        world_.settle();
    }
    EXPECT_EQ(world_.sent_hot(), 0u);
    EXPECT_EQ(world_.blocks_offered(), 1u);
}

// The send path of a sender whose block is full.
SendPath full_path(uint32_t size) {
    SendPath path;
    EXPECT_TRUE(
        path.take_offer({.address = kStep, .rkey = 1, .size = size, .most = 4 * size, .flags = 0}));
    for (;;) {
        const SendPath::Choice choice = path.choose(0);
        if (choice.route != SendPath::Route::kBlock) break;
        path.sent_block(choice.plan);
    }
    return path;
}

TEST(SendPath, WaitsForTheBlockUnlessItIsTooNarrowAWindow) {
    const SendPath path = full_path(4096);
    EXPECT_EQ(path.choose(0).route, SendPath::Route::kStall);
    EXPECT_EQ(path.choose(341).route, SendPath::Route::kStall);
    EXPECT_EQ(path.choose(342).route, SendPath::Route::kCold);
}

TEST(SendPath, SendsColdWhatTheBlockCannotAlwaysTake) {
    SendPath path;
    ASSERT_TRUE(
        path.take_offer({.address = kStep, .rkey = 1, .size = 4096, .most = 4096, .flags = 0}));
    const uint32_t longest = BlockWriter::max_payload(4096);
    EXPECT_EQ(path.choose(longest).route, SendPath::Route::kBlock);
    EXPECT_EQ(path.choose(longest + 1).route, SendPath::Route::kCold);
}

TEST(SendPath, EveryBlockHasToProveTooSmallAnew) {
    SendPath path = full_path(4096);
    for (int block = 0; block < 3; ++block) {
        for (int i = 0; i < 7; ++i) EXPECT_FALSE(path.stalled());
        for (int i = 0; i < 3; ++i) EXPECT_FALSE(path.detoured(2000));
        path.revoked();
        EXPECT_TRUE(path.release_due());
        EXPECT_EQ(path.release().requested_bytes, 0u);
        path.released();
        ASSERT_TRUE(path.take_offer(
            {.address = kStep, .rkey = 1, .size = 4096, .most = 16384, .flags = 0}));
    }
    for (int i = 0; i < 7; ++i) EXPECT_FALSE(path.stalled());
    EXPECT_TRUE(path.stalled());
    EXPECT_EQ(path.release().requested_bytes, 8192u);
    EXPECT_FALSE(path.stalled()) << "it is under way";
}

TEST(SendPath, ABlockThatIsAskedBackDoesNotGrow) {
    SendPath path = full_path(4096);
    path.revoked();
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(path.stalled());
    EXPECT_EQ(path.release().requested_bytes, 0u);
}

TEST(SendPath, RefusesAGrantThatMakesNoSense) {
    const BlockOffer good{.address = 4096, .rkey = 1, .size = 4096, .most = 8192, .flags = 0};
    const auto takes = [&](auto change) {
        BlockOffer grant = good;
        change(grant);
        SendPath path;
        return path.take_offer(grant);
    };
    EXPECT_TRUE(takes([](BlockOffer&) {}));
    EXPECT_FALSE(takes([](BlockOffer& grant) { grant.address = 0; }));
    EXPECT_FALSE(takes([](BlockOffer& grant) { grant.address = 4096 + kStep / 2; }));
    EXPECT_FALSE(takes([](BlockOffer& grant) { grant.size = kMinBlock - kStep; }));
    EXPECT_FALSE(takes([](BlockOffer& grant) { grant.size = 4096 - kStep / 2; }));
    EXPECT_FALSE(takes([](BlockOffer& grant) { grant.size = kMaxBlock + kStep; }));
    EXPECT_FALSE(takes([](BlockOffer& grant) { grant.size = 0xffffffc0; }));
    EXPECT_FALSE(takes([](BlockOffer& grant) { grant.flags = 2; }));
    SendPath twice;
    EXPECT_TRUE(twice.take_offer(good));
    EXPECT_FALSE(twice.take_offer(good)) << "it has one";
    twice.released();
    EXPECT_TRUE(twice.take_offer(good));
}

TEST(SendPath, RefusesCreditForWhatItHasNotSent) {
    SendPath path;
    EXPECT_TRUE(path.credited(7)) << "without a block it says nothing";
    ASSERT_TRUE(
        path.take_offer({.address = kStep, .rkey = 1, .size = 512, .most = 512, .flags = 0}));
    EXPECT_FALSE(path.credited(7));
}

TEST(ReceivePath, RefusesAReleaseOfNothing) {
    ReceivePath path;
    EXPECT_FALSE(path.released());
    std::vector<uint64_t> memory(64);
    path.offer(reinterpret_cast<std::byte*>(memory.data()), 512);
    EXPECT_TRUE(path.released());
    EXPECT_FALSE(path.released());
}

TEST(ReceivePath, RefusesABlockFrameFromThePast) {
    ReceivePath path;
    std::vector<uint64_t> memory(64);
    path.offer(reinterpret_cast<std::byte*>(memory.data()), 512);
    path.received_cold();
    path.received_cold();
    Word word;
    memory.back() = Word(FrameKind::kActiveMessage, 0, 0, 0, 3).raw();
    EXPECT_EQ(path.look(word), ReceivePath::Look::kNothing) << "a cold one comes before it";
    memory.back() = Word(FrameKind::kActiveMessage, 0, 0, 0, 2).raw();
    EXPECT_EQ(path.look(word), ReceivePath::Look::kFrame);
    memory.back() = Word(FrameKind::kActiveMessage, 0, 0, 0, 1).raw();
    EXPECT_EQ(path.look(word), ReceivePath::Look::kMalformed);
}

}  // namespace
}  // namespace tern
