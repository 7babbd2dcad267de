// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/assert.h"
#include "tern/tupleq/core/grant_window.h"
#include "tern/tupleq/core/messages.h"

namespace tern {

// Names a receive of the caller; 0: none.
using ReceiveHandle = uint64_t;

// A tuple at its receiver: the receives in its queue, and the state of each. An object belongs to
// one queue, which is bound to one tuple after another. TupleMatcher drives it; a binding drives
// TupleMatcher.
//
// The entries of the queue, oldest first, are of three kinds, in this order:
//   claimed   the message for the receive has been sent and is on its way
//   granted   not known yet: the sender may use the grant, or has used it
//   void      no message will come; the entry has to be drained
// An event that ends the epoch says how many direct messages were sent in it, so all granted
// receives become claimed or void. Grants that are taken back become void. Those that the sender
// may have used remain granted until their messages come, or an event says that they will not.
// Nothing is granted until the void entries are drained.
//
// Transitions:
//
//   kFree        bind(): Bind is sent                            kBinding
//   kBinding     bound(): the sender accepts                     kOpen
//                the sender refuses, or dies; reset()            kFree
//   kOpen        close(): Close is sent                          kUnbinding
//   kUnbinding   closed(): the sender answers                    kUnbound
//   kUnbound     all entries have gone; reset()                  kFree
//   kOpen, kUnbinding, kUnbound   the sender dies; broken()      kBroken
//   kBroken      the queue is destroyed; reset()                 kFree
class TupleReceiver {
  public:
    enum class State : uint8_t {
        kFree,
        kBinding,    // Bind has been sent
        kOpen,       // receives may be granted
        kUnbinding,  // Close has been sent
        kUnbound,    // the sender has forgotten the tuple; entries are still in the queue
        kBroken,     // the queue has to be destroyed
    };
    struct Entry {
        ReceiveHandle receive = 0;
        uint16_t sequence = 0;  // of the message that the receive is granted for
        bool late = false;      // the occasion of the grant; see GrantWindow
        bool cancel = false;    // cancel the receive if no message was sent for it
    };

    // `depth`: entries of the queue, a power of two.
    explicit TupleReceiver(uint32_t depth) : entries_(depth) {}

    // Control frames: sent by bind() and close(), received by bound() and closed().
    void bind(uint16_t sequence = 0, uint16_t epoch = 0) {
        TERN_ASSERT(state_ == State::kFree && empty());
        state_ = State::kBinding;
        window_.open(depth());
        known_ = sequence;
        epoch_ = epoch;
    }
    void bound() { change(State::kBinding, State::kOpen); }
    void close() { change(State::kOpen, State::kUnbinding); }
    void closed() { change(State::kUnbinding, State::kUnbound); }
    // After reset(): the queue has to be destroyed, with entries that are not counted here.
    void broken() { change(State::kFree, State::kBroken); }
    // The queue has no entries: they are gone, or the queue was destroyed with them.
    void reset() {
        state_ = State::kFree;
        granted_ = claimed_ = void_ = draining_ = 0;
    }

    // True if there is room for a receive, and it would be for the next message. `late`: the
    // occasion is a message that has come, not a receive that is posted.
    bool may_grant(bool late) const {
        return state_ == State::kOpen && void_ == 0 && live() < window_.limit(late);
    }
    // Adds the receive to the end of the queue. Returns the grant for the sender.
    Grant grant(ReceiveHandle receive, uint64_t capacity, bool late) {
        TERN_ASSERT(state_ == State::kOpen && void_ == 0 && live() < depth());
        const auto sequence = static_cast<uint16_t>(known_ + granted_ + 1);
        entries_[index(live())] = {receive, sequence, late, false};
        ++granted_;
        return {epoch_, sequence, capacity};
    }

    // A message has come into the first entry. `claimed`: its receive was claimed. False if the
    // queue has no receive.
    bool arrive(Entry& entry, uint32_t& place, bool& claimed) {
        if (live() == 0) return false;
        claimed = claimed_ != 0;
        place = head_;
        entry = entries_[head_];
        head_ = index(1);
        window_.used(entry.late);
        if (claimed) {
            --claimed_;
        } else {
            --granted_;
            ++known_;
        }
        return true;
    }

