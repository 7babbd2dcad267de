// SPDX-License-Identifier: BSD-3-Clause
// What a program's own calls do to memory that is watched: the same as to other memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tern/pinning/watch/userfault_source.h"
#include "tern/pinning/watch/watched_ranges.h"
#include "tern/unit/watched_cache.h"

namespace tern {
namespace program_calls_test {

using Results = std::vector<std::string>;

// Mappings of the process, or those of them that a range has a part of.
size_t mappings(const char* from = nullptr, const char* to = nullptr) {
    FILE* const file = fopen("/proc/self/maps", "re");
    if (file == nullptr) return 0;
    size_t count = 0;
    char line[512];
    while (fgets(line, sizeof(line), file) != nullptr) {
        unsigned long start = 0;
        unsigned long end = 0;
        if (sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
        count += from == nullptr || (start < reinterpret_cast<uintptr_t>(to) &&
                                     reinterpret_cast<uintptr_t>(from) < end);
    }
    fclose(file);
    return count;
}

// Of this thread. A copy takes one for each new page.
long faults() {
    rusage usage{};
    EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_minflt;
}

constexpr int kWritable = PROT_READ | PROT_WRITE;

// Addresses of its own, in which nothing else is mapped. Memory is mapped in the middle half.
class Area {
  public:
    static constexpr size_t kPages = 1024;
    Area() : start_(reserve()) {}
    ~Area() { munmap(start_, kPages * kPageSize); }
    Area(const Area&) = delete;
    Area& operator=(const Area&) = delete;

    char* page(size_t number) const { return start_ + number * kPageSize; }
    char* map(size_t first, size_t pages, int protection = kWritable) const {
        void* const at = mmap(page(first), pages * kPageSize, protection,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        EXPECT_EQ(at, page(first));
        return page(first);
    }
    std::string count() const {
        return std::to_string(mappings(start_, start_ + kPages * kPageSize)) + " mappings";
    }

  private:
    static char* reserve() {
        char* const at = map_pages(kPages);
        munmap(at, kPages * kPageSize);
        return at;
    }
    char* const start_;
};

class ProgramCallsTest : public UserfaultTest {
  protected:
    // Sends a part of the memory, or does not.
    using Send = std::function<void(char* start, size_t pages)>;

    // Does the same with memory that has been sent, and with other memory.
    void compare(const std::function<Results(const Send&)>& program) {
        const Results other = program([](char*, size_t) {});
        const Results sent = program([this](char* start, size_t pages) {
            pin(start, pages * kPageSize);
            EXPECT_TRUE(stays_pinned(start, pages * kPageSize));
        });
        EXPECT_EQ(other, sent);
    }
    static std::string result(const void* at, const char* expected) {
        if (at == MAP_FAILED) return strerror(errno);
        return at == expected ? "there" : "elsewhere";
    }
    static std::string result(int error) { return error == 0 ? "done" : strerror(errno); }
    static std::string bytes(const char* at, size_t pages) {
        std::string all;
        for (size_t i = 0; i < pages; i += 64) all += std::to_string(at[i * kPageSize]);
        return all;
    }
};

TEST_F(ProgramCallsTest, Mremap) {
    // Of 512 pages. Nothing is behind them, or there is a wall, so that memory must move to grow.
    for (const bool wall : {false, true})
        for (const size_t pages : {size_t{100}, size_t{512}, size_t{700}})
            for (const int flags : {0, MREMAP_MAYMOVE})
                compare([&](const Send& send) {
                    const Area area;
                    char* const memory = area.map(128, 512);
                    memset(memory, 7, 512 * kPageSize);
                    if (wall) area.map(640, 1, PROT_READ);
                    send(memory + 64 * kPageSize, 64);
                    void* const at = mremap(memory, 512 * kPageSize, pages * kPageSize, flags);
                    const Results results{result(at, memory), area.count(),
                                          at != MAP_FAILED ? bytes(static_cast<char*>(at),
                                                                   std::min<size_t>(pages, 512))
                                                           : ""};
                    if (at != MAP_FAILED && at != memory) munmap(at, pages * kPageSize);
                    return results;
                });
}

TEST_F(ProgramCallsTest, MremapOfAPart) {
    for (const int flags : {MREMAP_MAYMOVE, MREMAP_MAYMOVE | MREMAP_FIXED,
                            MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP})
        compare([&](const Send& send) {
            const Area area;
            char* const memory = area.map(128, 256);
            memset(memory, 3, 256 * kPageSize);
            send(memory + 60 * kPageSize, 100);
            // Its first and last pages are in the same mapping as those that were sent.
            void* const at = mremap(memory + 32 * kPageSize, 128 * kPageSize, 128 * kPageSize,
                                    flags, area.page(600));
            Results results{result(at, area.page(600)), area.count()};
            if (flags == MREMAP_MAYMOVE) return results;
            results.push_back(bytes(area.page(600), 128));
            // And back again, in part to where it was.
            if ((flags & MREMAP_DONTUNMAP) != 0) return results;
            send(area.page(610), 8);
            void* const back =
                mremap(at, 128 * kPageSize, 128 * kPageSize, flags, memory + 32 * kPageSize);
            results.push_back(result(back, memory + 32 * kPageSize));
            results.push_back(area.count());
            return results;
        });
}

// What is there when memory is first sent merges with what is made of it later.
TEST_F(ProgramCallsTest, MremapAcrossMemoryThatWasMappedSeparately) {
    compare([&](const Send& send) {
        const Area area;
        char* const first = area.map(128, 64);
        memset(first, 1, 64 * kPageSize);
        area.map(192, 64);
        send(first, 16);
        memset(area.page(192), 2, 64 * kPageSize);
        void* const at = mremap(first, 128 * kPageSize, 128 * kPageSize,
                                MREMAP_MAYMOVE | MREMAP_FIXED, area.page(600));
        return Results{result(at, area.page(600)), area.count()};
    });
}

// Allocators reserve memory without access, and open it piece by piece.
TEST_F(ProgramCallsTest, ReservedMemoryThatIsOpenedLater) {
    compare([&](const Send& send) {
        const Area area;
        char* const memory = area.map(128, 512, PROT_NONE);
        Results results;
        for (size_t i = 0; i < 8; ++i) {
            char* const piece = memory + i * 32 * kPageSize;
            results.push_back(result(mprotect(piece, 32 * kPageSize, kWritable)));
            memset(piece, 1, 32 * kPageSize);
            if (i % 2 == 0) send(piece + 4 * kPageSize, 8);
            results.push_back(area.count());
        }
        void* const at = mremap(memory, 256 * kPageSize, 256 * kPageSize,
                                MREMAP_MAYMOVE | MREMAP_FIXED, area.page(700));
        results.push_back(result(at, area.page(700)));
        results.push_back(area.count());
        return results;
    });
}

// One mapping that was made next to memory that had been sent is of its own: the kernel does not
// merge it, so mremap() of both fails where it would not otherwise. It works on each.
TEST_F(ProgramCallsTest, MemoryMappedNextToSentMemoryLaterIsAMappingOfItsOwn) {
    const Area area;
    char* const first = area.map(128, 64);
    memset(first, 1, 64 * kPageSize);
    pin(first, 16 * kPageSize);
    char* const second = area.map(192, 64);
    memset(second, 2, 64 * kPageSize);
    EXPECT_EQ(mappings(first, second + 64 * kPageSize), 2u);
    EXPECT_EQ(mremap(second, 64 * kPageSize, 96 * kPageSize, 0), second);
    EXPECT_NE(mremap(first, 64 * kPageSize, 96 * kPageSize, MREMAP_MAYMOVE), MAP_FAILED);
}

TEST_F(ProgramCallsTest, Realloc) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
    compare([&](const Send& send) {
        constexpr size_t kStart = size_t{40} << 20;  // above the longest block of the heap
        auto* memory = static_cast<char*>(malloc(kStart));
        memset(memory, 5, kStart);
        const auto aligned = [&] {
            return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory) + (1 << 20)) &
                                           ~uintptr_t{kPageSize - 1});
        };
        send(aligned(), 256);
        Results results;
        for (const size_t size : {2 * kStart, kStart + kPageSize, 3 * kStart}) {
            const long before = faults();
            memory = static_cast<char*>(realloc(memory, size));
            results.emplace_back(faults() - before < 15 ? "moved" : "copied");
            results.emplace_back(memory != nullptr && memory[kStart - 1] == 5 ? "kept" : "lost");
            results.push_back(std::to_string(mappings(memory, memory + size)));
            send(aligned(), 64);
        }
        free(memory);
        return results;
    });
}

