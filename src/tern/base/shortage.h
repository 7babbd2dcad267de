// SPDX-License-Identifier: BSD-3-Clause
// What Tern does when the device or the kernel has no room for something (ENOMEM): what it gives
// up, in which order, when it tries again, and what it tells the user. Pure. Control path.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "tern/base/tunables.h"

namespace tern {

// Whether a refused registration is a matter of room: drivers say all three of a full table.
constexpr bool is_full(int error) {
    return error == ENOMEM || error == EAGAIN || error == ENOSPC;
}

// Something that there may be no room for. The steps are taken in the order of the members, until
// one helps.
struct Scarce {
    enum First : uint8_t { kNothing, kPins, kIdleConnection };

    const char* what;
    First gives_up;       // of what nobody uses; then the device is asked again
    bool halves;          // half as much will do, and half of that
    const char* without;  // what happens, until a later try succeeds
    const char* raise;    // the limit that there may be; null: none
    const char* lower;    // settings of which smaller values need less; null: none

    // What the user can do.
    std::string remedy(int error = ENOMEM) const;
    // The line for the log.
    std::string line(int error) const;

    // Takes the steps. attempt(size) returns whether there is room; if not, errno says why.
    // owner.give_up(size) returns whether any pin was given up. Returns the bytes that there is
    // room for; 0, and errno: there is none for `least`.
    template <class Attempt, class Owner>
    uint64_t take(uint64_t size, uint64_t least, Attempt&& attempt, Owner& owner) const {
        for (;; size /= 2) {
            if (attempt(size)) return size;
            const int error = errno;
            const bool full = is_full(error);
            if (full && gives_up == kPins && owner.give_up(size) && attempt(size)) return size;
            errno = error;
            if (!full || !halves || size / 2 < least) return 0;
        }
    }
};

inline std::string Scarce::remedy(int error) const {
    if (error == EMFILE) return "raise the limit of open files (ulimit -n)";
    std::string text;
    if (raise != nullptr)
        text = is_full(error)
                   ? std::string("raise ") + raise
                   : "the device refuses this process, which may be a forked child that uses what "
                     "its parent has opened: have the child make its own contexts";
    if (lower != nullptr) text += std::string(text.empty() ? "lower " : ", or lower ") + lower;
    return text;
}

inline std::string Scarce::line(int error) const {
    return std::string("cannot have ") + what + " (" + strerror(error) + "): " + without + "; " +
           remedy(error);
}

namespace scarce {

inline constexpr const char* kLocked = "the limit of locked memory (ulimit -l)";

// clang-format off
inline constexpr Scarce
    kPinned{"memory of the program", Scarce::kPins, false,
          "messages are copied", kLocked, "UCX_TERN_PIN_MAX"},
    kOpenMemory{"memory that is open to peers", Scarce::kPins, false,
                "peers ask for transfers", kLocked, "UCX_TERN_PIN_MAX"},
    kRing{"memory for large messages", Scarce::kPins, true,
          "they fail", kLocked, "UCX_TERN_PIN_MAX"},
    kBlock{"a peer's block", Scarce::kPins, false,
           "its messages stay on the slower path", kLocked, "UCX_TERN_HOT_MAX"},
    kReceives{"the receive buffers", Scarce::kPins, true,
              "there are fewer", kLocked, "UCX_TERN_RX_QUEUE_LEN"},
    kMoreReceives{"more receive buffers", Scarce::kNothing, false,
                  "senders wait for those there are", kLocked, "UCX_TERN_RX_QUEUE_MAX"},
    kSends{"more send buffers", Scarce::kPins, false,
           "sends wait for those there are", kLocked, "UCX_TERN_TX_BUFFERS"},
    kInterface{"an interface", Scarce::kNothing, false,
               "it is not opened", kLocked, "UCX_TERN_QP_MAX in all processes of the node"},
    kConnection{"a connection", Scarce::kIdleConnection, false,
                "it waits", nullptr, "UCX_TERN_QP_MAX (in all processes of the node), "
                                     "UCX_TERN_TX_QUEUE_LEN or UCX_TERN_RX_QUEUE_LEN"},
    kWatched{"more watched mappings", Scarce::kNothing, false,
             "they are watched in turn", "vm.max_map_count", nullptr};
// clang-format on

}  // namespace scarce

// When to try again: after a while, and after twice as long each time, up to `most` times that.
// Times are the caller's, in nanoseconds.
class Backoff {
  public:
    explicit Backoff(uint64_t first_ms, uint32_t most = 1)
        : first_(first_ms * 1'000'000), most_(most * first_), pause_(first_) {}

    bool over(uint64_t now) const { return now >= next_; }
    // When it is over.
    uint64_t next() const { return next_; }
    void refused(uint64_t now) {
        next_ = now + pause_;
        pause_ = std::min(2 * pause_, most_);
    }
    void granted() {
        pause_ = first_;
        next_ = 0;
    }

  private:
    uint64_t first_;
    uint64_t most_;
    uint64_t pause_;
    uint64_t next_ = 0;
};

// What one owner of such a thing knows of refusals.
class Shortage {
  public:
    explicit Shortage(const Scarce& of, uint64_t pause_ms = kMemoryRetry)
        : of_(of), backoff_(pause_ms) {}

    bool may_try(uint64_t now) const { return backoff_.over(now); }
    // Takes the steps, and notes the result.
    template <class Attempt, class Owner>
    uint64_t obtain(uint64_t size, uint64_t least, uint64_t now, Attempt&& attempt, Owner& owner) {
        const uint64_t got = of_.take(size, least, attempt, owner);
        note(got, size, now);
        return got;
    }
    // take() has returned `got`.
    void note(uint64_t got, uint64_t size, uint64_t now) {
        if (got != 0) backoff_.granted();
        if (got == size) return;
        error_ = got != 0 ? ENOMEM : errno;
        backoff_.refused(now);
    }
    // Calls owner.warn(line) for the log, once after a refusal.
    template <class Owner>
    void tell(Owner& owner) {
        if (error_ != 0 && !std::exchange(told_, true)) owner.warn(of_.line(error_));
    }

  private:
    const Scarce& of_;
    Backoff backoff_;
    int error_ = 0;
    bool told_ = false;
};

}  // namespace tern
