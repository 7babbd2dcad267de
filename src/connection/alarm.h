// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// When a connector needs a call of progress even if no packet comes, and whether the next packet is
// expected soon. Pure: times are the caller's, in nanoseconds.
class Alarm {
  public:
    // Progress is needed at `time`, or before.
    void set(uint64_t time) { deadline_ = std::min(deadline_, time); }
    // The same for a handshake or a probe: its packets are expected soon.
    void wake_at(uint64_t time) {
        expect_packets();
        set(time);
    }
    // Packets are expected in the next calls of progress.
    void expect_packets() { expecting_ = kExpecting; }
    // All deadlines are found anew.
    void clear() { deadline_ = UINT64_MAX; }
    // A call of progress begins.
    void on_progress() {
        if (expecting_ != 0) --expecting_;
    }

    // UINT64_MAX: there is none.
    uint64_t deadline() const { return deadline_; }
    // Whether packets should be looked for soon. Data path.
    bool urgent() const { return expecting_ != 0 && deadline_ != UINT64_MAX; }

  private:
    // Calls of progress after a packet in which the next packet is expected.
    static constexpr uint32_t kExpecting = 4096;

    uint64_t deadline_ = UINT64_MAX;
    uint32_t expecting_ = 0;  // calls of progress that are left of kExpecting
};

}  // namespace tern