TEST_F(ProgramCallsTest, ProtectionsAndLocks) {
    compare([&](const Send& send) {
        const Area area;
        char* const memory = area.map(128, 256);
        memset(memory, 1, 256 * kPageSize);
        send(memory + 16 * kPageSize, 64);
        char* const part = memory + 32 * kPageSize;
        Results results;
        for (const int protection : {PROT_READ, PROT_NONE, kWritable | PROT_EXEC, kWritable}) {
            results.push_back(result(mprotect(part, 8 * kPageSize, protection)));
            results.push_back(area.count());
        }
        results.push_back(result(mlock(part, 4 * kPageSize)));
        results.push_back(area.count());
        results.push_back(result(munlock(part, 4 * kPageSize)));
        results.push_back(area.count());
        void* const at = mremap(memory, 256 * kPageSize, 300 * kPageSize, 0);
        results.push_back(result(at, memory));
        results.push_back(area.count());
        return results;
    });
}

TEST_F(ProgramCallsTest, EachAdvice) {
    constexpr int kPopulateRead = 22, kPopulateWrite = 23, kCollapse = 25, kGuardInstall = 102,
                  kGuardRemove = 103;
    for (const int advice :
         {MADV_NORMAL,      MADV_RANDOM,     MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED,
          MADV_FREE,        MADV_REMOVE,     MADV_DONTFORK,   MADV_DOFORK,   MADV_MERGEABLE,
          MADV_UNMERGEABLE, MADV_HUGEPAGE,   MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP,
          MADV_WIPEONFORK,  MADV_KEEPONFORK, MADV_COLD,       MADV_PAGEOUT,  kPopulateRead,
          kPopulateWrite,   kCollapse,       kGuardInstall,   kGuardRemove,  -1})
        compare([&](const Send& send) {
            const Area area;
            char* const memory = area.map(128, 256);
            memset(memory, 1, 256 * kPageSize);
            send(memory + 16 * kPageSize, 64);
            Results results{std::to_string(advice)};
            char* const part = memory + 32 * kPageSize;
            results.push_back(result(madvise(part, 16 * kPageSize, advice)));
            results.push_back(area.count());
            if (advice != kGuardInstall && advice != MADV_FREE)
                results.push_back(bytes(memory, 256) + std::to_string(part[kPageSize]));
            const pid_t child = fork();
            if (child == 0) {
                // Not forked: an access would end the child.
                if (advice == MADV_DONTFORK) _exit(mappings(part, part + 1) == 0 ? 1 : 2);
                if (advice == kGuardInstall || advice == MADV_FREE) _exit(3);
                _exit(10 + part[kPageSize]);
            }
            int status = 0;
            EXPECT_EQ(waitpid(child, &status, 0), child);
            results.push_back(std::to_string(status));
            return results;
        });
}

