// SPDX-License-Identifier: BSD-3-Clause
// Which memory is pinned, remembered and unpinned; without a device.
#include "common/seed.h"
#include "fake_registrar.h"
#include "tern/pinning/cache/held_pins.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace tern {
namespace pin_cache_test {

TEST_F(PinCacheTest, RemembersWholePages) {
    PinCache cache = make(remembering());
    Pin* pin = cache.pin(at(0x10100), 0x1000, kPut);
    ASSERT_TRUE(pin);
    EXPECT_EQ(pin->start(), 0x10000u);
    EXPECT_EQ(pin->end(), 0x12000u);
    cache.release(pin);
    EXPECT_EQ(cache.find(at(0x10000), 0x2000, kPut), pin);
    EXPECT_EQ(cache.pin(at(0x11fff), 1, kLocalRead), pin);
    EXPECT_EQ(cache.find(at(0x10000), 0x2001, kPut), nullptr);
    EXPECT_EQ(cache.find(at(0xffff), 2, kPut), nullptr);
    EXPECT_EQ(cache.find(at(0x10000), 1, kRemoteAtomic), nullptr) << "a right it does not give";
    cache.release(pin);
    cache.release(pin);
    const PinCounters counters = cache.counters();
    EXPECT_EQ(counters.registrations, 1u);
    EXPECT_EQ(counters.hits, 2u);
    EXPECT_EQ(counters.pins, 1u);
    EXPECT_EQ(counters.pinned_bytes, 0x2000u);
}

TEST_F(PinCacheTest, RefusesRangesThatCannotBe) {
    PinCache cache = make(remembering());
    EXPECT_EQ(cache.pin(at(0x10000), 0, kPut), nullptr);
    EXPECT_EQ(cache.pin(at(UINT64_MAX - 100), 200, kPut), nullptr);
    EXPECT_EQ(cache.pin(at(0x10000), SIZE_MAX, kPut), nullptr);
    EXPECT_EQ(cache.find(at(0x10000), SIZE_MAX, kPut), nullptr);
    EXPECT_EQ(device.attempts, 0u);
}

TEST_F(PinCacheTest, WithoutAMonitorNothingIsRemembered) {
    PinCache cache = make({.monitor = MonitorKind::kNone});
    Pin* pin = cache.pin(at(0x10000), kPage, kPut);
    ASSERT_TRUE(pin);
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), nullptr);
    EXPECT_EQ(device.regions.size(), 1u);
    cache.release(pin);
    EXPECT_TRUE(device.regions.empty());
    EXPECT_EQ(cache.counters().pinned_bytes, 0u);
}

TEST_F(PinCacheTest, TheLeastRecentlyUsedGoesFirst) {
    PinCache cache = make(remembering(3 * kPage));
    for (uint64_t i : {1, 2, 3}) cache.release(cache.pin(at(i << 16), kPage, kPut));
    cache.release(cache.find(at(1 << 16), kPage, kPut));
    cache.release(cache.pin(at(4 << 16), kPage, kPut));
    EXPECT_EQ(cache.find(at(2 << 16), kPage, kPut), nullptr);
    for (uint64_t i : {1, 3, 4}) {
        Pin* pin = cache.find(at(i << 16), kPage, kPut);
        EXPECT_TRUE(pin) << i;
        if (pin != nullptr) cache.release(pin);
    }
    EXPECT_EQ(cache.counters().evictions, 1u);
    EXPECT_EQ(device.bytes(), 3 * kPage);
}

