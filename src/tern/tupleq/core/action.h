// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tern/tupleq/core/messages.h"
#include "tern/tupleq/core/receiver.h"

namespace tern {

// An action that TupleMatcher requests. A binding performs actions in order. An ordered action that
// cannot be performed now may wait; then later ordered actions of the same peer wait too.
struct TupleAction {
    enum class Kind : uint8_t {
        kBind,    // send `bind` to `peer`, with what the sender needs to reach the queue
        kClose,   // send `close` to `peer`
        kRevoke,  // write zero over all unused grants of the tuple, then read the number its sender
                  // has announced; then call revoked() with `count`
        kGrant,   // put `receive` into the queue, as `place`; then write `grant` to `slot`. If this
                  // is done late, software may have matched the receive: use the memory that was
                  // prepared
        kDrain,   // send `count` empty messages to the queue from this process
        kCanceled,  // `receive` is canceled and no longer posted; report that to the user
        kFailed,   // the message for `receive` is lost with `peer`; the receive is no longer posted
        kRetry,    // offer the held messages of `peer` again
        kDiscard,  // destroy the queue with all its entries, then call replaced()
    };

    // True if the action has to wait for earlier ordered actions of its peer. The others send
    // nothing.
    static constexpr bool is_ordered(Kind kind) {
        return kind == Kind::kBind || kind == Kind::kClose || kind == Kind::kRevoke ||
               kind == Kind::kGrant || kind == Kind::kDrain;
    }

    Kind kind = Kind::kBind;
    uint16_t tuple = 0;  // number of the queue
    uint32_t peer = 0;
    uint32_t place = 0;  // of the receive in the queue, below its depth
    uint32_t count = 0;
    uint32_t slot = 0;  // index into the sender's memory, as in TupleBound
    Grant grant;
    ReceiveHandle receive = 0;
    TupleBind bind;
    TupleClose close;
};

// First in, first out. Allocates only to grow.
class TupleActions {
  public:
    TupleActions() { actions_.reserve(64); }

    TupleAction& push() { return actions_.emplace_back(); }
    bool empty() const { return first_ == actions_.size(); }
    const TupleAction& front() const { return actions_[first_]; }
    TupleAction& front() { return actions_[first_]; }
    void pop() {
        ++first_;
        if (first_ < kCompact && first_ != actions_.size()) return;
        actions_.erase(actions_.begin(), actions_.begin() + static_cast<ptrdiff_t>(first_));
        first_ = 0;
    }

    template <class Sink>
    void save(Sink&& sink) const {
        for (size_t i = first_; i != actions_.size(); ++i) {
            const TupleAction& each = actions_[i];
            sink(each.kind), sink(each.tuple), sink(each.peer), sink(each.count);
            sink(each.grant.raw()), sink(each.receive), sink(each.close.unbind);
            if (each.kind == TupleAction::Kind::kBind) sink(each.bind.tag), sink(each.bind.mask);
        }
    }

  private:
    static constexpr size_t kCompact = 64;

    std::vector<TupleAction> actions_;
    size_t first_ = 0;
};

}  // namespace tern