TEST_F(ProgramCallsTest, MuchMemoryThatIsOnlyReserved) {
    compare([&](const Send& send) {
        constexpr size_t kAll = size_t{100} << 30;
        void* const at =
            mmap(nullptr, kAll, kWritable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) return Results{strerror(errno)};
        auto* const memory = static_cast<char*>(at);
        for (size_t i = 0; i < 64; ++i) memory[i * (kAll / 64)] = 1;
        memset(memory + kAll / 2, 1, 64 * kPageSize);
        send(memory + kAll / 2, 64);
        Results results{std::to_string(mappings(memory, memory + kAll))};
        results.push_back(result(madvise(memory, kAll / 4, MADV_DONTNEED)));
        void* const moved = mremap(memory, kAll, kAll + (kAll >> 4), MREMAP_MAYMOVE);
        results.push_back(moved == MAP_FAILED ? strerror(errno) : "done");
        results.push_back(result(munmap(moved, kAll + (kAll >> 4))));
        return results;
    });
}

// A library purges pieces of an area of which others are sent.
TEST_F(ProgramCallsTest, AHeapThatIsPurged) {
    compare([&](const Send& send) {
        const Area area;
        char* const memory = area.map(128, 256);
        memset(memory, 1, 256 * kPageSize);
        send(memory + 64 * kPageSize, 64);
        Results results;
        for (size_t i = 0; i < 60; ++i) {
            results.push_back(
                result(madvise(memory + i * kPageSize, 4 * kPageSize, MADV_DONTNEED)));
            memory[i * kPageSize] = 2;
        }
        results.push_back(area.count());
        results.push_back(bytes(memory, 256));
        return results;
    });
}

