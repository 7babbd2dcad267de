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

#include "unit/tern/watched_cache.h"

namespace tern {
namespace userfault_test {

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

}  // namespace userfault_test
}  // namespace tern