TEST_F(PinCacheTest, TheCapHoldsAndWhatIsUsedStays) {
    PinCache cache = make(remembering(4 * kPage));
    Pin* held = cache.pin(at(1 << 16), 3 * kPage, kPut);
    errno = 0;
    EXPECT_EQ(cache.pin(at(2 << 16), 2 * kPage, kPut), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(cache.pin(at(2 << 16), 5 * kPage, kPut), nullptr);
    Pin* small = cache.pin(at(3 << 16), kPage, kPut);
    EXPECT_TRUE(small) << "the cap is not the device's refusal";
    cache.release(small);
    cache.release(held);
    cache.release(cache.pin(at(2 << 16), 4 * kPage, kPut));
    EXPECT_EQ(cache.counters().pinned_bytes, 4 * kPage);
    EXPECT_EQ(cache.counters().pinned_bytes_most, 4 * kPage);
    EXPECT_EQ(cache.counters().failures, 2u);
}

TEST_F(PinCacheTest, AReplacedPinHasKeptItsPages) {
    PinCache cache = make(remembering());
    Pin* few = cache.pin(at(0x10000), kPage, kPut);
    Pin* more = cache.pin(at(0x10000), 4 * kPage, kPut);
    EXPECT_FALSE(few->listed());
    EXPECT_FALSE(few->stale());
    cache.invalidate(at(0x10000), at(0x11000));
    EXPECT_FALSE(more->listed());
    EXPECT_TRUE(more->stale());
    cache.release(few);
    cache.release(more);
}

TEST_F(PinCacheTest, PinsAreRelaxedExceptForAtomics) {
    PinSettings settings = remembering();
    const auto is_relaxed = [this](unsigned access) {
        return std::ranges::all_of(device.regions, [access](const Device::Region* region) {
            return ((region->access & IBV_ACCESS_RELAXED_ORDERING) != 0) ==
                   ((access & kRemoteAtomic) == 0);
        });
    };
    for (const unsigned access : {unsigned{kLocalRead}, unsigned{kLocalWrite}, kPut,
                                  unsigned{kRemoteGet}, kPut | kRemoteAtomic}) {
        settings.relaxed = true;
        PinCache relaxed = make(settings);
        Pin* pin = relaxed.pin(at(0x10000), kPage, access);
        ASSERT_TRUE(pin);
        EXPECT_TRUE(is_relaxed(access)) << access;
        relaxed.release(pin);
    }
    PinCache strict = make(remembering());
    Pin* pin = strict.pin(at(0x10000), kPage, kPut);
    ASSERT_EQ(device.regions.size(), 1u);
    EXPECT_EQ((*device.regions.begin())->access & IBV_ACCESS_RELAXED_ORDERING, 0);
    strict.release(pin);
}

TEST_F(PinCacheTest, ARefusalIsToldOnce) {
    PinSettings settings = remembering();
    std::vector<std::string> lines;
    settings.warn = [&](const std::string& line) { lines.push_back(line); };
    PinCache cache = make(settings);
    device.limit = 0;
    for (int i = 0; i < 2; ++i, usleep(60000))
        EXPECT_EQ(cache.pin(at(0x10000), kPage, kPut), nullptr);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("ulimit -l"), std::string::npos) << lines[0];
}

