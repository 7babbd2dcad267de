// SPDX-License-Identifier: BSD-3-Clause
// The kernel's events about memory reach the cache. Real memory, no device.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pinning/cache/held_pins.h"
#include "pinning/cache/pin_cache.h"

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

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr unsigned kPut = kRemotePut;

// Registers nothing, but can run another function instead, which may refuse by EFAULT.
class Paper final : public Registrar {
  public:
    explicit Paper(std::function<void()> also) : also_(std::move(also)) {}
    ibv_mr* add(void*, size_t, int) override {
        errno = 0;
        if (also_) also_();
        return errno != EFAULT ? new ibv_mr{} : nullptr;
    }
    void remove(ibv_mr* region) override {
        delete region;
        if (also_) also_();
    }

  private:
    std::function<void()> also_;
};

char* map(size_t pages, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1) {
    void* memory = mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, flags, fd, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return static_cast<char*>(memory);
}

class UserfaultTest : public testing::Test {
  protected:
    void SetUp() override {
        alarm(50);  // a thread whose event nobody reads would wait for ever
        open({});
        if (cache->monitor() != MonitorKind::kUserfaultfd)
            GTEST_SKIP() << "userfaultfd is not allowed here";
    }
    void TearDown() override { alarm(0); }

    // `hears`: changes of memory are told by unmapped() as well.
    void open(std::function<void()> also, bool hears = false) {
        const MonitorKind monitor = hears ? MonitorKind::kAuto : MonitorKind::kUserfaultfd;
        cache = std::make_unique<PinCache>(std::make_unique<Paper>(std::move(also)),
                                           PinSettings{.monitor = monitor,
                                                       .owner_hears = hears,
                                                       .owner_hears_all = hears,
                                                       .most_bytes = 1u << 30,
                                                       .quarantine = std::chrono::milliseconds(0)});
    }
    void pin_once(const void* start, size_t length) {
        Pin* pin = cache->pin(start, length, kPut);
        ASSERT_TRUE(pin);
        cache->release(pin);
    }
    // Pins until the pin is remembered: late events about earlier memory at these addresses make
    // the first pin stale.
    void pin(const void* start, size_t length) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        do {
            pin_once(start, length);
            if (pinned(start, length)) return;
            std::this_thread::yield();
        } while (std::chrono::steady_clock::now() < limit);
        ADD_FAILURE() << "never remembered";
    }
    bool pinned(const void* start, size_t length) {
        Pin* pin = cache->find(start, length, kPut);
        if (pin != nullptr) cache->release(pin);
        return pin != nullptr;
    }
    // find() returns nothing while the reader is still at an earlier event, and the reader may be
    // preempted there.
    bool stays_pinned(const void* start, size_t length) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!pinned(start, length)) {
            if (std::chrono::steady_clock::now() > limit) return false;
            std::this_thread::yield();
        }
        return true;
    }

    // Another thread unmaps memory, and this one gets its addresses: how often they are still
    // found. `tell` is called before the memory goes. `held`: found without the lock, if any.
    template <typename Tell>
    int found_in_other_hands(Tell&& tell, HeldPins* held = nullptr) {
        constexpr int kRounds = 3000;
        const size_t length = 4 * kPage;
        char* memory = map(4);
        std::atomic<int> asked{0};
        std::atomic<int> given{0};
        std::thread giver([&] {
            for (int i = 1; i <= kRounds; ++i) {
                while (asked < i) std::this_thread::yield();
                given = i;
                tell(memory, memory + length);
                munmap(memory, length);
            }
        });
        const auto is_found = [&] {
            if (held == nullptr) return pinned(memory, length);
            const HeldPins::Use use = held->find(memory, length, kLocalWrite);
            if (use) held->release(use);
            return static_cast<bool>(use);
        };
        int found = 0;
        for (int i = 1; i <= kRounds; ++i) {
            Pin* pin = cache->pin(memory, length, held == nullptr ? kPut : unsigned{kLocalWrite});
            EXPECT_TRUE(pin);
            if (pin != nullptr) cache->release(pin);
            if (held != nullptr) (void)is_found();
            asked = i;
            while (given < i) std::this_thread::yield();
            while (mmap(memory, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != memory) {
            }
            found += is_found();
            if (held != nullptr) held->progress();
        }
        giver.join();
        munmap(memory, length);
        return found;
    }

    std::unique_ptr<PinCache> cache;
};

TEST_F(UserfaultTest, MemoryThatStaysIsRemembered) {
    char* memory = map(16);
    pin(memory, 16 * kPage);
    memset(memory, 1, 16 * kPage);
    mprotect(memory, kPage, PROT_READ);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(stays_pinned(memory, 16 * kPage));
    EXPECT_EQ(cache->counters().registrations, 1u);
    munmap(memory, 16 * kPage);
}

