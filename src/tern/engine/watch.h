// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tern/base/tunables.h"

namespace tern {

// A word of this process's memory that a device writes without an event.
struct Watched {
    const uint64_t* at = nullptr;
    uint64_t was = 0;  // the last value seen

    bool operator==(const Watched&) const = default;
};

// The time between two looks, which doubles from kFirstLook to kLastLook, so that a process that
// sleeps for long uses no measurable CPU time.
class LookInterval {
  public:
    uint64_t value() const { return value_; }
    void reset() { value_ = kFirstLook; }
    void grow() { value_ = value_ * 2 < kLastLook ? value_ * 2 : kLastLook; }

  private:
    uint64_t value_ = kFirstLook;
};

// Looks at watched words while the owner sleeps, and wakes the owner when one has changed. Two
// threads may use a Watch: the owner, and a background thread that calls look(). Without a
// background thread the timer wakes the owner, which looks itself. The members declared below the
// mutex are accessed under it; `armed_` only by the owner.
class Watch {
  public:
    Watch() = default;
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Makes the descriptors. False on failure; errno says why.
    bool open();
    // For the owner's sleep: readable when the owner should look at the words.
    int wake_fd() const { return threaded_ ? found_fd_ : timer_fd_; }
    // For the background thread: call look() whenever this descriptor is readable. use_thread()
    // must be called before the owner sleeps.
    int look_fd() const { return timer_fd_; }
    void use_thread() { threaded_ = true; }

    // Begins to watch. The words must stay in memory until withdraw().
    void publish(const std::vector<Watched>& words);
    // Ends watching: the owner is awake, or the memory is about to be freed. True: this Watch has
    // woken the owner.
    bool withdraw() { return armed_ && withdraw_armed(); }

    // Called by the background thread.
    void look();

  private:
    bool withdraw_armed();
    void set_timer(uint64_t nanoseconds) const;

    int found_fd_ = -1;
    int timer_fd_ = -1;
    bool threaded_ = false;
    bool armed_ = false;  // words are published

    std::mutex mutex_;
    std::vector<Watched> words_;  // published; empty after withdraw()
    std::vector<Watched> last_;   // published last; kept by withdraw()
    LookInterval interval_;
    bool found_ = false;  // found_fd_ is readable
};

}  // namespace tern