TEST_F(PinCacheTest, AfterARefusalTheDeviceIsLeftAloneForAWhile) {
    PinCache cache = make(remembering());
    device.limit = 0;
    EXPECT_EQ(cache.pin(at(0x10000), kPage, kPut), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    const unsigned attempts = device.attempts;
    device.limit = UINT64_MAX;
    for (int i = 0; i < 100; ++i) EXPECT_EQ(cache.pin(at(0x10000), kPage, kPut), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(device.attempts, attempts);
    usleep(60000);
    Pin* pin = cache.pin(at(0x10000), kPage, kPut);
    ASSERT_TRUE(pin);
    cache.release(pin);
}

TEST_F(PinCacheTest, TheLimitOfLockedMemoryIsSharedWithOthers) {
    PinCache cache = make(remembering());
    for (uint64_t i : {1, 2, 3, 4}) cache.release(cache.pin(at(i << 16), kPage, kPut));
    device.limit = 4 * kPage;
    Pin* pin = cache.pin(at(5 << 16), 2 * kPage, kPut);
    ASSERT_TRUE(pin) << "what is not used makes room";
    cache.release(pin);
    EXPECT_EQ(device.bytes(), 4 * kPage);
}

TEST_F(PinCacheTest, ReadOnlyPagesCanBeReadOnce) {
    PinCache cache = make(remembering());
    device.read_only = 0x10000;
    EXPECT_EQ(cache.pin(at(0x10000), kPage, kLocalRead | kLocalWrite), nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(cache.pin(at(0x10000), kPage, kPut), nullptr);
    Pin* pin = cache.pin(at(0x10000), kPage, kLocalRead);
    ASSERT_TRUE(pin);
    EXPECT_EQ(cache.find(at(0x10000), kPage, kLocalRead), nullptr)
        << "a store would take other pages";
    cache.release(pin);
    EXPECT_TRUE(device.regions.empty());
}

TEST_F(PinCacheTest, OnePinForAllRights) {
    PinCache cache = make(remembering());
    cache.release(cache.pin(at(0x10000), 4 * kPage, kRemoteGet));
    cache.release(cache.pin(at(0x11000), kPage, kRemotePut));
    cache.release(cache.pin(at(0x10000), 4 * kPage, kRemotePut));
    EXPECT_EQ(cache.counters().pins, 1u);
    const uint64_t registrations = cache.counters().registrations;
    for (const unsigned access : {kRemoteGet, kRemotePut, kLocalWrite})
        cache.release(cache.pin(at(0x11000), kPage, access));
    EXPECT_EQ(cache.counters().registrations, registrations);
}

TEST_F(PinCacheTest, RightsOfReadOnlyNeighboursAreNotInsistedOn) {
    PinCache cache = make(remembering());
    cache.release(cache.pin(at(0x10000), 2 * kPage, kRemotePut));
    device.read_only = 0x12000;
    Pin* pin = cache.pin(at(0x11000), 2 * kPage, kLocalRead);
    ASSERT_TRUE(pin);
    cache.release(pin);
}

TEST_F(PinCacheTest, InvalidMemoryIsNotFound) {
    PinCache cache = make(remembering());
    for (uint64_t i = 0; i < 8; ++i) cache.release(cache.pin(at(0x10000 + i * kPage), kPage, kPut));
    cache.invalidate(at(0x11800), at(0x13001));
    for (uint64_t i = 0; i < 8; ++i) {
        Pin* pin = cache.find(at(0x10000 + i * kPage), kPage, kPut);
        EXPECT_EQ(pin == nullptr, i >= 1 && i <= 3) << i;
        if (pin != nullptr) cache.release(pin);
    }
    EXPECT_EQ(cache.counters().invalidations, 3u);
    EXPECT_EQ(device.bytes(), 5 * kPage);
}

// Pins made soon after an early change are not remembered, but later ones will be.
TEST_F(PinCacheTest, QuarantineIsNoReasonToGiveABufferUp) {
    PinSettings settings = remembering();
    settings.quarantine = std::chrono::hours(1);
    PinCache cache = make(settings);
    cache.unmapped(at(0x10000), at(0x20000));
    (void)cache.note(at(0x10000), kPage);
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), nullptr);
    EXPECT_TRUE(cache.keeps(at(0x10000), kPage));
}

TEST_F(PinCacheTest, InvalidMemoryInUseStaysPinnedUntilReleased) {
    PinCache cache = make(remembering());
    Pin* pin = cache.pin(at(0x10000), kPage, kPut);
    cache.unmapped(at(0x10000), at(0x11000));
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), nullptr);
    EXPECT_EQ(device.regions.size(), 1u);
    Pin* next = cache.pin(at(0x10000), kPage, kPut);
    EXPECT_NE(next, pin);
    EXPECT_EQ(device.regions.size(), 2u);
    cache.release(pin);
    EXPECT_EQ(device.regions.size(), 1u);
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), next);
    cache.release(next);
    cache.release(next);
}

TEST_F(PinCacheTest, AChangeDuringTheRegistrationIsNotMissed) {
    PinCache cache = make(remembering());
    device.meanwhile = [&] { cache.unmapped(at(0x11000), at(0x12000)); };
    Pin* pin = cache.pin(at(0x10000), 4 * kPage, kPut);
    ASSERT_TRUE(pin);
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), nullptr);
    cache.release(pin);
    EXPECT_TRUE(device.regions.empty());
    device.meanwhile = [&] { cache.invalidate(at(0x11000), at(0x12000)); };
    cache.release(cache.pin(at(0x10000), 4 * kPage, kPut));
    EXPECT_TRUE(device.regions.empty());
}