TEST_F(UserfaultTest, UnmappedMemoryIsNotFoundEvenIfItIsMappedAgain) {
    for (int round = 0; round < 50; ++round) {
        char* memory = map(16);
        pin(memory, 8 * kPage);
        pin(memory + 8 * kPage, 8 * kPage);
        munmap(memory, 4 * kPage);
        EXPECT_FALSE(pinned(memory, kPage));
        EXPECT_FALSE(pinned(memory + 7 * kPage, kPage)) << "one pin, some pages of it unmapped";
        EXPECT_TRUE(stays_pinned(memory + 8 * kPage, 8 * kPage));
        ASSERT_EQ(mmap(memory, 16 * kPage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  memory);
        EXPECT_FALSE(pinned(memory, kPage));
        EXPECT_FALSE(pinned(memory + 8 * kPage, kPage)) << "mapped over";
        // The range is watched again.
        pin(memory, 16 * kPage);
        EXPECT_TRUE(stays_pinned(memory, 16 * kPage));
        munmap(memory, 16 * kPage);
        EXPECT_FALSE(pinned(memory + kPage, kPage));
    }
}

TEST_F(UserfaultTest, MemoryThatLosesItsPagesIsNotFound) {
    char* memory = map(64);
    for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
        pin(memory, 4 * kPage);
        pin(memory + 4 * kPage, 4 * kPage);
        madvise(memory + 2 * kPage, kPage, advice);
        EXPECT_FALSE(pinned(memory, 4 * kPage)) << advice;
        EXPECT_TRUE(stays_pinned(memory + 4 * kPage, 4 * kPage));
        pin(memory, 4 * kPage);
        EXPECT_TRUE(stays_pinned(memory, 4 * kPage)) << "still watched";
    }
    munmap(memory, 64 * kPage);
}

TEST_F(UserfaultTest, MovedMemoryIsNotFound) {
    char* memory = map(32);
    pin(memory, 16 * kPage);
    auto* moved = static_cast<char*>(
        mremap(memory, 16 * kPage, 256 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, map(256)));
    ASSERT_NE(moved, MAP_FAILED);
    EXPECT_FALSE(pinned(memory, kPage));
    EXPECT_FALSE(pinned(moved, kPage));
    pin(moved, 256 * kPage);
    ASSERT_EQ(mremap(moved, 256 * kPage, 128 * kPage, 0), moved);
    EXPECT_FALSE(pinned(moved, kPage));
    pin(moved, 128 * kPage);
    ASSERT_NE(mremap(moved, 128 * kPage, 128 * kPage, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr),
              MAP_FAILED);
    EXPECT_FALSE(pinned(moved, kPage)) << "mapped still, but its pages are elsewhere";
}

TEST_F(UserfaultTest, TheHeapAndTheStackAreWatched) {
    for (int round = 0; round < 5; ++round) {
        constexpr size_t kSize = 3 << 20;
        char* block = static_cast<char*>(malloc(kSize));
        memset(block, 1, kSize);
        pin(block, kSize);
        EXPECT_TRUE(stays_pinned(block, kSize));
        // volatile: prevents the compiler's warning of use after free, which this test is about.
        volatile auto address = reinterpret_cast<uintptr_t>(block + kSize / 2) & ~(kPage - 1);
        free(block);
        malloc_trim(0);
        auto* inside = reinterpret_cast<char*>(uintptr_t{address});
        unsigned char there = 0;
        const bool gone = mincore(inside, kPage, &there) != 0 || (there & 1) == 0;
        EXPECT_TRUE(gone ? !pinned(inside, kPage) : stays_pinned(inside, kPage))
            << (gone ? "the allocator has given it back" : "the allocator has kept it");
    }
    char array[65536];
    memset(array, 1, sizeof(array));
    pin(array, sizeof(array));
    EXPECT_TRUE(stays_pinned(array, sizeof(array)));
    // The stack of a thread that ends.
    char* there = nullptr;
    std::thread([&] {
        char local[100000];
        memset(local, 1, sizeof(local));
        there = local;
        pin(local, sizeof(local));
    }).join();
    EXPECT_FALSE(pinned(there, 100000));
}

// As PIN_MONITOR=auto has it, with memory events of UCX.
class HearingTest : public UserfaultTest {
  protected:
    void SetUp() override {
        alarm(50);
        open({}, true);
        if (cache->monitor() != MonitorKind::kUserfaultfd)
            GTEST_SKIP() << "userfaultfd is not allowed here";
    }
    char* map_shared(size_t pages) { return map(pages, MAP_SHARED | MAP_ANONYMOUS); }
};