// Buffers at many places of one area do not split it.
TEST_F(ProgramCallsTest, ManyBuffersOfOneMapping) {
    constexpr size_t kBuffers = 12'000;
    char* const memory = map_pages(2 * kBuffers);
    const size_t before = mappings();
    for (size_t i = 0; i < kBuffers; ++i) pin_once(memory + 2 * i * kPageSize, kPageSize);
    EXPECT_LE(mappings(), before + 2) << "the area may have been merged with a neighbour";
    EXPECT_TRUE(stays_pinned(memory + 100 * kPageSize, kPageSize));
    munmap(memory, 2 * kBuffers * kPageSize);
}

// So many mappings are watched at a time; buffers in others are not remembered.
TEST_F(ProgramCallsTest, WatchedMappingsAreBounded) {
    const auto source = UserfaultSource::get();
    ASSERT_TRUE(source);
    const size_t kMappings = source->most() + 500;
    char* const memory = map_pages(2 * kMappings);
    for (size_t i = 0; i < kMappings; ++i) munmap(memory + (2 * i + 1) * kPageSize, kPageSize);
    size_t kept = 0;
    for (int round = 0; round < 2; ++round) {
        kept = 0;
        for (size_t i = 0; i < kMappings; ++i) {
            pin_once(memory + 2 * i * kPageSize, kPageSize);
            kept += pinned(memory + 2 * i * kPageSize, kPageSize);
            ASSERT_LE(source->watched(), source->most());
        }
    }
    EXPECT_GT(kept, kMappings / 2);
    EXPECT_LT(kept, kMappings);
    // New ones come in turn.
    char* const next = map_pages(4);
    munmap(next + 2 * kPageSize, kPageSize);
    bool found = false;
    for (int i = 0; i < 100 && !found; ++i) {
        pin_once(next, kPageSize);
        found = pinned(next, kPageSize);
    }
    EXPECT_TRUE(found);
    munmap(next, 4 * kPageSize);
    munmap(memory, 2 * kMappings * kPageSize);
}

// What cannot be hidden: memory belongs to one userfaultfd at a time.
TEST_F(ProgramCallsTest, AUserfaultfdOfTheProgramIsRefusedSentMemory) {
    const Area area;
    const auto fd = static_cast<int>(
        syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */));
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    ASSERT_EQ(ioctl(fd, UFFDIO_API, &api), 0);
    const auto take = [&](char* memory) {
        uffdio_register request{};
        request.range = {reinterpret_cast<uintptr_t>(memory), 4 * kPageSize};
        request.mode = UFFDIO_REGISTER_MODE_MISSING;
        return ioctl(fd, UFFDIO_REGISTER, &request) == 0 ? 0 : errno;
    };
    char* const sent = area.map(128, 64);
    pin(sent, 16 * kPageSize);
    EXPECT_EQ(take(sent + 32 * kPageSize), EBUSY);
    close(fd);
    cache.reset();
    const auto again = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1));
    ASSERT_EQ(ioctl(again, UFFDIO_API, &(api = {.api = UFFD_API, .features = 0, .ioctls = 0})), 0);
    uffdio_register request{};
    request.range = {reinterpret_cast<uintptr_t>(sent), 4 * kPageSize};
    request.mode = UFFDIO_REGISTER_MODE_MISSING;
    EXPECT_EQ(ioctl(again, UFFDIO_REGISTER, &request), 0) << "the last cache has ended the watch";
    close(again);
}

// The thread that reads the events runs although the one that started it is bound to a processor.
TEST_F(ProgramCallsTest, TheReaderIsNotBoundAsTheThreadThatStartsIt) {
    cache.reset();
    cpu_set_t one;
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    std::thread([&] {
        CPU_ZERO(&one);
        for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
            if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
        const sched_param usual{};
        EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
        EXPECT_EQ(sched_setscheduler(0, SCHED_BATCH, &usual), 0);
        open({});
        char* const memory = map_pages(4);
        pin(memory, 4 * kPageSize);
        munmap(memory, 4 * kPageSize);
    }).join();
    int readers = 0;
    FILE* const list = popen(
        ("grep -l tern-monitor /proc/" + std::to_string(getpid()) + "/task/*/comm").c_str(), "re");
    ASSERT_TRUE(list);
    char line[256];
    while (fgets(line, sizeof(line), list) != nullptr) {
        int process = 0;
        int thread = 0;
        ASSERT_EQ(sscanf(line, "/proc/%d/task/%d/", &process, &thread), 2) << line;
        cpu_set_t of_reader;
        ASSERT_EQ(sched_getaffinity(thread, sizeof(of_reader), &of_reader), 0);
        EXPECT_GE(CPU_COUNT(&of_reader), CPU_COUNT(&all));
        EXPECT_EQ(sched_getscheduler(thread), SCHED_OTHER);
        ++readers;
    }
    pclose(list);
    EXPECT_EQ(readers, 1);
}

