// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>

#include "pinning/watch/fork.h"

namespace tern {

// A thread that does something a little while after it was woken. Who wakes it waits for nobody.
class Reaper {
  public:
    explicit Reaper(std::function<void()> work) : work_(std::move(work)) {}
    ~Reaper() { stop(); }
    Reaper(const Reaper&) = delete;
    Reaper& operator=(const Reaper&) = delete;

    // Not at once, because not every owner needs it.
    void start();
    // Waits until it is done, for ever.
    void stop();
    // From anywhere: no lock, no allocation, and errno stays.
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
