// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>

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
    void start();
    // Ends the thread for good, and waits for its end.
    void stop();
    // From anywhere: does not lock, wait or allocate, and keeps errno.
    void wake();

  private:
    enum State : int { kAsleep, kWoken, kStopped };

    void run();

    ForkGuard guard_;
    const std::function<void()> work_;
    std::atomic<int> state_{kAsleep};
    pthread_t thread_{};
    bool running_ = false;
    bool tried_ = false;
};

}  // namespace tern
