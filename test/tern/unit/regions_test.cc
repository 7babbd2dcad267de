// SPDX-License-Identifier: BSD-3-Clause
// Declared memory and the keys that name it.
#include "tern/pinning/regions/regions.h"
#include "common/patience.h"
#include "common/seed.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace tern {
namespace regions_test {

const void* at(uint64_t address) {
    return reinterpret_cast<const void*>(address);
}

TEST(Regions, AreFoundByTheirKeyUntilUndeclared) {
    Regions regions;
    Region* region = regions.declare(at(0x1000), 100, kRemotePut);
    ASSERT_TRUE(region);
    const RegionKey key = region->key();
    EXPECT_NE(key.generation, 0u);
    RegionUse* use = regions.find(key);
    ASSERT_TRUE(use);
    EXPECT_EQ(&use->region(), region);
    regions.release(use);
    EXPECT_FALSE(regions.undeclare(region));
    EXPECT_EQ(regions.find(key), nullptr);
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
    // Another process has other keys. With 2^32 values, two equal pairs of 1000 would not be
    // chance.
    Regions others;
    size_t same = 0;
    for (const Region* region : all)
        same += others.declare(at(0x1000), 1, kRemotePut)->key() == region->key();
    EXPECT_LT(same, 2u);
}

TEST(Regions, OneThatIsUsedOutlivesItsDeclaration) {
    Regions regions;
    Region* region = regions.declare(at(0x1000), 100, kRemotePut);
    const RegionKey key = region->key();
    RegionUse* first = regions.find(key);
    RegionUse* second = regions.find(key);
    EXPECT_NE(first, second);
    EXPECT_TRUE(first->enter());
    first->leave();
    EXPECT_TRUE(regions.undeclare(region)) << "transfers are under way";
    EXPECT_EQ(regions.find(key), nullptr);
    for (RegionUse* use : {first, second}) {
        EXPECT_TRUE(use->revoked());
        EXPECT_FALSE(use->enter());
    }
    Region* next = regions.declare(at(0x2000), 1, kRemoteGet);
    EXPECT_NE(next, region);
    EXPECT_EQ(first->region().address(), 0x1000u);
    regions.release(first);
    EXPECT_NE(regions.declare(at(0x3000), 1, kRemoteGet), region);
    regions.release(second);
    EXPECT_EQ(regions.declare(at(0x3000), 1, kRemoteGet), region) << "the slot is not reused";
    EXPECT_EQ(regions.find(key), nullptr);
    RegionUse* fresh = regions.find(region->key());
    EXPECT_TRUE(fresh->enter()) << "a use is good as new";
    fresh->leave();
    regions.release(fresh);
}

// Some threads use memory that another one declares, undeclares and unmaps. Touching unmapped
// memory would be fatal.
TEST(Regions, AreTouchedNoMoreOnceUndeclared) {
    constexpr size_t kSize = 64 * 1024;
    Regions regions;
    std::atomic<uint64_t> published{0};
    std::atomic<bool> over{false};
    std::atomic<unsigned> touched{0};
    std::vector<std::thread> users;
    for (int i = 0; i < 2; ++i)
        users.emplace_back([&] {
            std::vector<char> copy(kSize);
            while (!over) {
                const uint64_t word = published;
                RegionUse* use =
                    regions.find({static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word)});
                if (use == nullptr) continue;
                for (int k = 0; k < 5 && use->enter(); ++k) {
                    memcpy(copy.data(), reinterpret_cast<void*>(use->region().address()), kSize);
                    use->leave();
                    ++touched;
                }
                regions.release(use);
            }
        });
    const auto end = std::chrono::steady_clock::now() + test::patience();
    for (int i = 0; i < 2000 || (touched < 100 && std::chrono::steady_clock::now() < end); ++i) {
        void* memory =
            mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        Region* region = regions.declare(memory, kSize, kRemoteGet);
        published = uint64_t{region->key().index} << 32 | region->key().generation;
        if (i % 4 == 0) std::this_thread::yield();
        (void)regions.undeclare(region);
        munmap(memory, kSize);
    }
    over = true;
    for (std::thread& user : users) user.join();
    EXPECT_GE(touched, 100u);
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
    const uint32_t seed = tern::test::any_seed();
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
    for (Region* region : live) EXPECT_EQ(&regions.find(region->key())->region(), region);
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
                if (RegionUse* use = regions.find(other)) {
                    const Region& found = use->region();
                    EXPECT_EQ(found.key(), other);
                    EXPECT_EQ(found.length(), found.address() & UINT32_MAX);
                    regions.release(use);
                }
                regions.undeclare(region);
            }
        });
    for (std::thread& thread : threads) thread.join();
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
        right = right && &own.find(another->key())->region() == another;
        _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(&regions.find(region->key())->region(), region);
}

TEST(Regions, AttachmentsStayWithTheirSlots) {
    Regions regions;
    int object = 0;
    Region* const region = regions.declare(&object, sizeof(object), kRemoteGet);
    ASSERT_TRUE(region);
    EXPECT_EQ(region->attachment(), nullptr);
    region->attach(&object);
    (void)regions.undeclare(region);
    EXPECT_EQ(regions.declare(&object, sizeof(object), kRemoteGet), region);
    EXPECT_EQ(region->attachment(), &object);
    int count = 0;
    regions.for_each_attachment([&](void* attached) {
        EXPECT_EQ(attached, &object);
        ++count;
    });
    EXPECT_EQ(count, 1);
}

}  // namespace regions_test
}  // namespace tern
