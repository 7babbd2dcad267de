// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tern {

// A word of this process's memory that a device writes to without telling anybody.
struct Watched {
    const uint64_t* at = nullptr;
    uint64_t was = 0;  // as it was seen

    bool operator==(const Watched&) const = default;
};

// How long to wait from one look to the next: soon at first, ever more rarely then. A process that
// sleeps for long pays nothing that could be measured.
class LookInterval {
  public:
    static constexpr uint64_t kFirst = 50'000;      // nanoseconds
    static constexpr uint64_t kMost = 500'000'000;  // the same

    uint64_t value() const { return value_; }
    void reset() { value_ = kFirst; }
    void grow() { value_ = value_ * 2 < kMost ? value_ * 2 : kMost; }

  private:
    uint64_t value_ = kFirst;
};

// Looks at such words for a process that sleeps, and wakes it when one has changed. Two threads may
// use it: the owner, and one in the background that calls look(). Without such a thread the owner
// is woken by the timer, and looks itself. All members below the mutex are used under it; only
// `armed_` is the owner's alone.
class Watch {
  public:
    Watch() = default;
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Makes the descriptors. False on failure; errno says why.
    bool open();
    // For the owner's sleep: readable when it should look.
    int wake_fd() const { return threaded_ ? found_fd_ : timer_fd_; }
    // For the thread, if there is one, which says so before the owner sleeps: call look() whenever
    // this is readable.
    int look_fd() const { return timer_fd_; }
    void use_thread() { threaded_ = true; }

    // The owner sleeps from now on. The words stay where they are until withdraw().
    void publish(const std::vector<Watched>& words);
    // It does not any more, or the memory is about to go. True if it has been woken by this.
    bool withdraw() { return armed_ && withdraw_armed(); }

    // In the background.
    void look();

  private:
    bool withdraw_armed();
    void set_timer(uint64_t nanoseconds) const;

    int found_fd_ = -1;
    int timer_fd_ = -1;
    bool threaded_ = false;
    bool armed_ = false;  // something is published

    std::mutex mutex_;
    std::vector<Watched> words_;  // published
    std::vector<Watched> last_;   // the same, and still there when it has been withdrawn
    LookInterval interval_;
    bool found_ = false;  // found_fd_ is readable
};

}  // namespace tern