// Not even where hooks report changes: those by system calls escape them.
TEST_F(ProgramCallsTest, HooksDoNotWatchWhatTheKernelMayNot) {
    open({}, true);
    const auto source = UserfaultSource::get();
    ASSERT_TRUE(source);
    source->allow_changes(0);
    char* const memory = map_pages(8);
    pin(memory, 8 * kPageSize);
    madvise(memory, kPageSize, MADV_DONTNEED);
    cache->progress();
    EXPECT_FALSE(pinned(memory, 8 * kPageSize));
    pin_once(memory, 8 * kPageSize);
    EXPECT_FALSE(pinned(memory, 8 * kPageSize));
    munmap(memory, 8 * kPageSize);
}

// A call that changes watched memory waits for the reader, so a mapping that is changed all the
// time is not watched.
TEST_F(ProgramCallsTest, AMappingThatChangesAllTheTimeIsNotWatched) {
    const auto source = UserfaultSource::get();
    ASSERT_TRUE(source);
    source->allow_changes(20);
    const Area area;
    char* const noisy = area.map(128, 64);
    char* const calm = area.map(512, 64);
    pin(noisy + 32 * kPageSize, 16 * kPageSize);
    pin(calm, 16 * kPageSize);
    const size_t before = source->watched();
    const auto limit = std::chrono::steady_clock::now() + test::patience();
    while (source->watched() == before && std::chrono::steady_clock::now() < limit) {
        madvise(noisy, kPageSize, MADV_DONTNEED);
        cache->progress();
    }
    EXPECT_EQ(source->watched(), before - 1);
    EXPECT_FALSE(pinned(noisy + 32 * kPageSize, 16 * kPageSize));
    pin_once(noisy + 32 * kPageSize, 16 * kPageSize);
    EXPECT_FALSE(pinned(noisy + 32 * kPageSize, 16 * kPageSize)) << "nor is it remembered";
    EXPECT_TRUE(stays_pinned(calm, 16 * kPageSize));
}

TEST(MappingsTest, AreWhole) {
    for (const bool by_query : {true, false}) {
        SCOPED_TRACE(by_query);
        const Area area;
        const auto at = [&](size_t page) { return reinterpret_cast<uintptr_t>(area.page(page)); };
        area.map(100, 10, PROT_NONE);
        area.map(110, 20);
        area.map(130, 10, PROT_READ);
        area.map(140, 10, PROT_NONE);
        area.map(150, 10);
        Mappings whole;
        ASSERT_TRUE(private_mappings(at(115), at(120), whole, by_query));
        EXPECT_EQ(whole.start, at(100)) << "with the reserved memory next to it";
        EXPECT_EQ(whole.end, at(130));
        EXPECT_TRUE(whole.followed);
        ASSERT_TRUE(private_mappings(at(115), at(131), whole, by_query));
        EXPECT_EQ(whole.start, at(100));
        EXPECT_EQ(whole.end, at(150));
        EXPECT_TRUE(whole.followed);
        ASSERT_TRUE(private_mappings(at(150), at(160), whole, by_query));
        EXPECT_EQ(whole.start, at(140));
        EXPECT_EQ(whole.end, at(160));
        EXPECT_FALSE(whole.followed);
        EXPECT_FALSE(private_mappings(at(159), at(161), whole, by_query)) << "a gap";
        EXPECT_FALSE(private_mappings(at(90), at(91), whole, by_query));
        munmap(area.page(120), kPageSize);
        EXPECT_FALSE(private_mappings(at(115), at(125), whole, by_query));
        mmap(area.page(130), kPageSize, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        EXPECT_FALSE(private_mappings(at(125), at(131), whole, by_query)) << "shared";
        ASSERT_TRUE(private_mappings(at(125), at(130), whole, by_query));
        EXPECT_EQ(whole.end, at(130));
        EXPECT_FALSE(whole.followed);
    }
}

}  // namespace program_calls_test
}  // namespace tern