TEST_F(PinCacheTest, MemoryAboutToGoIsNotRemembered) {
    PinSettings settings = remembering();
    settings.quarantine = std::chrono::milliseconds(50);
    PinCache cache = make(settings);
    cache.unmapped(at(0x10000), at(0x11000));
    // The pages are still there, and are registered once more.
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    EXPECT_TRUE(device.regions.empty());
    usleep(60000);
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    EXPECT_EQ(device.regions.size(), 1u);
    // More ranges than the cache can keep in quarantine.
    for (uint64_t i = 0; i < 1000; ++i) cache.unmapped(at(i << 20), at((i << 20) + kPage));
    cache.release(cache.pin(at(1 << 20), kPage, kPut));
    EXPECT_EQ(cache.find(at(1 << 20), kPage, kPut), nullptr);
}

TEST_F(PinCacheTest, MoreChangesThanThereIsRoomForAreAChangeOfEverything) {
    PinCache cache = make(remembering());
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    for (uint64_t i = 0; i < 10000; ++i) cache.unmapped(at(i << 30), at((i << 30) + kPage));
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), nullptr);
    EXPECT_TRUE(device.regions.empty());
}

TEST_F(PinCacheTest, ProgressLetsGoOfInvalidMemory) {
    PinCache cache = make(remembering());
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    cache.unmapped(nullptr, at(0x11000));
    EXPECT_EQ(device.regions.size(), 1u);
    cache.progress();
    EXPECT_TRUE(device.regions.empty());
}

TEST_F(PinCacheTest, InvalidMemoryIsLetGoOfEvenIfNobodyCommunicates) {
    PinSettings settings = remembering();
    settings.background = true;
    PinCache cache = make(settings);
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    cache.unmapped(nullptr, at(0x11000));
    for (int i = 0; i < 2000 && cache.counters().pins != 0; ++i) usleep(1000);
    EXPECT_EQ(cache.counters().pins, 0u);
    EXPECT_EQ(device.bytes(), 0u);
}

TEST_F(PinCacheTest, AForkTakesPagesWhereTheKernelDoesNotPreventIt) {
    device.survives_fork = false;
    PinCache cache = make(remembering());
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    const pid_t child = fork();
    if (child == 0) _exit(0);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), nullptr);
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    Pin* pin = cache.find(at(0x10000), kPage, kPut);
    ASSERT_TRUE(pin);
    cache.release(pin);
}

TEST_F(PinCacheTest, WithPagingOnDemandThereIsNothingToWatch) {
    device.on_demand = true;
    EXPECT_NE(make({.background = false}).monitor(), MonitorKind::kOdp) << "only if asked for";
    PinCache cache = make({.monitor = MonitorKind::kOdp, .background = false});
    EXPECT_EQ(cache.monitor(), MonitorKind::kOdp);
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    EXPECT_EQ((*device.regions.begin())->access & IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND);
    Pin* pin = cache.find(at(0x10000), kPage, kPut);
    ASSERT_TRUE(pin);
    cache.release(pin);
    EXPECT_EQ(make({.monitor = MonitorKind::kUcm}).monitor(), MonitorKind::kNone)
        << "nobody hears of changes";
}

TEST_F(PinCacheTest, ReuseIsCounted) {
    PinCache cache = make(remembering());
    EXPECT_EQ(cache.uses(at(0x10010), 10000), 0u);
    for (uint32_t i = 1; i < 5; ++i) EXPECT_EQ(cache.note(at(0x10010), 10000), i);
    EXPECT_EQ(cache.uses(at(0x10010), 10000), 4u);
    EXPECT_EQ(cache.uses(at(0x10100), 10000), 4u) << "almost all of it";
    EXPECT_EQ(cache.uses(at(0x10010), 20000), 0u);
    EXPECT_EQ(cache.uses(at(0x20000), 10000), 0u);
    cache.unmapped(at(0x12000), at(0x13000));
    EXPECT_EQ(cache.uses(at(0x10010), 10000), 0u);
    // Fresh buffers do not displace one that is used often.
    for (uint64_t i = 0; i < 3000; ++i) {
        if (i % 16 == 0) cache.note(at(0x10010), 10000);
        EXPECT_EQ(cache.note(at(0x1000000 + (i << 16)), 10000), 1u);
    }
    EXPECT_GT(cache.uses(at(0x10010), 10000), 100u);
}

