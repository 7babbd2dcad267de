// SPDX-License-Identifier: BSD-3-Clause

// Early copies: the first chunk of a message, copied before its receiver asks for the message.
// Which chunk it is, whether it is used, and which early copies give way.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/early.h"
#include "tern/rendezvous/ring_reader.h"

namespace tern {
namespace {

constexpr uint32_t kBlock = SubBlocks::kSubBlock;
constexpr uint64_t kFirst = 12 * 1024;  // C_0

TEST(EarlyChunk, IsTheFirstChunk) {
    for (uint64_t length = 1; length <= 2 * kFirst; ++length) {
        const EarlyChunk copy = EarlyChunk::of(length, {});
        const uint64_t bytes = SubBlocks::offset(length, copy.blocks);
        ASSERT_EQ(copy.first, SubBlocks::first(length));
        ASSERT_TRUE(bytes == length || (bytes < length && length > kFirst)) << length;
        ChunkSource sender(length, 64, 64, {});
        ASSERT_TRUE(sender.add({.upto = length}));
        ChunkSource::Chunk chunk;
        ASSERT_TRUE(sender.next(UINT64_MAX, chunk));
        ASSERT_EQ(chunk.blocks, copy.blocks) << length;
        ASSERT_EQ(chunk.bytes, bytes) << length;
        ASSERT_EQ(chunk.ready, 0u);
    }
}

struct Rings {
    uint32_t staging = 63;  // slots
    uint32_t ring = 63;
};

// Moves a message in these staged parts, byte by byte, with an early copy in staging memory.
// Returns an error, or the number of sub-blocks that were not copied again.
std::string moved(const std::vector<uint64_t>& parts, const EarlyChunk& copy, Rings rings = {}) {
    constexpr uint64_t kGeneration = 7;
    const uint64_t length = parts.back();
    // Made once: a loop over all bytes takes long with a sanitizer.
    static std::vector<std::byte> bytes_of_all;
    for (uint64_t i = bytes_of_all.size(); i < length; ++i)
        bytes_of_all.push_back(static_cast<std::byte>(i % 251));
    std::vector<std::byte> message(length);
    memcpy(message.data(), bytes_of_all.data(), length);
    const Buffers::Piece piece{.at = message.data(), .length = message.size()};
    std::vector<std::byte> sent_from(rings.staging * SubBlocks::kSlot, std::byte{0xee});
    std::vector<std::byte> ring(rings.ring * SubBlocks::kSlot, std::byte{0xee});
    const StagingMemory staging(sent_from.data(), rings.staging);
    Buffers early({&piece, 1}), late({&piece, 1});
    staging.fill(copy, early);

    ChunkSource sender(length, rings.ring, rings.staging,
                       {.most = std::min({21u, rings.ring, rings.staging})});
    sender.set_early_chunk(copy);
    RingReader receiver(length, rings.ring, kGeneration, false, 1);
    std::vector<std::byte> got;
    uint32_t ready = 0;
    for (const uint64_t upto : parts) {
        if (!sender.add({.upto = upto})) return "a part is not believed";
        receiver.add({.upto = upto});
        ChunkSource::Chunk chunk;
        while (sender.next(UINT64_MAX, chunk)) {
            if (chunk.ready > chunk.blocks) return "more is ready than there is";
            ready += chunk.ready;
            const size_t bytes = staging.fill(chunk, kGeneration, late);
            const uint64_t slot = chunk.index % rings.ring * SubBlocks::kSlot;
            memcpy(ring.data() + slot + kBlock - chunk.first, staging.begin(chunk), bytes);
            sender.posted(chunk);
            for (RingReader::Block block; receiver.next(ring.data(), block); receiver.taken()) {
                const std::byte* const at = ring.data() + block.at;
                got.insert(got.end(), at, at + block.bytes);
            }
            if (!sender.acknowledged(receiver.count())) return "taken before it was sent";
        }
    }
    const bool same = got.size() == length && memcmp(got.data(), message.data(), length) == 0;
    return same ? std::to_string(ready) : "the bytes are others";
}

TEST(EarlyChunk, IsNotCopiedAgain) {
    for (uint64_t length = 1; length <= 2 * kFirst; ++length) {
        const EarlyChunk copy = EarlyChunk::of(length, {});
        ASSERT_EQ(moved({length}, copy), std::to_string(copy.blocks)) << length;
    }
}

// The sender learns the ring after the copy; the ring may be smaller or larger.
TEST(EarlyChunk, OfAnyLengthInAnyRing) {
    for (uint32_t staging = 1; staging <= 6; ++staging)
        for (uint32_t ring = 1; ring <= 6; ++ring)
            for (uint32_t blocks = 1; blocks <= staging; ++blocks)
                for (const uint64_t length :
                     {1u, kBlock, kBlock + 1, 4 * kBlock - 1, 20 * kBlock}) {
                    const EarlyChunk copy{
                        static_cast<uint32_t>(std::min<uint64_t>(blocks, SubBlocks::count(length))),
                        SubBlocks::first(length)};
                    ASSERT_EQ(moved({length}, copy, {staging, ring}), std::to_string(copy.blocks))
                        << length << " bytes, " << blocks << " of " << staging << " slots for "
                        << ring;
                }
}

TEST(EarlyChunk, ThatIsNotWhatIsAskedForIsNotUsed) {
    // Copied for the whole message, or for a first part that is staged.
    constexpr uint64_t kLength = 10 * kBlock + 100;
    const EarlyChunk whole = EarlyChunk::of(kLength, {});
    const EarlyChunk part = EarlyChunk::of(5 * kBlock, {});
    EXPECT_EQ(moved({kLength}, whole), "3");
    EXPECT_EQ(moved({kLength}, part), "0");
    EXPECT_EQ(moved({5 * kBlock, kLength}, part), "3");
    EXPECT_EQ(moved({5 * kBlock, kLength}, whole), "0");
    EXPECT_EQ(moved({8 * kBlock, kLength}, part), "3") << "a longer part";
    EXPECT_EQ(moved({2 * kBlock, kLength}, part), "2") << "a part of the copy";
    EXPECT_EQ(moved({kLength}, {}), "0");
    const Part placed{.upto = kLength, .address = 1, .rkey = 1, .placed = true};
    EXPECT_FALSE(whole.fits(placed));
    EXPECT_FALSE(part.fits({.upto = 0}));
    ChunkSource sender(2 * kLength, 64, 64, {});
    sender.set_early_chunk(whole);
    ASSERT_TRUE(sender.add(placed));
    ASSERT_TRUE(sender.add({.upto = 2 * kLength}));
    ChunkSource::Chunk chunk;
    ASSERT_TRUE(sender.next(UINT64_MAX, chunk));
    sender.posted(chunk);
    ASSERT_TRUE(sender.next(UINT64_MAX, chunk));
    EXPECT_EQ(chunk.index, 0u);
    EXPECT_EQ(chunk.ready, 0u) << "behind what is placed";
}

class EarlyCopiesTest : public testing::Test {
  protected:
    static Channel* channel(uintptr_t name) { return reinterpret_cast<Channel*>(name); }
    uint64_t add(uintptr_t to, uint64_t address, uint64_t since = 0) {
        return copies.add({.channel = channel(to),
                           .address = address,
                           .length = 100,
                           .key = {1, 2},
                           .since = since});
    }
    static Fetch fetch(uint64_t address) {
        return {.address = address, .length = 100, .key = {1, 2}};
    }
    EarlyCopies copies;
};

TEST_F(EarlyCopiesTest, AreFoundByAllThatIsAskedFor) {
    const uint64_t number = add(8, 4096);
    EXPECT_NE(number, 0u);
    ASSERT_NE(copies.of(channel(8), fetch(4096)), nullptr);
    EXPECT_EQ(copies.of(channel(8), fetch(4096))->number, number);
    EXPECT_EQ(copies.of(channel(16), fetch(4096)), nullptr);
    EXPECT_EQ(copies.of(channel(8), fetch(4097)), nullptr);
    for (const auto change :
         {+[](Fetch& other) { other.length = 99; }, +[](Fetch& other) { other.key.index = 2; },
          +[](Fetch& other) { other.key.generation = 1; }}) {
        Fetch other = fetch(4096);
        change(other);
        EXPECT_EQ(copies.of(channel(8), other), nullptr);
    }
}

TEST_F(EarlyCopiesTest, TheOldestComesFirst) {
    std::vector<uint64_t> numbers;
    while (!copies.full()) numbers.push_back(add(8, 0));
    EXPECT_EQ(numbers.size(), kEarlyCopies);
    copies.remove(*copies.numbered(numbers[3]));
    EXPECT_EQ(copies.numbered(numbers[3]), nullptr);
    numbers.erase(numbers.begin() + 3);
    EXPECT_FALSE(copies.full());
    numbers.push_back(add(8, 0));
    for (const uint64_t number : numbers) {
        EXPECT_EQ(copies.oldest().number, number);
        EXPECT_EQ(copies.of(channel(8)), &copies.oldest());
        EXPECT_EQ(copies.of(channel(8), fetch(0)), &copies.oldest());
        copies.remove(copies.oldest());
    }
    EXPECT_TRUE(copies.empty());
    EXPECT_EQ(copies.of(channel(8)), nullptr);
}

TEST_F(EarlyCopiesTest, TheOldestGivesWayWhenOvertaken) {
    EXPECT_EQ(copies.overtaken(1000), nullptr);
    (void)add(8, 0, 5);
    (void)add(8, 0, 6);
    EXPECT_EQ(copies.overtaken(5 + kOvertaken - 1), nullptr);
    EXPECT_EQ(copies.overtaken(5 + kOvertaken), &copies.oldest());
    copies.remove(copies.oldest());
    EXPECT_EQ(copies.overtaken(5 + kOvertaken), nullptr);
}

// A region with copies of three messages: to two peers, and in two parts of the memory.
class OutdatedEarlyCopiesTest : public EarlyCopiesTest {
  protected:
    OutdatedEarlyCopiesTest() : region(regions.declare(nullptr, 1000, 0)) {
        announce(8, 0);
        announce(8, 100);
        announce(16, 0);
    }
    ~OutdatedEarlyCopiesTest() override { (void)regions.undeclare(region); }
    Announced message(uint64_t address) {
        return {.region = region, .packing = region->pack(), .address = address, .length = 100};
    }
    // Returns the addresses of the copies that this message ends, with their peers.
    std::vector<std::pair<const Channel*, uint64_t>> announce(uintptr_t to, uint64_t address) {
        std::vector<std::pair<const Channel*, uint64_t>> ended;
        const Announced next = message(address);
        while (const EarlyCopy* copy = copies.outdated(channel(to), next)) {
            ended.emplace_back(copy->channel, copy->address);
            copies.remove(*copy);
        }
        copies.renew(next);
        (void)copies.add({.channel = channel(to),
                          .address = address,
                          .length = 100,
                          .key = next.key(),
                          .region = region,
                          .packing = next.packing});
        return ended;
    }
    Regions regions;
    Region* region;
};

TEST_F(OutdatedEarlyCopiesTest, MessagesElsewhereEndNone) {
    EXPECT_TRUE(announce(8, 200).empty());
    EXPECT_TRUE(announce(16, 900).empty());
    EXPECT_EQ(copies.dead(), nullptr);
}

TEST_F(OutdatedEarlyCopiesTest, AMessageInTheSameMemoryEndsThoseForItsPeer) {
    using Ended = std::vector<std::pair<const Channel*, uint64_t>>;
    EXPECT_EQ(announce(8, 199), (Ended{{channel(8), 100}}));
    EXPECT_EQ(announce(8, 50), (Ended{{channel(8), 0}}));
    EXPECT_EQ(announce(16, 99), (Ended{{channel(16), 0}}));
    EXPECT_EQ(copies.dead(), nullptr);
}

TEST_F(OutdatedEarlyCopiesTest, APackingByOthersEndsAll) {
    (void)region->pack();
    ASSERT_NE(copies.dead(), nullptr);
    EXPECT_EQ(announce(24, 900).size(), 3u);
    EXPECT_EQ(copies.dead(), nullptr);
}

TEST_F(OutdatedEarlyCopiesTest, SoDoesTheEndOfTheRegion) {
    (void)regions.undeclare(region);
    EXPECT_NE(copies.dead(), nullptr);
    Region* next = regions.declare(nullptr, 1000, 0);
    EXPECT_EQ(next, region) << "the same place of the table";
    EXPECT_NE(copies.dead(), nullptr);
    EXPECT_TRUE(announce(8, 0).empty()) << "they have another key";
}

}  // namespace
}  // namespace tern
