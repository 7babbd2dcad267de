// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "tern/base/tunables.h"
#include "tern/connection/connection.h"
#include "tern/connection/connection_table.h"
#include "tern/connection/timers.h"
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

// Connections that are over, in good order too: each stays in the table until its last work request
// has completed, nobody holds it, and all that the peer has sent is delivered (Hearing). Then it is
// destroyed, except for its queue pair: see RetiredQueuePairs. Control path.
class EndedConnections {
  public:
    EndedConnections(ConnectionTable& table, ConnectorOwner& owner, Alarm& alarm)
        : table_(table), owner_(owner), alarm_(alarm) {}

    bool empty() const { return over_.empty(); }
    // To be called before a connection is added to the table, so that add() does not throw.
    void make_room();
    void add(Connection& connection) {
        connection.hearing.begin(rounds_);
        connection.to_mark = connection.handshake.peer_token() != 0 && connection.sends.open();
        mark(connection);
        over_.push_back(&connection);
        alarm_.set_ended(true);
    }
    // All connections of the table are over. A call that was left by an exception may have
    // forgotten some.
    void add_all();
    // The peer has left. Its silence, of which the device may have told before, is no error.
    void on_left(const PeerAddress& peer);
    // Reports and destroys connections that have nothing outstanding; returns how many. A round of
    // polls precedes each call. Looks at a few, at others in the next call. `gone` is called with
    // the peer of each. Never from within a callback.
    unsigned destroy(const std::function<void(const PeerAddress&)>& gone);
    // Whether destroy() has work to do before another work request completes.
    bool may_destroy() const;

    // A queue pair is in the error state, and nothing is outstanding on it. `reported`: the device
    // has reported its last receive.
    void retire(verbs::QueuePair qp, bool reported);
    // Whether queue pairs have been destroyed since the last call.
    bool take_room() { return std::exchange(room_, false); }
    // Queue pairs that outlive their connections. While there are any, the device's events must be
    // taken before Connector::progress().
    RetiredQueuePairs& retired() { return retired_; }

  private:
    bool may_go(Connection& connection);
    void mark(Connection& connection);

    ConnectionTable& table_;
    ConnectorOwner& owner_;
    Alarm& alarm_;
    std::vector<Connection*> over_;  // has room for all; in no order
    size_t at_ = 0;                  // where the next destroy() begins
    uint64_t rounds_ = 0;            // calls of destroy()
    bool destroying_ = false;        // within destroy()
    bool room_ = false;              // of take_room()
    RetiredQueuePairs retired_;
};

}  // namespace tern
