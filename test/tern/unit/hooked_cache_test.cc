// SPDX-License-Identifier: BSD-3-Clause
// The hooks of the cache's owner and the kernel's events together. Real memory, no device.
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <thread>

#include "tern/unit/watched_cache.h"

// How often the kernel has been asked whether changes are under way.
static std::atomic<int> questions{0};

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
    va_list list;
    va_start(list, request);
    void* const argument = va_arg(list, void*);
    va_end(list);
    if (request == UFFDIO_WRITEPROTECT) ++questions;
    return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}

namespace tern {
namespace {

// As PIN_MONITOR=auto has it, with memory events of UCX.
class HookedCacheTest : public UserfaultTest {
  protected:
    void SetUp() override {
        alarm(test::alarm_seconds());
        open({}, true);
        if (cache->monitor() != MonitorKind::kUserfaultfd)
            GTEST_SKIP() << "userfaultfd is not allowed here";
    }
    char* map_shared(size_t pages) { return map_pages(pages, MAP_SHARED | MAP_ANONYMOUS); }
};

TEST_F(HookedCacheTest, SharedMemoryIsRememberedUntilItsChangeIsReported) {
    char* memory = map_shared(4);
    pin(memory, 4 * kPageSize);
    EXPECT_TRUE(stays_pinned(memory, 4 * kPageSize));
    cache->unmapped(memory + kPageSize, memory + 2 * kPageSize);
    EXPECT_FALSE(pinned(memory, 4 * kPageSize));
    EXPECT_EQ(cache->counters().invalidations, 1u);
    pin(memory, 4 * kPageSize);
    munmap(memory, 4 * kPageSize);
}

TEST_F(HookedCacheTest, MemoryThatTheKernelWatchesNeedsNoHook) {
    char* shared = map_shared(1);
    char* memory = map_pages(2);
    pin(shared, kPageSize);
    pin(memory, 2 * kPageSize);
    cache->unmapped(memory, memory + 2 * kPageSize);
    EXPECT_TRUE(stays_pinned(memory, 2 * kPageSize));
    EXPECT_TRUE(stays_pinned(shared, kPageSize));
    EXPECT_EQ(cache->counters().invalidations, 0u);
    munmap(memory, 2 * kPageSize);
    EXPECT_FALSE(pinned(memory, kPageSize));
    munmap(shared, kPageSize);
}

// A hook may know of a change that the kernel does not report, although it watches the memory.
TEST_F(HookedCacheTest, AHooksReportDropsPinsOfAnyMemory) {
    char* memory = map_pages(8);
    pin(memory, 8 * kPageSize);
    cache->lost_silently(memory + kPageSize, memory + 2 * kPageSize);
    EXPECT_FALSE(pinned(memory, 8 * kPageSize));
    EXPECT_EQ(cache->uses(memory, 8 * kPageSize), 0u);
    pin(memory, 8 * kPageSize);
    // Between shared memory, where hooks matter.
    char* all = map_pages(12);
    for (const size_t i : {size_t{0}, size_t{8}}) {
        void* const at = mmap(all + i * kPageSize, 4 * kPageSize, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        ASSERT_NE(at, MAP_FAILED);
        pin(static_cast<char*>(at), 4 * kPageSize);
    }
    char* const middle = all + 4 * kPageSize;
    pin(middle, 4 * kPageSize);
    cache->unmapped(middle, middle + kPageSize);
    EXPECT_FALSE(pinned(middle, 4 * kPageSize));
    // The kernel watches it all the same.
    pin(middle, 4 * kPageSize);
    madvise(middle, kPageSize, MADV_DONTNEED);
    EXPECT_FALSE(pinned(middle, 4 * kPageSize));
    munmap(memory, 8 * kPageSize);
    munmap(all, 12 * kPageSize);
}

// A purge may take longer than any time that the cache allows; hooks say when it is over.
TEST_F(HookedCacheTest, NothingIsRememberedUntilThePurgeIsOver) {
    cache = std::make_unique<PinCache>(std::make_unique<UnpinnedRegistrar>(nullptr),
                                       PinSettings{.monitor = MonitorKind::kAuto,
                                                   .has_hooks = true,
                                                   .hooks_see_all = true,
                                                   .most_bytes = 1u << 30,
                                                   .quarantine = std::chrono::milliseconds(1)});
    char* memory = map_pages(4);
    pin(memory, 4 * kPageSize);
    cache->change_begins();
    // The pages of this call go later.
    madvise(memory, kPageSize, MADV_DONTNEED);
    EXPECT_FALSE(pinned(memory, 4 * kPageSize));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pin_once(memory, 4 * kPageSize);
    EXPECT_FALSE(pinned(memory, 4 * kPageSize));
    cache->change_ends();
    pin(memory, 4 * kPageSize);
    munmap(memory, 4 * kPageSize);
}

// Announced changes may be under way.
TEST_F(HookedCacheTest, APinIsHeldWhateverElseIsAnnounced) {
    char* memory = map_pages(2);
    char* other = map_pages(2);
    pin(memory, 2 * kPageSize);
    Pin* local = cache->pin(memory, 2 * kPageSize, kLocalWrite);
    ASSERT_TRUE(local);
    const uint64_t registrations = cache->counters().registrations;
    for (int i = 0; i < 1000; ++i) {
        cache->unmapped(other, other + 2 * kPageSize);
        if (i == 500) cache->unmapped(memory, memory + 1);
        EXPECT_TRUE(stays_pinned(memory, 2 * kPageSize));
        EXPECT_TRUE(cache->is_current(*local));
    }
    EXPECT_EQ(cache->counters().registrations, registrations);
    cache->release(local);
    munmap(memory, 2 * kPageSize);
    munmap(other, 2 * kPageSize);
}

// Where no change is under way, a pin is found without a system call.
TEST_F(HookedCacheTest, TheKernelIsAskedOnlyWhileAChangeMayBeUnderWay) {
    char* memory = map_pages(2);
    pin(memory, 2 * kPageSize);
    const int before = questions;
    EXPECT_TRUE(stays_pinned(memory, 2 * kPageSize));
    EXPECT_EQ(questions, before);
    cache->unmapped(memory, memory + kPageSize);
    EXPECT_TRUE(stays_pinned(memory, 2 * kPageSize));
    EXPECT_GT(questions, before);
    cache->change_begins();
    cache->change_ends();
    const int after = questions;
    EXPECT_TRUE(stays_pinned(memory, 2 * kPageSize));
    EXPECT_EQ(questions, after);
    munmap(memory, 2 * kPageSize);
}

// Memory is not watched any more when its registration has failed.
TEST_F(HookedCacheTest, AChangeIsNotMissedAfterARegistrationThatFailed) {
    bool refuses = false;
    open([&] { errno = refuses ? EFAULT : 0; }, true);
    char* memory = map_shared(4);
    pin(memory, 2 * kPageSize);
    refuses = true;
    EXPECT_EQ(cache->pin(memory, 4 * kPageSize, kPutRight), nullptr);
    cache->unmapped(memory, memory + 4 * kPageSize);
    EXPECT_FALSE(pinned(memory, 2 * kPageSize));
    munmap(memory, 4 * kPageSize);
    cache.reset();  // the registrar uses variables of this test
}

TEST_F(HookedCacheTest, AddressesThatChangeHandsAreNotFound) {
    const auto tell = [&](char* from, char* to) { cache->unmapped(from, to); };
    EXPECT_EQ(found_in_other_hands(tell), 0);
    HeldPins held(*cache);
    EXPECT_EQ(found_in_other_hands(tell, &held), 0);
}

// While other changes are announced.
TEST_F(HookedCacheTest, AddressesThatChangeHandsAreNotFoundAmongManyChanges) {
    std::atomic<bool> stop{false};
    char* other = map_pages(1);
    pin(other, kPageSize);
    std::thread announcer([&] {
        for (unsigned i = 0; !stop; ++i) {
            char* const from = i % 3 == 0 ? other : other + i % 64 * kPageSize;
            cache->unmapped(from, from + kPageSize);
            // Where processors are few, others would hardly get the cache's lock.
            if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
            if (i % 1000 == 0) (void)pinned(other, kPageSize);
        }
    });
    HeldPins held(*cache);
    EXPECT_EQ(found_in_other_hands([&](char* from, char* to) { cache->unmapped(from, to); }, &held),
              0);
    stop = true;
    announcer.join();
    munmap(other, kPageSize);
}

}  // namespace
}  // namespace tern
