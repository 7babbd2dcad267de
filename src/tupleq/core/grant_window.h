// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// How many receives of a tuple are granted at a time. A grant that the sender does not see in time
// costs a receive that is put into the queue and drained again, and most programs either always
// post their receives in time or, as a ping-pong, never. So this follows what became of the grants.
//
// There are two occasions to grant. When a receive is *posted*: then up to `width`, which doubles
// with each grant that is used and is quartered by each that was missed. At 0, one receive is tried
// now and then. And *late*, when a message has come while receives waited: the next one may be on
// its way already, so that this can fail where the other does not. If it does, it is also left to
// tries. From one to the next it is 2, 4, ... 32 ordinary messages, and half as many again for each
// grant that was used.
//
// Time is counted in ordinary messages, long ones as one for each kUnit bytes: what a void costs is
// little beside a long message, and what a direct one saves is more. Data path.
class GrantWindow {
  public:
    static constexpr uint32_t kFirstWidth = 4;
    static constexpr uint32_t kFirstPause = 2;
    static constexpr uint32_t kLastPause = 32;
    static constexpr uint64_t kUnit = 8192;

    // A new tuple, with a queue of this depth.
    void open(uint32_t depth) {
        depth_ = depth;
        width_ = std::min(depth, kFirstWidth);
        probes_ = refills_ = {};
    }
    // A receive may be granted if less than so many are.
    uint32_t limit(bool late) const {
        const uint32_t width = width_ != 0 ? width_ : probes_.due();
        if (!late || refills_.pause == 0) return width;
        return std::min<uint32_t>(width, refills_.due());
    }

    // A grant was used; `late`: what it was when it was given.
    void used(bool late) {
        width_ = std::clamp(2 * width_, 1u, depth_);
        probes_.work();
        if (late) refills_.work();
    }
    // A message came the ordinary way although it had been granted a receive.
    void missed(bool late) {
        if (late) {
            refills_.fail();
        } else {
            width_ /= 4;
            if (width_ == 0) probes_.fail();
        }
    }
    // An ordinary message of this length; after missed(), if it is such a one.
    void passed(uint64_t length) {
        const uint64_t time = std::max<uint64_t>(length / kUnit, 1);
        probes_.pass(time);
        refills_.pass(time);
    }

    uint32_t width() const { return width_; }
    template <class Sink>
    void save(Sink&& sink) const {
        sink(width_);
        for (const Tries* tries : {&probes_, &refills_}) sink(tries->pause), sink(tries->left);
    }

  private:
    struct Tries {
        uint32_t pause = 0;  // messages from one to the next; 0: as often as there is occasion
        uint32_t left = 0;

        bool due() const { return left == 0; }
        void fail() { left = pause = std::clamp(2 * pause, kFirstPause, kLastPause); }
        void work() { pause /= 2, left = 0; }
        void pass(uint64_t time) { left -= static_cast<uint32_t>(std::min<uint64_t>(left, time)); }
    };

    uint32_t depth_ = 0;
    uint32_t width_ = 0;
    Tries probes_;   // at width 0
    Tries refills_;  // late
};

}  // namespace tern