    // Receives that were granted when an event or a revocation ended their grants: entries begin
    // ... end - 1. Entries from `first_void` on are void; see the functions for those before.
    struct Ended {
        uint32_t begin = 0;
        uint32_t first_void = 0;
        uint32_t end = 0;
    };

    // The epoch has ended; `sequence`: of the last message before its end. Granted receives up to
    // that one are claimed. `ordinary`: an ordinary message has ended the epoch, and is the next
    // message. Empty if the number is impossible.
    std::optional<Ended> end_epoch(uint16_t sequence, bool ordinary) {
        const auto sent = static_cast<uint16_t>(sequence - known_);
        if (sent > granted_) return {};
        const Ended ended{claimed_, claimed_ + sent, claimed_ + granted_};
        claimed_ += sent;
        if (granted_ != sent) {
            void_ += granted_ - sent;
            if (ordinary) window_.missed(entry(ended.first_void).late);
        }
        granted_ = 0;
        TERN_ASSERT(live() + void_ <= depth());
        known_ = static_cast<uint16_t>(sequence + ordinary);
        epoch_ = (epoch_ + 1) & Grant::kEpochMask;
        return ended;
    }

    // Grants have been taken back. `sent`: the number that the sender had announced when it could
    // no longer use them. Receives for messages up to that number remain granted.
    Ended revoke(uint16_t sent) {
        const auto beyond = static_cast<uint16_t>(sent - known_);
        const uint32_t used = beyond < granted_ ? beyond : granted_;
        const Ended ended{claimed_, claimed_ + used, live()};
        void_ += granted_ - used;
        granted_ = used;
        return ended;
    }

    void passed(uint64_t length) { window_.passed(length); }

    // Returns how many entries are to be drained now: all void ones, once no live entry is left.
    uint32_t begin_drain() {
        if (live() != 0 || draining_ == void_) return 0;
        return draining_ = void_;
    }
    // The first entry has been drained. False if no drain was due.
    bool drained(uint32_t& place) {
        if (draining_ == 0) return false;
        TERN_ASSERT(live() == 0 && draining_ <= void_);
        place = head_;
        head_ = index(1);
        --void_;
        --draining_;
        return true;
    }

    State state() const { return state_; }
    // True while the sender numbers its messages.
    bool numbered() const { return state_ >= State::kOpen && state_ <= State::kUnbinding; }
    const GrantWindow& window() const { return window_; }
    uint32_t depth() const { return static_cast<uint32_t>(entries_.size()); }
    // Number of the last message that is known to have been sent, on either path.
    uint16_t known() const { return known_; }
    uint32_t granted() const { return granted_; }
    uint32_t claimed() const { return claimed_; }
    uint32_t void_entries() const { return void_; }
    // Entries that are claimed or granted: the first ones.
    uint32_t live() const { return claimed_ + granted_; }
    bool empty() const { return live() + void_ == 0; }
    // The n-th entry still in the queue, counted from 0; and its place.
    Entry& entry(uint32_t n) { return entries_[index(n)]; }
    const Entry& entry(uint32_t n) const { return entries_[index(n)]; }
    uint32_t place(uint32_t n) const { return index(n); }

    template <class Sink>
    void save(Sink&& sink) const {
        sink(state_), sink(known_), sink(epoch_), sink(granted_), sink(claimed_), sink(void_);
        sink(draining_), window_.save(sink);
        for (uint32_t i = 0; i < live(); ++i) {
            const Entry& each = entry(i);
            sink(each.receive), sink(each.late), sink(each.cancel);
        }
    }

  private:
    void change([[maybe_unused]] State from, State to) {
        TERN_ASSERT(state_ == from);
        state_ = to;
    }
    uint32_t index(uint32_t n) const {
        return (head_ + n) & static_cast<uint32_t>(entries_.size() - 1);
    }

    std::vector<Entry> entries_;
    State state_ = State::kFree;
    uint16_t known_ = 0;
    uint16_t epoch_ = 0;  // number of events; the sender counts the same ones
    GrantWindow window_;
    uint32_t head_ = 0;
    uint32_t granted_ = 0;
    uint32_t claimed_ = 0;
    uint32_t void_ = 0;
    uint32_t draining_ = 0;
};

}  // namespace tern