// As the buffers of an all-to-all of a thousand ranks.
TEST_F(PinCacheTest, ReuseOfThousandsOfBuffersIsCounted) {
    for (const uint64_t bytes : {uint64_t{4096}, uint64_t{256} << 10}) {
        PinCache cache = make(remembering());
        unsigned reused = 0;
        for (uint32_t use = 1; use <= 8; ++use)
            for (uint64_t i = 0; i < 2048; ++i)
                reused += cache.note(at(0x1000000 + i * bytes), bytes) >= 3 && use == 8;
        EXPECT_GE(reused, 2040u) << bytes;
    }
}

TEST_F(PinCacheTest, ReuseOfManyShortBuffersSideBySideIsCounted) {
    PinCache cache = make(remembering());
    for (uint32_t use = 1; use < 5; ++use)
        for (uint64_t i = 0; i < 64; ++i)
            EXPECT_EQ(cache.note(at(0x10000 + i * kPage), kPage), use) << i;
    EXPECT_EQ(cache.note(at(0x10000), 64 * kPage), 1u);
    EXPECT_EQ(cache.uses(at(0x10000 + 64 * kPage), kPage), 0u);
}

TEST_F(PinCacheTest, WhatCannotBePinnedIsNotTriedAgain) {
    device.read_only = 0x10000;
    PinCache cache = make(remembering());
    (void)cache.note(at(0x20000), kPage);
    EXPECT_TRUE(cache.keeps(at(0x20000), kPage));
    EXPECT_EQ(cache.pin(at(0x20000), kPage, kLocalWrite), nullptr);
    EXPECT_FALSE(cache.keeps(at(0x20000), kPage));
    cache.unmapped(at(0x20000), at(0x30000));
    (void)cache.note(at(0x20000), kPage);
    EXPECT_TRUE(cache.keeps(at(0x20000), kPage)) << "other memory";
}

TEST_F(PinCacheTest, HeldPinsAreFoundUntilTheMemoryGoes) {
    PinCache cache = make(remembering());
    cache.release(cache.pin(at(0x10000), kPage, kLocalWrite));
    HeldPins held(cache);
    EXPECT_FALSE(held.find(at(0x20000), 8, kLocalWrite)) << "nothing is pinned there";
    const HeldPins::Use one = held.find(at(0x10000), kPage, kLocalWrite);
    const HeldPins::Use other = held.find(at(0x10100), 8, kLocalRead);
    ASSERT_TRUE(one);
    EXPECT_EQ(one.pin, other.pin);
    EXPECT_EQ(cache.counters().hits, 1u) << "the second use needs no lock";
    EXPECT_FALSE(held.find(at(0x10100), kPage, kLocalRead)) << "longer than the pin";
    EXPECT_FALSE(held.find(at(0x10000), 8, kRemoteGet)) << "a right it does not give";
    held.release(one);
    cache.unmapped(at(0x10000), at(0x11000));
    EXPECT_FALSE(held.find(at(0x10000), 8, kLocalRead));
    held.progress();
    EXPECT_EQ(device.regions.size(), 1u) << "a use is left";
    held.release(other);
    EXPECT_TRUE(held.idle());
    held.progress();
    EXPECT_FALSE(held.idle());
    EXPECT_TRUE(device.regions.empty());
}

// An invalidation takes the peers' rights at once.
TEST_F(PinCacheTest, PinsWithRightsOfPeersAreNotHeldAfterUse) {
    PinCache cache = make(remembering());
    cache.release(cache.pin(at(0x10000), kPage, kPut));
    HeldPins held(cache);
    const HeldPins::Use use = held.find(at(0x10000), kPage, kLocalRead);
    ASSERT_TRUE(use);
    held.release(use);
    EXPECT_FALSE(held.idle());
    cache.invalidate(at(0x10000), at(0x11000));
    EXPECT_TRUE(device.regions.empty());
}

