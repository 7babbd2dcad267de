// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/base/tunables.h"

namespace tern {

// Limits how many receives of a tuple are granted at a time. A grant that the sender does not see
// in time costs a receive that is put into the queue and drained again. Most programs either always
// post their receives in time or, as in a ping-pong, never. So the limit follows the fate of
// earlier grants.
//
// There are two occasions to grant. *Posted*: a receive is posted. Up to `width` receives are
// granted; the width doubles with each grant that is used, and shrinks to a quarter with each that
// is missed. At width 0, one receive is granted now and then as a try. *Late*: a message has come
// while receives waited. The next message may be on its way already, so late grants can fail where
// the others succeed. If they fail, they too are made only as tries. The pause between tries is 2,
// 4, ... 32 ordinary messages; each grant that is used halves it.
//
// Time is counted in ordinary messages; a long one counts as one for each kGrantUnit bytes, because
// a void costs little beside a long message and a direct message saves more. Data path.
class GrantWindow {
  public:
    // Begins a new tuple, with a queue of this depth.
    void open(uint32_t depth) {
        depth_ = depth;
        width_ = std::min(depth, kFirstWidth);
        probes_ = refills_ = {};
    }
    // A receive may be granted if fewer than this are granted.
    uint32_t limit(bool late) const {
        const uint32_t width = width_ != 0 ? width_ : probes_.due();
        if (!late || refills_.pause == 0) return width;
        return std::min<uint32_t>(width, refills_.due());
    }

    // A grant was used; `late`: the occasion on which it was given.
    void used(bool late) {
        width_ = std::clamp(2 * width_, 1u, depth_);
        probes_.work();
        if (late) refills_.work();
    }
    // A message was ordinary although its receive was granted.
    void missed(bool late) {
        if (late) {
            refills_.fail();
        } else {
            width_ /= 4;
            if (width_ == 0) probes_.fail();
        }
    }
    // An ordinary message of this length has come. Call missed() first if its receive was granted.
    void passed(uint64_t length) {
        const uint64_t time = std::max<uint64_t>(length / kGrantUnit, 1);
        probes_.pass(time);
        refills_.pass(time);
    }

    template <class Sink>
    void save(Sink&& sink) const {
        sink(width_);
        for (const Tries* tries : {&probes_, &refills_}) sink(tries->pause), sink(tries->left);
    }

  private:
    struct Tries {
        uint32_t pause = 0;  // messages between tries; 0: grants on every occasion
        uint32_t left = 0;

        bool due() const { return left == 0; }
        void fail() { left = pause = std::clamp(2 * pause, kFirstPause, kLastPause); }
        void work() { pause /= 2, left = 0; }
        void pass(uint64_t time) { left -= static_cast<uint32_t>(std::min<uint64_t>(left, time)); }
    };

    uint32_t depth_ = 0;
    uint32_t width_ = 0;
    Tries probes_;   // at width 0
    Tries refills_;  // for late grants
};

}  // namespace tern
