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

#include "tern/pinning/watch/userfault_source.h"
#include "tern/unit/watched_cache.h"

namespace tern {
namespace userfault_test {

TEST_F(UserfaultTest, MemoryThatStaysIsRemembered) {
    char* memory = map_pages(16);
    pin(memory, 16 * kPageSize);
    memset(memory, 1, 16 * kPageSize);
    mprotect(memory, kPageSize, PROT_READ);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(stays_pinned(memory, 16 * kPageSize));
    EXPECT_EQ(cache->counters().registrations, 1u);
    munmap(memory, 16 * kPageSize);
}

TEST_F(UserfaultTest, UnmappedMemoryIsNotFoundEvenIfItIsMappedAgain) {
    for (int round = 0; round < 50; ++round) {
        char* memory = map_pages(16);
        pin(memory, 8 * kPageSize);
        pin(memory + 8 * kPageSize, 8 * kPageSize);
        munmap(memory, 4 * kPageSize);
        EXPECT_FALSE(pinned(memory, kPageSize));
        EXPECT_FALSE(pinned(memory + 7 * kPageSize, kPageSize))
            << "one pin, some pages of it unmapped";
        EXPECT_TRUE(stays_pinned(memory + 8 * kPageSize, 8 * kPageSize));
        ASSERT_EQ(mmap(memory, 16 * kPageSize, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  memory);
        EXPECT_FALSE(pinned(memory, kPageSize));
        EXPECT_FALSE(pinned(memory + 8 * kPageSize, kPageSize)) << "mapped over";
        // The range is watched again.
        pin(memory, 16 * kPageSize);
        EXPECT_TRUE(stays_pinned(memory, 16 * kPageSize));
        munmap(memory, 16 * kPageSize);
        EXPECT_FALSE(pinned(memory + kPageSize, kPageSize));
    }
}

// A simulation has a memory domain for each rank, all in one process.
TEST_F(UserfaultTest, ManyCachesOfAProcessHaveIt) {
    std::vector<std::unique_ptr<PinCache>> caches;
    for (int i = 0; i < 200; ++i) {
        caches.push_back(
            std::make_unique<PinCache>(std::make_unique<UnpinnedRegistrar>(nullptr),
                                       PinSettings{.monitor = MonitorKind::kUserfaultfd}));
        ASSERT_EQ(caches.back()->monitor(), MonitorKind::kUserfaultfd) << "cache " << i;
    }
}

TEST_F(UserfaultTest, MemoryThatLosesItsPagesIsNotFound) {
    char* memory = map_pages(64);
    for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
        pin(memory, 4 * kPageSize);
        pin(memory + 4 * kPageSize, 4 * kPageSize);
        madvise(memory + 2 * kPageSize, kPageSize, advice);
        EXPECT_FALSE(pinned(memory, 4 * kPageSize)) << advice;
        EXPECT_TRUE(stays_pinned(memory + 4 * kPageSize, 4 * kPageSize));
        pin(memory, 4 * kPageSize);
        EXPECT_TRUE(stays_pinned(memory, 4 * kPageSize)) << "still watched";
    }
    munmap(memory, 64 * kPageSize);
}

TEST_F(UserfaultTest, MovedMemoryIsNotFound) {
    char* memory = map_pages(32);
    pin(memory, 16 * kPageSize);
    auto* moved = static_cast<char*>(mremap(memory, 16 * kPageSize, 256 * kPageSize,
                                            MREMAP_MAYMOVE | MREMAP_FIXED, map_pages(256)));
    ASSERT_NE(moved, MAP_FAILED);
    EXPECT_FALSE(pinned(memory, kPageSize));
    EXPECT_FALSE(pinned(moved, kPageSize));
    pin(moved, 256 * kPageSize);
    ASSERT_EQ(mremap(moved, 256 * kPageSize, 128 * kPageSize, 0), moved);
    EXPECT_FALSE(pinned(moved, kPageSize));
    pin(moved, 128 * kPageSize);
    ASSERT_NE(
        mremap(moved, 128 * kPageSize, 128 * kPageSize, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr),
        MAP_FAILED);
    EXPECT_FALSE(pinned(moved, kPageSize)) << "mapped still, but its pages are elsewhere";
}

// The kernel refuses to mremap() two mappings at a time, one of them still watched.
TEST_F(UserfaultTest, AMappingThatHasGrownIsGivenUpWhole) {
    char* memory = map_pages(64, MAP_SHARED | MAP_ANONYMOUS) + 16 * kPageSize;
    ASSERT_EQ(munmap(memory, 32 * kPageSize), 0);
    ASSERT_TRUE(take(memory, 8 * kPageSize));
    const auto source = UserfaultSource::get();
    const size_t before = source->watched();
    pin(memory, 8 * kPageSize);
    ASSERT_EQ(mremap(memory, 8 * kPageSize, 16 * kPageSize, 0), memory);
    source->allow_changes(0);
    madvise(memory, kPageSize, MADV_DONTNEED);
    const auto limit = std::chrono::steady_clock::now() + test::patience();
    while (source->watched() > before && std::chrono::steady_clock::now() < limit)
        source->progress();
    source->allow_changes(kNoisyChanges);
    EXPECT_EQ(source->watched(), before);
    void* moved = mremap(memory, 16 * kPageSize, 64 * kPageSize, MREMAP_MAYMOVE);
    EXPECT_NE(moved, MAP_FAILED) << strerror(errno);
}

TEST_F(UserfaultTest, TheHeapAndTheStackAreWatched) {
    for (int round = 0; round < 5; ++round) {
        constexpr size_t kSize = 3 << 20;
        char* block = static_cast<char*>(malloc(kSize));
        memset(block, 1, kSize);
        pin(block, kSize);
        EXPECT_TRUE(stays_pinned(block, kSize));
        // volatile: prevents the compiler's warning of use after free, which this test is about.
        volatile auto address = reinterpret_cast<uintptr_t>(block + kSize / 2) & ~(kPageSize - 1);
        free(block);
        malloc_trim(0);
        auto* inside = reinterpret_cast<char*>(uintptr_t{address});
        unsigned char there = 0;
        const bool gone = mincore(inside, kPageSize, &there) != 0 || (there & 1) == 0;
        EXPECT_TRUE(gone ? !pinned(inside, kPageSize) : stays_pinned(inside, kPageSize))
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

TEST_F(UserfaultTest, WhatCannotBeWatchedIsNotRemembered) {
    const auto forgets = [&](char* memory, const char* what) {
        ASSERT_NE(memory, MAP_FAILED);
        Pin* once = cache->pin(memory, 2 * kPageSize, kPutRight);
        EXPECT_TRUE(once) << what;
        if (once != nullptr) cache->release(once);
        EXPECT_FALSE(pinned(memory, 2 * kPageSize)) << what;
        EXPECT_EQ(cache->counters().pins, 0u);
        munmap(memory, 2 * kPageSize);
    };
    const int file = memfd_create("file", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(4 * kPageSize)), 0);
    forgets(map_pages(2, MAP_SHARED, file), "another process may truncate it");
    forgets(map_pages(2, MAP_PRIVATE, file), "a private mapping of a file");
    forgets(map_pages(2, MAP_SHARED | MAP_ANONYMOUS), "a child may remove its pages");
    close(file);
    char* mixed = map_pages(2);
    mmap(mixed + kPageSize, kPageSize, PROT_READ | PROT_WRITE,
         MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    forgets(mixed, "half of it is shared");

    // Memory that another userfaultfd watches.
    const auto fd = static_cast<int>(
        syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */));
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    ASSERT_EQ(ioctl(fd, UFFDIO_API, &api), 0);
    char* taken = map_pages(2);
    uffdio_register request{};
    request.range = {reinterpret_cast<uintptr_t>(taken), 2 * kPageSize};
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
    char* memory = map_pages(64);
    pin(memory, 8 * kPageSize);
    pin(memory + 4 * kPageSize, 8 * kPageSize);
    pin(memory + 20 * kPageSize, 4 * kPageSize);
    pin(memory + 2 * kPageSize, 40 * kPageSize);
    EXPECT_TRUE(stays_pinned(memory, 8 * kPageSize));
    EXPECT_TRUE(stays_pinned(memory + 2 * kPageSize, 40 * kPageSize));
    munmap(memory + 5 * kPageSize, kPageSize);
    EXPECT_FALSE(pinned(memory, 8 * kPageSize));
    EXPECT_FALSE(pinned(memory + 30 * kPageSize, kPageSize));
    munmap(memory, 64 * kPageSize);
}

// Another thread may get the addresses before munmap() returns in the thread that unmaps them.
TEST_F(UserfaultTest, AddressesThatChangeHandsAreNotFound) {
    EXPECT_EQ(found_in_other_hands([](char*, char*) {}), 0);
}

// An allocator may give memory back at any time: in a free() within deregistration, for example.
TEST_F(UserfaultTest, TheDeviceMayUnmapWatchedMemory) {
    std::vector<char*> spare;
    for (int i = 0; i < 200; ++i) spare.push_back(map_pages(4));
    std::atomic<size_t> next{0};
    std::mutex guard;
    open([&] {
        const size_t i = next++;
        if (i >= spare.size() || !guard.try_lock()) return;
        munmap(spare[i], 2 * kPageSize);
        madvise(spare[i] + 2 * kPageSize, kPageSize, MADV_DONTNEED);
        guard.unlock();
    });
    guard.lock();
    for (char* memory : spare) pin_once(memory, 4 * kPageSize);
    next = 0;
    guard.unlock();
    for (int i = 0; i < 100; ++i) {
        char* memory = map_pages(4);
        pin_once(memory, 4 * kPageSize);
        munmap(memory, 4 * kPageSize);
    }
    for (int i = 0; i < 5000 && cache->counters().invalidations < 100; ++i) usleep(1000);
    EXPECT_GE(cache->counters().invalidations, 100u);
    next = spare.size();
    cache.reset();  // the registrar uses variables of this test
}

TEST_F(UserfaultTest, AChildOfForkIsNotHarmed) {
    char* memory = map_pages(16);
    memset(memory, 1, 16 * kPageSize);
    pin(memory, 16 * kPageSize);
    const pid_t child = fork();
    if (child == 0) {
        alarm(test::alarm_seconds());
        bool right = !pinned(memory, kPageSize);
        // No thread reads events in the child: these calls return all the same.
        madvise(memory, kPageSize, MADV_DONTNEED);
        memset(memory + kPageSize, 2, kPageSize);
        munmap(memory, 16 * kPageSize);
        cache->progress();
        cache.reset();
#if !defined(__SANITIZE_THREAD__)  // which allows no threads after fork
        // A cache that the child makes works.
        open({});
        char* own = map_pages(4);
        pin(own, 4 * kPageSize);
        right = right && pinned(own, 4 * kPageSize);
        munmap(own, 4 * kPageSize);
        right = right && !pinned(own, 4 * kPageSize);
        cache.reset();
#endif
        _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(stays_pinned(memory, 16 * kPageSize)) << "the child's doings are not the parent's";
    munmap(memory, 16 * kPageSize);
    EXPECT_FALSE(pinned(memory, 16 * kPageSize));
}

// A child that survives must not keep the watch alive when the parent ends it.
TEST_F(UserfaultTest, TheEndOfTheCacheEndsTheWatch) {
    char* memory = map_pages(64);
    pin(memory, 64 * kPageSize);
    mremap(memory, 8 * kPageSize, 8 * kPageSize, MREMAP_MAYMOVE | MREMAP_FIXED,
           memory + 56 * kPageSize);
    // Not by fork(), which would close the descriptor in the child.
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) syscall(SYS_ppoll, nullptr, 0, nullptr, nullptr, 0);
    }
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop)
            munmap(map_pages(4), 4 * kPageSize),
                madvise(memory + 9 * kPageSize, kPageSize, MADV_DONTNEED);
    });
    usleep(5000);
    cache.reset();
    stop = true;
    busy.join();
    munmap(memory, 64 * kPageSize);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

