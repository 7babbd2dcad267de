// SPDX-License-Identifier: BSD-3-Clause
// Declared memory and the keys that name it.
#include "pinning/regions.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace tern {
namespace {

const void* at(uint64_t address) {
    return reinterpret_cast<const void*>(address);
}

TEST(Regions, AreFoundByTheirKeyUntilUndeclared) {
    Regions regions;
    Region* region = regions.declare(at(0x1000), 100, kRemotePut);
    ASSERT_TRUE(region);
    const RegionKey key = region->key();
    EXPECT_NE(key.generation, 0u);
    EXPECT_EQ(regions.find(key), region);
    regions.release(region);
    EXPECT_FALSE(regions.undeclare(region));
    EXPECT_EQ(regions.find(key), nullptr);
    EXPECT_EQ(regions.declared(), 0u);
}

TEST(Regions, StaleKeysFindNothing) {
    Regions regions;
    std::vector<RegionKey> stale;
    std::set<uint32_t> generations;
    for (int i = 0; i < 10000; ++i) {
        Region* region = regions.declare(at(0x1000), 100, kRemotePut);
        ASSERT_EQ(region->key().index, 0u) << "slots are reused";
        EXPECT_TRUE(generations.insert(region->key().generation).second);
        for (size_t k = 0; k < stale.size(); k += 97) ASSERT_EQ(regions.find(stale[k]), nullptr);
        stale.push_back(region->key());
        regions.undeclare(region);
    }
    EXPECT_LE(regions.slots(), 64u);
}

TEST(Regions, KeysCannotBeGuessedByLuck) {
    Regions regions;
    std::vector<Region*> all;
    for (int i = 0; i < 1000; ++i) all.push_back(regions.declare(at(0x1000), 1, kRemotePut));
    for (uint32_t index = 0; index < 1100; ++index)
        for (uint32_t generation = 0; generation < 100; ++generation)
            EXPECT_EQ(regions.find({index, generation}), nullptr);
    EXPECT_EQ(regions.find({UINT32_MAX, 1}), nullptr);
    // Another process' keys are others: 1000 equal pairs of 2^32 are not luck.
    Regions others;
    size_t same = 0;
    for (const Region* region : all)
        same += others.declare(at(0x1000), 1, kRemotePut)->key() == region->key();
    EXPECT_LT(same, 2u);
}

TEST(Regions, OneThatIsHeldOutlivesItsDeclaration) {
    Regions regions;
    Region* region = regions.declare(at(0x1000), 100, kRemotePut);
    const RegionKey key = region->key();
    regions.retain(region);
    EXPECT_TRUE(regions.undeclare(region)) << "a transfer is under way";
    EXPECT_EQ(regions.find(key), nullptr);
    Region* next = regions.declare(at(0x2000), 1, kRemoteGet);
    EXPECT_NE(next, region);
    EXPECT_EQ(region->address(), 0x1000u);
    regions.release(region);
    EXPECT_EQ(regions.declare(at(0x3000), 1, kRemoteGet), region) << "the slot is not reused";
    EXPECT_EQ(regions.find(key), nullptr);
}

TEST(Regions, CoverTheirRangeAndRightsOnly) {
    Regions regions;
    const Region& region = *regions.declare(at(0x1000), 0x100, kRemotePut | kRemoteGet);
    EXPECT_TRUE(covers(region, 0x1000, 0x100, kRemotePut));
    EXPECT_TRUE(covers(region, 0x10ff, 1, kRemoteGet | kRemotePut));
    EXPECT_TRUE(covers(region, 0x1100, 0, kRemoteGet));
    EXPECT_FALSE(covers(region, 0x0fff, 1, kRemoteGet));
    EXPECT_FALSE(covers(region, 0x1100, 1, kRemoteGet));
    EXPECT_FALSE(covers(region, 0x1000, 0x101, kRemoteGet));
    EXPECT_FALSE(covers(region, 0x1000, 1, kRemoteAtomic));
    EXPECT_FALSE(covers(region, 0x1000, 1, kRemotePut | kRemoteAtomic));
    EXPECT_FALSE(covers(region, 0x1080, UINT64_MAX, kRemotePut));
    EXPECT_FALSE(covers(region, 0x1080, UINT64_MAX - 0x107f, kRemotePut));
    EXPECT_FALSE(covers(region, UINT64_MAX, 2, kRemotePut));
    const Region& all = *regions.declare(nullptr, SIZE_MAX, kRemotePut);
    EXPECT_TRUE(covers(all, 5, UINT64_MAX - 5, kRemotePut));
    EXPECT_FALSE(covers(all, 5, UINT64_MAX - 4, kRemotePut));
    const Region& high = *regions.declare(at(UINT64_MAX - 15), 64, kRemotePut);
    EXPECT_FALSE(covers(high, 0, 1, kRemotePut)) << "a range does not wrap";
}

TEST(Regions, MemoryFollowsTheMostDeclaredAtOnce) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Regions regions;
    std::vector<Region*> live;
    size_t most = 0;
    for (int i = 0; i < 200000; ++i) {
        if (live.empty() || (live.size() < 3000 && random() % 2 == 0)) {
            Region* region = regions.declare(at(random()), random() % 4096, kRemotePut);
            ASSERT_EQ(std::ranges::count(live, region), 0);
            live.push_back(region);
            most = std::max(most, live.size());
        } else {
            std::swap(live[random() % live.size()], live.back());
            regions.undeclare(live.back());
            live.pop_back();
        }
    }
    EXPECT_LE(regions.slots(), 2 * most + 64);
    for (Region* region : live) EXPECT_EQ(regions.find(region->key()), region);
}

TEST(Regions, AreForSeveralThreads) {
    Regions regions;
    std::vector<std::thread> threads;
    std::atomic<uint64_t> published{0};
    for (unsigned t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (unsigned i = 1; i < 20000; ++i) {
                Region* region = regions.declare(at(uint64_t{t} << 32 | i), i, kRemotePut);
                const RegionKey key = region->key();
                published = uint64_t{key.index} << 32 | key.generation;
                const uint64_t word = published;
                const RegionKey other{static_cast<uint32_t>(word >> 32),
                                      static_cast<uint32_t>(word)};
                if (Region* found = regions.find(other)) {
                    EXPECT_EQ(found->key(), other);
                    EXPECT_EQ(found->length(), found->address() & UINT32_MAX);
                    regions.release(found);
                }
                regions.undeclare(region);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(regions.declared(), 0u);
}

TEST(Regions, OfAParentAreNothingToItsChild) {
    Regions regions;
    Region* region = regions.declare(at(0x1000), 1, kRemotePut);
    const pid_t child = fork();
    if (child == 0) {
        bool right = regions.find(region->key()) == nullptr;
        right = right && regions.declare(at(0x1000), 1, kRemotePut) == nullptr;
        regions.undeclare(region);
        Regions own;
        Region* another = own.declare(at(0x1000), 1, kRemotePut);
        right = right && own.find(another->key()) == another;
        _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(regions.find(region->key()), region);
}

}  // namespace
}  // namespace tern
