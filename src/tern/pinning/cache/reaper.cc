// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/cache/reaper.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "common/blocked_signals.h"

namespace tern {

namespace {

// The waking thread, or one that communicates, is likely to do the work itself within this time.
constexpr std::chrono::milliseconds kDelay{2};

}  // namespace

void Reaper::stop() {
    if (!running_ || guard_.inherited()) return;
    running_ = false;
    state_.store(kStopped);
    state_.notify_one();
    pthread_join(thread_, nullptr);
}

void Reaper::start() {
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

void Reaper::wake() {
    int asleep = kAsleep;
    if (!state_.compare_exchange_strong(asleep, kWoken)) return;
    const int error = errno;
    state_.notify_one();
    errno = error;
}

void Reaper::run() {
    for (;;) {
        state_.wait(kAsleep);
        if (state_.load() == kStopped) return;
        std::this_thread::sleep_for(kDelay);
        int woken = kWoken;
        state_.compare_exchange_strong(woken, kAsleep);
        work_();
    }
}

}  // namespace tern