// Memory belongs to one userfaultfd, and MPI libraries open a device several times.
TEST_F(UserfaultTest, SeveralCachesWatchTheSameMemory) {
    std::unique_ptr<PinCache> first = std::move(cache);
    open({});
    char* memory = map_pages(16);
    const auto both = [&](bool expected) {
        for (int i = 0; i < 2; ++i) {
            EXPECT_TRUE(expected ? stays_pinned(memory, 8 * kPageSize)
                                 : !pinned(memory, 8 * kPageSize));
            std::swap(first, cache);
        }
    };
    const auto pin_both = [&] {
        pin(memory, 8 * kPageSize);
        std::swap(first, cache);
        pin(memory, 8 * kPageSize);
        std::swap(first, cache);
    };
    pin_both();
    both(true);
    madvise(memory, kPageSize, MADV_DONTNEED);
    both(false);
    pin_both();
    std::swap(first, cache);
    for (int i = 0; i < 3; ++i) {
        munmap(memory, 8 * kPageSize);
        mmap(memory, 8 * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0);
        EXPECT_FALSE(pinned(memory, 8 * kPageSize));
        pin(memory, 8 * kPageSize);
        EXPECT_TRUE(stays_pinned(memory, 8 * kPageSize));
        // From the second round on, one cache is gone.
        first.reset();
    }
    munmap(memory, 16 * kPageSize);
}

TEST_F(UserfaultTest, ABufferThatIsFreedEveryTimeIsNotABufferThatIsReused) {
    for (int i = 0; i < 10; ++i) {
        char* memory = map_pages(16);
        EXPECT_LE(cache->note(memory, 16 * kPageSize), 2u);
        munmap(memory, 16 * kPageSize);
    }
    char* memory = map_pages(16);
    const auto limit = std::chrono::steady_clock::now() + test::patience();
    while (cache->note(memory, 16 * kPageSize) < 10 && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
    EXPECT_EQ(cache->uses(memory, 16 * kPageSize), 10u);
    munmap(memory, 16 * kPageSize);
    EXPECT_EQ(cache->uses(memory, 16 * kPageSize), 0u);
}

}  // namespace userfault_test
}  // namespace tern