TEST_F(PinCacheTest, HeldPinsMakeRoomInAStreamOfUses) {
    PinCache cache = make(remembering(4 * kPage));
    HeldPins held(cache);
    for (const uint64_t page : {0x10000, 0x20000})
        cache.release(cache.pin(at(page), 2 * kPage, kLocalWrite));
    held.release(held.find(at(0x10000), 8, kLocalWrite));
    const HeldPins::Use use = held.find(at(0x20000), 8, kLocalWrite);
    held.progress();
    EXPECT_EQ(cache.pin(at(0x30000), 2 * kPage, kLocalWrite), nullptr) << "both are held";
    held.progress();
    Pin* const pin = cache.pin(at(0x30000), 2 * kPage, kLocalWrite);
    EXPECT_NE(pin, nullptr) << "room was wanted";
    if (pin != nullptr) cache.release(pin);
    held.release(use);
}

TEST_F(PinCacheTest, AnyNumberOfPinsMayBeHeld) {
    PinCache cache = make(remembering());
    constexpr uint64_t kPins = 1000;
    std::vector<HeldPins::Use> uses;
    HeldPins held(cache);
    for (uint64_t i = 0; i < kPins; ++i)
        cache.release(cache.pin(at((i + 1) << 16), kPage, kLocalWrite));
    for (int round = 0; round < 3; ++round) {
        for (uint64_t i = 0; i < kPins; ++i) {
            uses.push_back(held.find(at((i + 1) << 16), kPage, kLocalWrite));
            ASSERT_TRUE(uses.back());
            EXPECT_EQ(uses.back().pin->start(), (i + 1) << 16);
        }
        for (const HeldPins::Use& use : uses) held.release(use);
        uses.clear();
        if (round == 1) held.progress();
    }
    cache.unmapped(at(0x10000), at((kPins + 1) << 16));
    cache.progress();
    held.progress();
    EXPECT_TRUE(device.regions.empty());
}