TEST_F(HearingTest, SharedMemoryIsRememberedUntilItsChangeIsTold) {
    char* memory = map_shared(4);
    pin(memory, 4 * kPage);
    EXPECT_TRUE(stays_pinned(memory, 4 * kPage));
    cache->unmapped(memory + kPage, memory + 2 * kPage);
    EXPECT_FALSE(pinned(memory, 4 * kPage));
    EXPECT_EQ(cache->counters().invalidations, 1u);
    pin(memory, 4 * kPage);
    munmap(memory, 4 * kPage);
}

TEST_F(HearingTest, MemoryThatTheKernelWatchesNeedsNoWord) {
    char* shared = map_shared(1);
    char* memory = map(2);
    pin(shared, kPage);
    pin(memory, 2 * kPage);
    cache->unmapped(memory, memory + 2 * kPage);
    EXPECT_TRUE(stays_pinned(memory, 2 * kPage));
    EXPECT_TRUE(stays_pinned(shared, kPage));
    EXPECT_EQ(cache->counters().invalidations, 0u);
    munmap(memory, 2 * kPage);
    EXPECT_FALSE(pinned(memory, kPage));
    munmap(shared, kPage);
}

// What has been told may be under way, but only some of it matters.
TEST_F(HearingTest, APinIsHeldWhateverElseIsTold) {
    char* memory = map(2);
    char* other = map(2);
    pin(memory, 2 * kPage);
    Pin* local = cache->pin(memory, 2 * kPage, kLocalWrite);
    ASSERT_TRUE(local);
    const uint64_t registrations = cache->counters().registrations;
    for (int i = 0; i < 1000; ++i) {
        cache->unmapped(other, other + 2 * kPage);
        if (i == 500) cache->unmapped(memory, memory + 1);
        EXPECT_TRUE(stays_pinned(memory, 2 * kPage));
        while (!cache->is_current(*local)) EXPECT_TRUE(stays_pinned(memory, 2 * kPage));
    }
    EXPECT_EQ(cache->counters().registrations, registrations);
    cache->release(local);
    munmap(memory, 2 * kPage);
    munmap(other, 2 * kPage);
}

// The memory is new: neither change of what was there before can matter any more.
TEST_F(HearingTest, TheKernelIsNotAskedAboutEarlierMemory) {
    for (const bool was_pinned : {false, true}) {
        char* memory = map(2);
        if (was_pinned) pin(memory, 2 * kPage);
        cache->unmapped(memory, memory + 2 * kPage);
        munmap(memory, 2 * kPage);
        ASSERT_EQ(mmap(memory, 2 * kPage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                  memory);
        pin(memory, 2 * kPage);
        const int before = questions;
        EXPECT_TRUE(stays_pinned(memory, 2 * kPage));
        EXPECT_EQ(questions, before) << was_pinned;
        cache->unmapped(memory, memory + kPage);
        EXPECT_TRUE(stays_pinned(memory, 2 * kPage));
        EXPECT_GT(questions, before) << "a change may be under way";
        munmap(memory, 2 * kPage);
    }
}

// Nobody hears any more of memory whose registration has failed.
TEST_F(HearingTest, AChangeIsNotMissedAfterARegistrationThatFailed) {
    bool refuses = false;
    open([&] { errno = refuses ? EFAULT : 0; }, true);
    char* memory = map_shared(4);
    pin(memory, 2 * kPage);
    refuses = true;
    EXPECT_EQ(cache->pin(memory, 4 * kPage, kPut), nullptr);
    cache->unmapped(memory, memory + 4 * kPage);
    EXPECT_FALSE(pinned(memory, 2 * kPage));
    munmap(memory, 4 * kPage);
    cache.reset();  // the registrar uses variables of this test
}

TEST_F(UserfaultTest, WhatCannotBeWatchedIsNotRemembered) {
    const auto forgets = [&](char* memory, const char* what) {
        ASSERT_NE(memory, MAP_FAILED);
        Pin* once = cache->pin(memory, 2 * kPage, kPut);
        EXPECT_TRUE(once) << what;
        if (once != nullptr) cache->release(once);
        EXPECT_FALSE(pinned(memory, 2 * kPage)) << what;
        EXPECT_EQ(cache->counters().pins, 0u);
        munmap(memory, 2 * kPage);
    };
    const int file = memfd_create("file", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(4 * kPage)), 0);
    forgets(map(2, MAP_SHARED, file), "another process may truncate it");
    forgets(map(2, MAP_PRIVATE, file), "a private mapping of a file");
    forgets(map(2, MAP_SHARED | MAP_ANONYMOUS), "a child may remove its pages");
    close(file);
    char* mixed = map(2);
    mmap(mixed + kPage, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
         0);
    forgets(mixed, "half of it is shared");

    // Memory that another userfaultfd watches.
    const auto fd = static_cast<int>(
        syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */));
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    ASSERT_EQ(ioctl(fd, UFFDIO_API, &api), 0);
    char* taken = map(2);
    uffdio_register request{};
    request.range = {reinterpret_cast<uintptr_t>(taken), 2 * kPage};
    request.mode = UFFDIO_REGISTER_MODE_WP;
    ASSERT_EQ(ioctl(fd, UFFDIO_REGISTER, &request), 0);
    forgets(taken, "another userfaultfd has it");
    close(fd);
}

