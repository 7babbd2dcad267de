// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include "common/blocked_signals.h"
#include "tern/base/tunables.h"
#include "tern/pinning/watch/fork.h"

namespace tern {

// A thread that runs `work` a little while after wake().
class Reaper {
  public:
    explicit Reaper(std::function<void()> work) : work_(std::move(work)) {}
    ~Reaper() { stop(); }
    Reaper(const Reaper&) = delete;
    Reaper& operator=(const Reaper&) = delete;

    // Not in the constructor, because not every owner needs the thread.
    void start() {
        if (tried_) return;
        tried_ = true;
        const base::BlockedSignals blocked;
        const auto body = [](void* self) -> void* {
            pthread_setname_np(pthread_self(), "tern-reaper");
            static_cast<Reaper*>(self)->run();
            return nullptr;
        };
        running_ = pthread_create(&thread_, nullptr, body, this) == 0;
    }
    // Ends the thread for good, and waits for its end.
    void stop() {
        if (!running_ || guard_.inherited()) return;
        running_ = false;
        state_.store(kStopped);
        state_.notify_one();
        pthread_join(thread_, nullptr);
    }
    // From anywhere: does not lock, wait or allocate, and keeps errno.
    void wake() {
        int asleep = kAsleep;
        if (!state_.compare_exchange_strong(asleep, kWoken)) return;
        const int error = errno;
        state_.notify_one();
        errno = error;
    }

  private:
    enum State : int { kAsleep, kWoken, kStopped };

    void run() {
        for (;;) {
            state_.wait(kAsleep);
            if (state_.load() == kStopped) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(kReaperDelay));
            int woken = kWoken;
            state_.compare_exchange_strong(woken, kAsleep);
            work_();
        }
    }

    ForkGuard guard_;
    const std::function<void()> work_;
    std::atomic<int> state_{kAsleep};
    pthread_t thread_{};
    bool running_ = false;
    bool tried_ = false;
};

}  // namespace tern
