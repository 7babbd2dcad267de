// SPDX-License-Identifier: BSD-3-Clause
// By default Tern asks the kernel about changes of memory only when UCX's memory events have told
// of one. So they must tell of each function of libc that takes pages away, on any thread, before
// it does.
#include <sys/mman.h>
#include <sys/shm.h>
#include <ucm/api/ucm.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>

#include "message.h"

namespace uct_test {
namespace memory_events_test {

constexpr std::size_t kLength = 1 << 20;

struct Told {
    const std::byte* from;
    const std::byte* to;
    std::atomic<bool> first{false};

    static void hear(ucm_event_type_t, ucm_event_t* event, void* self) {
        auto& told = *static_cast<Told*>(self);
        const auto* at = static_cast<const std::byte*>(event->vm_unmapped.address);
        if (at <= told.from && told.to <= at + event->vm_unmapped.size) told.first = true;
    }
};

std::byte* map() {
    void* const memory =
        mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED ? UCS_OK : UCS_ERR_NO_MEMORY, "mmap");
    return static_cast<std::byte*>(memory);
}

class MemoryEventsTest : public TernTest {
  protected:
    void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "sanitizers map memory by system calls of their own";
#endif
        const char* events = getenv("UCX_MEM_EVENTS");
        const char* hooks = getenv("UCX_MEM_MMAP_HOOK_MODE");
        if ((events != nullptr && std::string_view(events) == "n") ||
            (hooks != nullptr && std::string_view(hooks) != "bistro"))
            GTEST_SKIP() << "UCX does not tell of all changes, and Tern does not rely on it";
    }
    // Whether the loss of the page at `page` is told when another thread calls `lose`.
    static bool told(const std::byte* page, const std::function<void()>& lose) {
        Told it{page, page + 1};
        check(ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 0, Told::hear, &it), "ucm");
        std::thread(lose).join();
        ucm_unset_event_handler(UCM_EVENT_VM_UNMAPPED, Told::hear, &it);
        return it.first;
    }

    Entity entity_;  // installs Tern's own handler first
};

TEST_F(MemoryEventsTest, OfMappings) {
    std::byte* memory = map();
    EXPECT_TRUE(told(memory, [&] { madvise(memory, kLength, MADV_DONTNEED); }));
    EXPECT_TRUE(told(memory, [&] { munmap(memory, kLength); }));
    memory = map();
    EXPECT_TRUE(told(memory, [&] {
        mmap(memory, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0);
    }));
    std::byte* const other = map();
    EXPECT_TRUE(told(
        memory, [&] { mremap(memory, kLength, kLength, MREMAP_MAYMOVE | MREMAP_FIXED, other); }));
    munmap(other, kLength);
}

TEST_F(MemoryEventsTest, OfSharedSegments) {
    const int id = shmget(IPC_PRIVATE, kLength, IPC_CREAT | 0600);
    ASSERT_GE(id, 0);
    void* const memory = shmat(id, nullptr, 0);
    shmctl(id, IPC_RMID, nullptr);
    ASSERT_NE(memory, reinterpret_cast<void*>(-1));
    EXPECT_TRUE(told(static_cast<std::byte*>(memory), [&] { shmdt(memory); }));
}

// libc calls its own functions, with chunks that it maps, however much of the heap is free.
TEST_F(MemoryEventsTest, OfTheHeap) {
    constexpr std::size_t kChunk = std::size_t{256} << 20;
    auto* const chunk = static_cast<std::byte*>(calloc(1, kChunk));
    EXPECT_TRUE(told(chunk + kChunk / 2, [&] { free(chunk); }));
    auto* const growing = static_cast<std::byte*>(calloc(1, kChunk));
    std::byte* grown = nullptr;
    const bool moved = told(growing + kChunk / 2,
                            [&] { grown = static_cast<std::byte*>(realloc(growing, 2 * kChunk)); });
    EXPECT_TRUE(moved || grown == growing);
    free(grown);
}