TEST_F(UserfaultTest, HugePagesAreNotRemembered) {
    constexpr size_t kHuge = 2 << 20;
    void* memory = mmap(nullptr, kHuge, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "there are no huge pages";
    pin_once(memory, kHuge);
    EXPECT_FALSE(pinned(memory, kHuge));
    munmap(memory, kHuge);
}

TEST_F(UserfaultTest, WatchedRangesMayOverlap) {
    char* memory = map(64);
    pin(memory, 8 * kPage);
    pin(memory + 4 * kPage, 8 * kPage);
    pin(memory + 20 * kPage, 4 * kPage);
    pin(memory + 2 * kPage, 40 * kPage);
    EXPECT_TRUE(stays_pinned(memory, 8 * kPage));
    EXPECT_TRUE(stays_pinned(memory + 2 * kPage, 40 * kPage));
    munmap(memory + 5 * kPage, kPage);
    EXPECT_FALSE(pinned(memory, 8 * kPage));
    EXPECT_FALSE(pinned(memory + 30 * kPage, kPage));
    munmap(memory, 64 * kPage);
}

// Another thread may get the addresses before munmap() returns in the thread that unmaps them.
TEST_F(UserfaultTest, AddressesThatChangeHandsAreNotFound) {
    EXPECT_EQ(found_in_other_hands([](char*, char*) {}), 0);
}

TEST_F(HearingTest, AddressesThatChangeHandsAreNotFound) {
    const auto tell = [&](char* from, char* to) { cache->unmapped(from, to); };
    EXPECT_EQ(found_in_other_hands(tell), 0);
    HeldPins held(*cache);
    EXPECT_EQ(found_in_other_hands(tell, &held), 0);
}

// Whatever else is told, and examined, at the same time.
TEST_F(HearingTest, AddressesThatChangeHandsAreNotFoundAmongManyChanges) {
    std::atomic<bool> stop{false};
    char* other = map(1);
    pin(other, kPage);
    std::thread teller([&] {
        for (unsigned i = 0; !stop; ++i) {
            char* const from = i % 3 == 0 ? other : other + i % 64 * kPage;
            cache->unmapped(from, from + kPage);
            if (i % 100 == 0) std::this_thread::yield();
            if (i % 1000 == 0) (void)pinned(other, kPage);
        }
    });
    HeldPins held(*cache);
    EXPECT_EQ(found_in_other_hands([&](char* from, char* to) { cache->unmapped(from, to); }, &held),
              0);
    stop = true;
    teller.join();
    munmap(other, kPage);
}

// An allocator may give memory back at any time: in a free() within deregistration, for example.
TEST_F(UserfaultTest, TheDeviceMayUnmapWatchedMemory) {
    std::vector<char*> spare;
    for (int i = 0; i < 200; ++i) spare.push_back(map(4));
    std::atomic<size_t> next{0};
    std::mutex guard;
    open([&] {
        const size_t i = next++;
        if (i >= spare.size() || !guard.try_lock()) return;
        munmap(spare[i], 2 * kPage);
        madvise(spare[i] + 2 * kPage, kPage, MADV_DONTNEED);
        guard.unlock();
    });
    guard.lock();
    for (char* memory : spare) pin_once(memory, 4 * kPage);
    next = 0;
    guard.unlock();
    for (int i = 0; i < 100; ++i) {
        char* memory = map(4);
        pin_once(memory, 4 * kPage);
        munmap(memory, 4 * kPage);
    }
    for (int i = 0; i < 5000 && cache->counters().invalidations < 100; ++i) usleep(1000);
    EXPECT_GE(cache->counters().invalidations, 100u);
    next = spare.size();
    cache.reset();  // the registrar uses variables of this test
}

TEST_F(UserfaultTest, ManyRangesAreGivenUpInTurn) {
    constexpr size_t kCount = 9000;
    char* memory = map(2 * kCount);
    for (size_t i = 0; i < kCount; ++i) pin(memory + 2 * i * kPage, kPage);
    size_t remembered = 0;
    for (size_t i = 0; i < kCount; ++i) remembered += pinned(memory + 2 * i * kPage, kPage);
    EXPECT_LT(remembered, kCount);
    EXPECT_GT(remembered, 8000u);
    munmap(memory, 2 * kCount * kPage);
    for (size_t i = 0; i < kCount; ++i) EXPECT_FALSE(pinned(memory + 2 * i * kPage, kPage));
}

TEST_F(UserfaultTest, AChildOfForkIsNotHarmed) {
    char* memory = map(16);
    memset(memory, 1, 16 * kPage);
    pin(memory, 16 * kPage);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        bool right = !pinned(memory, kPage);
        // No thread reads events in the child: these calls return all the same.
        madvise(memory, kPage, MADV_DONTNEED);
        memset(memory + kPage, 2, kPage);
        munmap(memory, 16 * kPage);
        cache->progress();
        cache.reset();
#if !defined(__SANITIZE_THREAD__)  // which allows no threads after fork
        // A cache that the child makes works.
        open({});
        char* own = map(4);
        pin(own, 4 * kPage);
        right = right && pinned(own, 4 * kPage);
        munmap(own, 4 * kPage);
        right = right && !pinned(own, 4 * kPage);
        cache.reset();
#endif
        _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(stays_pinned(memory, 16 * kPage)) << "the child's doings are not the parent's";
    munmap(memory, 16 * kPage);
    EXPECT_FALSE(pinned(memory, 16 * kPage));
}

// A child that survives must not keep the watch alive when the parent ends it.
TEST_F(UserfaultTest, TheEndOfTheCacheEndsTheWatch) {
    char* memory = map(64);
    pin(memory, 64 * kPage);
    mremap(memory, 8 * kPage, 8 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 56 * kPage);
    // Not by fork(), which would close the descriptor in the child.
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) syscall(SYS_pause);
    }
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) munmap(map(4), 4 * kPage), madvise(memory + 9 * kPage, kPage, MADV_DONTNEED);
    });
    usleep(5000);
    cache.reset();
    stop = true;
    busy.join();
    munmap(memory, 64 * kPage);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

