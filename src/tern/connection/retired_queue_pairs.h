// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "tern/base/tunables.h"
#include "tern/verbs/handles.h"

namespace tern {

// The end of a queue pair that uses a shared receive queue, from the error state on: a pure state
// machine, without verbs or clock. The device may have taken receives for it, and gives them back
// as completions; when there are no more, it reports the last one. Receives that it has not given
// back when the queue pair is destroyed are lost.
//
//   kAwaited  the device may still have receives for it
//   kReached  their completions are in the completion queue
//   kPolled   a round of polls has ended, which perhaps began before
//   kOver     so has a round that began later, and has taken them: the queue pair may be destroyed
//
// Transitions:
//
//   kAwaited  the device reports the last receive               kReached
//             the time limit: some devices never report it      kReached
//   kReached  the end of a round of polls                       kPolled
//   kPolled   the end of a round of polls                       kOver
class Retirement {
  public:
    // `reported`: the device has reported the last receive already.
    Retirement(uint64_t limit, bool reported)
        : limit_(limit), state_(reported ? State::kReached : State::kAwaited) {}

    void on_last_receive() {
        if (state_ == State::kAwaited) state_ = State::kReached;
    }
    void tick(uint64_t now) {
        if (now >= limit_) on_last_receive();
    }
    // All completions and frames that had come when the round began have been handled.
    void on_round() {
        TERN_ASSERT(state_ != State::kOver);
        if (state_ == State::kReached)
            state_ = State::kPolled;
        else if (state_ == State::kPolled)
            state_ = State::kOver;
    }

    bool awaited() const { return state_ == State::kAwaited; }
    bool over() const { return state_ == State::kOver; }
    // When to call tick(); UINT64_MAX: never.
    uint64_t deadline() const { return awaited() ? limit_ : UINT64_MAX; }

  private:
    enum class State : uint8_t { kAwaited, kReached, kPolled, kOver };

    uint64_t limit_;
    State state_;
};

// Queue pairs in the error state whose connections are over: destroyed when the device has no
// receive of the shared queue for them any more. Control path.
class RetiredQueuePairs {
  public:
    // `reported`: the device has reported the last receive of `qp`.
    void add(verbs::QueuePair qp, bool reported, uint64_t now) {
        retired_.push_back({std::move(qp), Retirement(now + kDeviceLimit, reported)});
    }
    // The device reports the last receive of a queue pair, by its context. False: it is none of
    // these.
    bool on_last_receive(const void* identity) {
        const auto found = std::find_if(retired_.begin(), retired_.end(), [&](const Retired& each) {
            return each.qp->qp_context == identity;
        });
        if (found == retired_.end()) return false;
        found->end.on_last_receive();
        return true;
    }
    // Before this, the events of the device must be taken.
    void tick(uint64_t now) {
        for (Retired& each : retired_) each.end.tick(now);
    }
    // Destroys those that are over. False: there are none.
    bool on_round() {
        for (Retired& each : retired_) each.end.on_round();
        return std::erase_if(retired_, [](const Retired& each) { return each.end.over(); }) != 0;
    }

    bool empty() const { return retired_.empty(); }
    // Whether one needs no more than the next rounds of polls.
    bool need_rounds() const {
        return std::any_of(retired_.begin(), retired_.end(),
                           [](const Retired& each) { return !each.end.awaited(); });
    }
    // When to call tick(); UINT64_MAX: never.
    uint64_t deadline() const {
        uint64_t first = UINT64_MAX;
        for (const Retired& each : retired_) first = std::min(first, each.end.deadline());
        return first;
    }

  private:
    struct Retired {
        verbs::QueuePair qp;
        Retirement end;
    };

    std::vector<Retired> retired_;
};

}  // namespace tern