TEST_F(MemoryEventsTest, OfTheBreak) {
    auto* const end = static_cast<std::byte*>(sbrk(kLength));
    ASSERT_NE(end, reinterpret_cast<std::byte*>(-1));
    if (sbrk(0) != end + kLength) GTEST_SKIP() << "somebody else moved the break";
    EXPECT_TRUE(told(end + kLength / 2, [&] { sbrk(-static_cast<intptr_t>(kLength)); }));
}

// These two take pages away without an event of the kernel. (Kernels that do not know the former
// refuse it.)
TEST_F(MemoryEventsTest, PinsAreDroppedWhereTheKernelIsSilent) {
    constexpr int kGuardInstall = 102;
    constexpr int kGuardRemove = 103;
    // Of memory that is pinned before and after.
    const auto registrations = [&](const std::function<void(std::byte*)>& lose) {
        Entity entity;
        std::byte* const memory = map();
        uct_mem_h handle = nullptr;
        const uct_md_h md = entity.host().md();
        check(uct_md_mem_reg(md, memory, kLength, UCT_MD_MEM_ACCESS_ALL, &handle),
              "uct_md_mem_reg");
        const auto pin = [&] {
            check(uct_md_mem_advise(md, handle, memory, kLength, UCT_MADV_WILLNEED),
                  "uct_md_mem_advise");
        };
        pin();
        std::thread([&] { lose(memory); }).join();
        pin();
        check(uct_md_mem_dereg(md, handle), "uct_md_mem_dereg");
        const uint64_t count = entity.close_and_count()["pin_registrations"];
        munmap(memory, kLength);
        return count;
    };
    const uint64_t once = registrations([](std::byte*) {});
    EXPECT_GT(registrations([](std::byte* memory) {
                  madvise(memory, kLength, kGuardInstall);
                  madvise(memory, kLength, kGuardRemove);
              }),
              once);
    const int id = shmget(IPC_PRIVATE, kLength, IPC_CREAT | 0600);
    ASSERT_GE(id, 0);
    EXPECT_GT(registrations([&](std::byte* memory) { shmat(id, memory, SHM_REMAP); }), once);
    shmctl(id, IPC_RMID, nullptr);
}

// Tern takes a change to last from the first to the second.
TEST_F(MemoryEventsTest, HandlersAreCalledBeforeAndAfterEachCall) {
    struct Calls {
        std::byte* page;
        bool before = false;  // the page was there
        bool after = false;   // it was not
        static bool is_mapped(std::byte* page) {
            unsigned char in_core;
            return mincore(page, 1, &in_core) == 0;
        }
        static void begins(ucm_event_type_t, ucm_event_t*, void* self) {
            auto& calls = *static_cast<Calls*>(self);
            calls.before |= is_mapped(calls.page);
        }
        static void ends(ucm_event_type_t, ucm_event_t*, void* self) {
            auto& calls = *static_cast<Calls*>(self);
            calls.after |= calls.before && !is_mapped(calls.page);
        }
    } calls{map()};
    constexpr int kSilently = UCM_EVENT_FLAG_NO_INSTALL;
    check(ucm_set_event_handler(UCM_EVENT_MUNMAP | kSilently, 1, Calls::ends, &calls), "ucm");
    check(ucm_set_event_handler(UCM_EVENT_MUNMAP | kSilently, -1, Calls::begins, &calls), "ucm");
    std::thread([&] { munmap(calls.page, kLength); }).join();
    ucm_unset_event_handler(UCM_EVENT_MUNMAP, Calls::begins, &calls);
    ucm_unset_event_handler(UCM_EVENT_MUNMAP, Calls::ends, &calls);
    EXPECT_TRUE(calls.before);
    EXPECT_TRUE(calls.after);
}

}  // namespace memory_events_test
}  // namespace uct_test