TEST_F(PinCacheTest, OfAParentIsNothingToItsChild) {
    auto cache = std::make_unique<PinCache>(std::make_unique<FakeRegistrar>(device), remembering());
    cache->release(cache->pin(at(0x10000), kPage, kPut));
    const pid_t child = fork();
    if (child == 0) {
        bool right = cache->find(at(0x10000), kPage, kPut) == nullptr;
        right = right && cache->pin(at(0x10000), kPage, kPut) == nullptr;
        cache->invalidate(nullptr, at(UINT64_MAX));
        cache.reset();
        _exit(right && device.regions.size() == 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    Pin* pin = cache->find(at(0x10000), kPage, kPut);
    ASSERT_TRUE(pin);
    cache->release(pin);
}

// Against a record of what may be found.
TEST_F(PinCacheTest, FindsOnlyWhatIsValidWhateverHappens) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    constexpr unsigned kPages = 64;
    PinCache cache = make(remembering(40 * kPage));
    std::vector<uint64_t> changed(kPages, 0);  // time of the page's latest change
    std::map<const Pin*, std::pair<uint64_t, unsigned>> held;
    std::map<uint32_t, uint64_t> born;  // time of registration, by the region's key
    uint64_t now = 1;
    uint64_t found = 0;
    for (int step = 0; step < 100000; ++step, ++now) {
        const unsigned first = random() % kPages;
        const unsigned count = 1 + random() % std::min(12u, kPages - first);
        void* address = at((first + 16) * kPage);
        switch (random() % 8) {
            case 0:
                for (unsigned i = first; i < first + count; ++i) changed[i] = now;
                if (random() % 2 == 0)
                    cache.unmapped(address, at((first + count + 16) * kPage));
                else
                    cache.invalidate(address, at((first + count + 16) * kPage));
                break;
            case 1:
            case 2:
                if (!held.empty()) {
                    const auto it = std::next(held.begin(), random() % held.size());
                    auto* pin = const_cast<Pin*>(it->first);
                    if (--it->second.second == 0) held.erase(it);
                    cache.release(pin);
                }
                break;
            default: {
                const unsigned access = random() % 2 == 0 ? kRemotePut : kRemoteGet;
                const uint64_t registered = cache.counters().registrations;
                Pin* pin = random() % 2 == 0 ? cache.find(address, count * kPage, access)
                                             : cache.pin(address, count * kPage, access);
                if (pin == nullptr) break;
                ASSERT_TRUE(
                    pin->covers((first + 16) * kPage, (first + count + 16) * kPage, access));
                if (cache.counters().registrations != registered) {
                    ASSERT_FALSE(held.contains(pin));
                    held[pin] = {now, 1};
                    born[pin->lkey()] = now;
                } else {
                    ++found;
                    for (uint64_t i = pin->start() / kPage; i < pin->end() / kPage; ++i)
                        ASSERT_LT(changed[i - 16], born[pin->lkey()])
                            << "page " << i << " is stale";
                    ++held[pin].second;
                }
            }
        }
        ASSERT_LE(device.bytes(), 40 * kPage);
        ASSERT_EQ(device.bytes(), cache.counters().pinned_bytes);
        ASSERT_EQ(device.regions.size(), cache.counters().pins);
    }
    EXPECT_GT(found, 1000u);
    for (auto& [pin, use] : held)
        for (unsigned i = 0; i < use.second; ++i) cache.release(const_cast<Pin*>(pin));
}

// Memory that may not be written must not be registered as writable: with paging on demand that
// succeeds, and the device's accesses fail. No copy on write escapes the device.
TEST_F(PinCacheTest, OnDemandReadsAreRegisteredForReading) {
    device.on_demand = true;
    PinCache cache =
        make({.monitor = MonitorKind::kOdp, .most_bytes = 1u << 30, .background = false});
    ASSERT_EQ(cache.monitor(), MonitorKind::kOdp);
    Pin* const read = cache.pin(at(0x10000), kPage, kLocalRead);
    ASSERT_TRUE(read);
    EXPECT_EQ((*device.regions.begin())->access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND),
              IBV_ACCESS_ON_DEMAND);
    cache.release(read);
    EXPECT_EQ(cache.find(at(0x10000), kPage, kLocalRead), read) << "it is remembered";
    cache.release(read);
    EXPECT_EQ(cache.find(at(0x10000), kPage, kPut), nullptr);
    Pin* const written = cache.pin(at(0x10000), kPage, kPut);
    ASSERT_TRUE(written);
    cache.release(written);
    // The program may make its memory read-only after it has received: then an access by a pin that
    // writes fails, whatever the access.
    for (int i = 0; i < 3; ++i) {
        for (const unsigned access : {unsigned{kLocalRead}, unsigned{kRemoteGet}}) {
            Pin* const reading = cache.pin(at(0x10000), kPage, access);
            ASSERT_TRUE(reading);
            EXPECT_FALSE(writes(reading->access()));
            cache.release(reading);
        }
        for (const unsigned access : {unsigned{kLocalWrite}, kPut}) {
            Pin* const writing = cache.pin(at(0x10000), kPage, access);
            ASSERT_TRUE(writing);
            EXPECT_TRUE(writes(writing->access()));
            cache.release(writing);
        }
        EXPECT_LE(cache.counters().registrations, 4u) << "both kinds are remembered";
    }
    cache.invalidate(at(0x10000), at(0x10000 + kPage));
    EXPECT_EQ(cache.counters().pins, 0u);
}

TEST_F(PinCacheTest, RoomIsGivenUp) {
    PinCache cache = make(remembering());
    for (uint64_t i = 1; i <= 4; ++i) cache.release(cache.pin(at(i << 16), kPage, kPut));
    Pin* const used = cache.find(at(4 << 16), kPage, kPut);
    EXPECT_TRUE(cache.give_up(2 * kPage));
    EXPECT_EQ(device.bytes(), 2 * kPage);
    EXPECT_TRUE(cache.give_up(1 << 20));
    EXPECT_EQ(device.bytes(), kPage) << "all that is not in use";
    EXPECT_FALSE(cache.give_up(1));
    cache.release(used);
}

}  // namespace pin_cache_test
}  // namespace tern
