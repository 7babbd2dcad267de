// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/assert.h"
#include "tern/base/tunables.h"

namespace tern {

// How much a connection has been used, as of the last look at it.
struct ConnectionUse {
    // A change means use; which way it goes does not matter.
    struct Counts {
        uint32_t sent = 0;      // work requests
        uint32_t window = 0;    // of Promotion, ...
        uint32_t received = 0;  // ... and messages received in it

        bool operator==(const Counts&) const = default;
    };

    // Whether the connection has been used since the last call.
    bool changes_to(const Counts& now) { return std::exchange(counts, now) != now; }

    Counts counts;
    uint64_t since = 0;  // when a look found a change, or the peer was asked to end the connection
    uint64_t asked = 0;  // when it was asked, if it is to be asked once more; see IdleChoice
};

// Which of more connections than the limit an interface suggests to end; see IdleChannels. Pure.
// Control path.
//
// The limit gives way to a program that talks to more peers in turn, if that helps: a peer that
// comes back and is among those whose connections ended last, as many as the limit may give way by,
// raises it by one, to three times what it was at most. Any other new connection takes one back,
// and after a second without either, half is gone. A small limit is meant as it is.
//
// If connections wait for room on the device, the limit is the present number of connections, less
// as many as wait. Because programs wait for this room, the longest unused connection is asked
// twice in a row: its peer ends it at the second time, if it was not used in between. At most
// kUrgentAtOnce peers are asked in a window, which bounds how many connections are made anew in a
// second.
class IdleChoice {
  public:
    explicit IdleChoice(uint32_t limit)
        : limit_(limit),
          most_slack_(limit < kSmallLimit || limit > kLargeLimit ? 0
                                                                 : kMostSlack * uint64_t{limit}) {}

    bool is_over(uint32_t count) const { return count > limit_; }
    // How many of the peers whose connections ended last are to be remembered.
    size_t remembers() const { return static_cast<size_t>(most_slack_); }
    // A new connection begins. `again`: its peer is one of these.
    void on_begin(bool again, uint64_t now) {
        fade(now);
        if (again && slack_ < most_slack_)
            ++slack_;
        else if (!again && slack_ > 0)
            --slack_;
    }

    // The connection whose peer is to be asked to end it, or null. There are `count`, and `waiting`
    // more wait for room. The least recently used of a few rows is near enough to that of all.
    //   size_t rows.size()
    //   Row* rows.row(i)                    null: no connection, or not up
    //   ConnectionUse& rows.use(Row&)
    //   ConnectionUse::Counts rows.counts(Row&)
    //   bool rows.may_end(Row&)             whether nobody waits for something there
    template <class Rows>
    auto choose(const Rows& rows, uint32_t count, uint64_t now, uint32_t waiting = 0)
        -> decltype(rows.row(0)) {
        fade(now);
        const auto usual = static_cast<uint32_t>(std::min<uint64_t>(limit_ + slack_, UINT32_MAX));
        const uint32_t limit = std::min(usual, count - std::min(count, waiting));
        if (count <= limit) return nullptr;
        const bool urgent = waiting != 0;
        if (now >= window_end_) {
            window_end_ = now + kIdleWindow;
            suggestions_ = urgent ? std::min(count - limit, kUrgentAtOnce) : count - limit;
        }
        if (suggestions_ == 0) return nullptr;
        decltype(rows.row(0)) oldest = nullptr;
        for (size_t left = std::min(kIdleLooks, rows.size()); left != 0; --left) {
            if (++row_ >= rows.size()) row_ = 0;
            auto* const row = rows.row(row_);
            if (row == nullptr) continue;
            ConnectionUse& use = rows.use(*row);
            if (use.changes_to(rows.counts(*row)) || use.since == 0) {
                use.since = now;
                use.asked = 0;
            }
            if (use.asked != 0 && now - use.asked < kIdleWindow) continue;
            const bool older = oldest == nullptr || use.since < rows.use(*oldest).since;
            if (older && rows.may_end(*row)) oldest = row;
        }
        const uint64_t silence = urgent ? kUrgentSilence : long_enough(count, limit);
        if (oldest == nullptr || now - rows.use(*oldest).since < silence) return nullptr;
        ConnectionUse& use = rows.use(*oldest);
        const bool again = urgent && use.asked == 0;
        use.asked = again ? now : 0;
        if (!again) use.since = now;
        --suggestions_;
        return oldest;
    }

    // How long a connection must be silent to be ended, in nanoseconds, if there are `count` of
    // them and the limit is `limit`, which is less: the shorter the more there are.
    static uint64_t long_enough(uint32_t count, uint32_t limit) {
        TERN_ASSERT(count > limit);
        return std::clamp(kIdleSilence * limit / (count - limit), kLeastIdleSilence,
                          kMostIdleSilence);
    }

  private:
    void fade(uint64_t now) {
        if (slack_ == 0 || now - faded_ >= kSlackFade * 8 * kSlackFadeShare) {
            slack_ = 0;
            faded_ = now;
        }
        for (; now - faded_ >= kSlackFade; faded_ += kSlackFade)
            slack_ -= (slack_ + kSlackFadeShare - 1) / kSlackFadeShare;
    }

    uint32_t limit_;
    uint64_t most_slack_;
    uint64_t slack_ = 0;  // by which the limit is raised
    uint64_t faded_ = 0;  // when slack_ was computed last
    size_t row_ = 0;      // where the next look begins
    uint64_t window_end_ = 0;
    uint32_t suggestions_ = 0;  // left in the window
};

}  // namespace tern
