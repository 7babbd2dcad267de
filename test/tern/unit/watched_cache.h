// SPDX-License-Identifier: BSD-3-Clause
// A cache of pins over real memory, without a device, whose monitor is userfaultfd.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "common/patience.h"
#include "tern/pinning/cache/held_pins.h"
#include "tern/pinning/cache/pin_cache.h"

namespace tern {

inline const size_t kPageSize = static_cast<size_t>(sysconf(_SC_PAGESIZE));
inline constexpr unsigned kPutRight = kRemotePut;

// Registers nothing, but can run another function instead, which may refuse by EFAULT.
class UnpinnedRegistrar final : public Registrar {
  public:
    explicit UnpinnedRegistrar(std::function<void()> also) : also_(std::move(also)) {}
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

inline char* map_pages(size_t pages, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1) {
    void* memory = mmap(nullptr, pages * kPageSize, PROT_READ | PROT_WRITE, flags, fd, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return static_cast<char*>(memory);
}

class UserfaultTest : public testing::Test {
  protected:
    void SetUp() override {
        alarm(test::alarm_seconds());  // a thread whose event nobody reads would wait for ever
        open({});
        if (cache->monitor() != MonitorKind::kUserfaultfd)
            GTEST_SKIP() << "userfaultfd is not allowed here";
    }
    void TearDown() override { alarm(0); }

    // `hooks`: changes of memory are reported by unmapped() as well.
    void open(std::function<void()> also, bool hooks = false) {
        const MonitorKind monitor = hooks ? MonitorKind::kAuto : MonitorKind::kUserfaultfd;
        cache = std::make_unique<PinCache>(std::make_unique<UnpinnedRegistrar>(std::move(also)),
                                           PinSettings{.monitor = monitor,
                                                       .has_hooks = hooks,
                                                       .hooks_see_all = hooks,
                                                       .most_bytes = 1u << 30,
                                                       .quarantine = std::chrono::milliseconds(0)});
    }
    void pin_once(const void* start, size_t length) {
        Pin* pin = cache->pin(start, length, kPutRight);
        ASSERT_TRUE(pin);
        cache->release(pin);
    }
    // Pins until the pin is remembered: late events about earlier memory at these addresses make
    // the first pin stale.
    void pin(const void* start, size_t length) {
        const auto limit = std::chrono::steady_clock::now() + test::patience();
        do {
            pin_once(start, length);
            if (pinned(start, length)) return;
            std::this_thread::yield();
        } while (std::chrono::steady_clock::now() < limit);
        ADD_FAILURE() << "never remembered";
    }
    bool pinned(const void* start, size_t length) {
        Pin* pin = cache->find(start, length, kPutRight);
        if (pin != nullptr) cache->release(pin);
        return pin != nullptr;
    }
    // find() returns nothing while the reader is still at an earlier event, and the reader may be
    // preempted there.
    bool stays_pinned(const void* start, size_t length) {
        const auto limit = std::chrono::steady_clock::now() + test::patience();
        while (!pinned(start, length)) {
            if (std::chrono::steady_clock::now() > limit) return false;
            std::this_thread::yield();
        }
        return true;
    }

    // Maps memory at these addresses, if they are free.
    static bool take(char* memory, size_t length) {
        return mmap(memory, length, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == memory;
    }

    // Another thread unmaps memory, and this one gets its addresses: how often they are still
    // found. `tell` is called before the memory goes. `held`: found without the lock, if any.
    template <typename Tell>
    int found_in_other_hands(Tell&& tell, HeldPins* held = nullptr) {
        // On a busy machine, each of a round's hand-overs waits for the scheduler.
        constexpr int kRounds = 3000;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        const size_t length = 4 * kPageSize;
        char* memory = map_pages(4);
        std::atomic<int> asked{0};
        std::atomic<int> given{0};
        std::atomic<int> gone{0};
        std::thread giver([&] {
            for (int i = 1;; ++i) {
                while (asked < i) {
                    if (asked < 0) return;
                    std::this_thread::yield();
                }
                given = i;
                tell(memory, memory + length);
                munmap(memory, length);
                gone = i;
            }
        });
        const auto is_found = [&] {
            if (held == nullptr) return pinned(memory, length);
            const HeldPins::Use use = held->find(memory, length, kLocalWrite);
            if (use) held->release(use);
            return static_cast<bool>(use);
        };
        int found = 0;
        int compared = 0;
        for (int i = 1; i <= kRounds && std::chrono::steady_clock::now() < end; ++i) {
            Pin* pin =
                cache->pin(memory, length, held == nullptr ? kPutRight : unsigned{kLocalWrite});
            EXPECT_TRUE(pin);
            if (pin != nullptr) cache->release(pin);
            if (held != nullptr) (void)is_found();
            asked = i;
            while (given < i) std::this_thread::yield();
            // The other thread may still be in munmap() when the addresses are free.
            bool late = false;
            bool taken = false;
            while (!(taken = take(memory, length)) && !late) late = gone == i;
            if (taken) {
                found += is_found();
                ++compared;
            } else {
                // Something else in the process, for example a thread that starts, has them now.
                memory = map_pages(4);
            }
            if (held != nullptr) held->progress();
        }
        asked = -1;
        giver.join();
        munmap(memory, length);
        EXPECT_GT(compared, 0);
        return found;
    }

    std::unique_ptr<PinCache> cache;
};

}  // namespace tern
