// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// When a connector needs a call of progress even if no packet comes, and whether it needs one soon,
// because a packet is expected or a connection is over. Pure: times are the caller's, in
// nanoseconds.
class Alarm {
  public:
    // Progress is needed at `time`, or before.
    void set(uint64_t time) {
        deadline_ = std::min(deadline_, time);
        decide();
    }
    // The same for a handshake or a probe: its packets are expected soon.
    void wake_at(uint64_t time) {
        expect_packets();
        set(time);
    }
    // Packets are expected in the next calls of progress.
    void expect_packets() {
        expecting_ = kExpecting;
        decide();
    }
    // Whether there are connections that are over.
    void set_ended(bool any) {
        ended_ = any;
        decide();
    }
    // What the alarm was set for has happened: deadline() may be too early, until clear().
    void happened() { stale_ = true; }
    bool stale() const { return stale_; }
    // All deadlines are found anew.
    void clear() {
        deadline_ = UINT64_MAX;
        stale_ = false;
        decide();
    }
    // A call of progress begins.
    void on_progress() {
        if (expecting_ != 0) --expecting_;
        decide();
    }

    // UINT64_MAX: there is none.
    uint64_t deadline() const { return deadline_; }
    // Whether progress is needed soon. Data path: whoever changes what this depends on decides it.
    bool urgent() const { return urgent_; }

  private:
    // Calls of progress after a packet in which the next packet is expected.
    static constexpr uint32_t kExpecting = 512;

    void decide() { urgent_ = ended_ || (expecting_ != 0 && deadline_ != UINT64_MAX); }

    uint64_t deadline_ = UINT64_MAX;
    bool stale_ = false;
    uint32_t expecting_ = 0;  // calls of progress that are left of kExpecting
    bool ended_ = false;      // of set_ended()
    bool urgent_ = false;
};

}  // namespace tern