// Memory belongs to one userfaultfd, and MPI libraries open a device several times.
TEST_F(UserfaultTest, SeveralCachesWatchTheSameMemory) {
    std::unique_ptr<PinCache> first = std::move(cache);
    open({});
    char* memory = map(16);
    const auto both = [&](bool expected) {
        for (int i = 0; i < 2; ++i) {
            EXPECT_TRUE(expected ? stays_pinned(memory, 8 * kPage) : !pinned(memory, 8 * kPage));
            std::swap(first, cache);
        }
    };
    const auto pin_both = [&] {
        pin(memory, 8 * kPage);
        std::swap(first, cache);
        pin(memory, 8 * kPage);
        std::swap(first, cache);
    };
    pin_both();
    both(true);
    madvise(memory, kPage, MADV_DONTNEED);
    both(false);
    pin_both();
    // One cache gives up watched ranges; the other must not depend on its watch.
    char* many = map(2 * 8200);
    for (size_t i = 0; i < 8200; ++i) pin(many + 2 * i * kPage, kPage);
    std::swap(first, cache);
    for (int i = 0; i < 3; ++i) {
        munmap(memory, 8 * kPage);
        mmap(memory, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0);
        EXPECT_FALSE(pinned(memory, 8 * kPage));
        pin(memory, 8 * kPage);
        EXPECT_TRUE(stays_pinned(memory, 8 * kPage));
        // From the second round on, one cache is gone.
        first.reset();
    }
    munmap(memory, 16 * kPage);
    munmap(many, 2 * 8200 * kPage);
}

TEST_F(UserfaultTest, ABufferThatIsFreedEveryTimeIsNotABufferThatIsReused) {
    for (int i = 0; i < 10; ++i) {
        char* memory = map(16);
        EXPECT_LE(cache->note(memory, 16 * kPage), 2u);
        munmap(memory, 16 * kPage);
    }
    char* memory = map(16);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (cache->note(memory, 16 * kPage) < 10 && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
    EXPECT_EQ(cache->uses(memory, 16 * kPage), 10u);
    munmap(memory, 16 * kPage);
    EXPECT_EQ(cache->uses(memory, 16 * kPage), 0u);
}

}  // namespace
}  // namespace tern
