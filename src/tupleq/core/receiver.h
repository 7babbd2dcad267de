// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tupleq/core/grant.h"
#include "tupleq/core/grant_window.h"

namespace tern {

// A receive of the caller's; 0 is none.
using ReceiveHandle = uint64_t;

// A tuple as its receiver sees it: the receives in its queue and whose they are. One object belongs
// to one queue, which is bound to one tuple after the other. TupleMatcher drives it; a binding
// drives TupleMatcher.
//
// The entries of the queue, oldest first, are of three kinds:
//   granted   the sender may use them, or has; not known yet
//   claimed   a message for them has been sent and is on its way
//   void      no message will come; they have to be drained
// They come in this order. An event that ends the epoch tells how many messages were sent directly
// in it, so that all granted receives become claimed or void. Grants that are taken back become
// void, but those that the sender may have used remain granted until their messages come, or an
// event says that they will not. Nothing is granted until the void ones are drained.
//
// What leads from one state to the other:
//
//   kFree        bind(): Bind is sent                            kBinding
//   kBinding     bound(): the sender accepts                     kOpen
//                the sender refuses, or dies; reset()            kFree
//   kOpen        close(): Close is sent                          kUnbinding
//   kUnbinding   closed(): the sender answers                    kUnbound
//   kUnbound     all entries have gone; reset()                  kFree
//   kOpen, kUnbinding, kUnbound   the sender dies; broken()      kBroken
//   kBroken      another queue takes the place; reset()          kFree
class TupleReceiver {
  public:
    enum class State : uint8_t {
        kFree,       // bound to nothing
        kBinding,    // Bind has been sent
        kOpen,       // receives may be granted
        kUnbinding,  // Close has been sent
        kUnbound,    // the sender has forgotten the tuple; the queue empties
        kBroken,     // the queue has to be thrown away
    };
    struct Entry {
        ReceiveHandle receive = 0;
        uint16_t sequence = 0;  // of the message that it is for
        bool late = false;      // it waited when messages came; see GrantWindow
        bool cancel = false;    // wanted, if no message was sent for it
    };

    // `depth`: of the queue, a power of two.
    explicit TupleReceiver(uint32_t depth) : entries_(depth) {}

    // Control frames: what was sent, what came.
    void bind(uint16_t sequence = 0, uint16_t epoch = 0) {
        state_ = State::kBinding;
        window_.open(depth());
        known_ = sequence;
        epoch_ = epoch;
    }
    void bound() { state_ = State::kOpen; }
    void close() { state_ = State::kUnbinding; }
    void closed() { state_ = State::kUnbound; }
    void broken() { state_ = State::kBroken; }
    // The queue is empty, by itself or because it is a new one.
    void reset() {
        state_ = State::kFree;
        granted_ = claimed_ = void_ = draining_ = 0;
    }

    // There is room for a receive, and it would be the next message's. `late`: the occasion is not
    // that one is posted, but that a message has come.
    bool may_grant(bool late) const {
        return state_ == State::kOpen && void_ == 0 && live() < window_.limit(late);
    }
    // The receive goes into the queue behind the others. Returns what to tell the sender.
    Grant grant(ReceiveHandle receive, uint64_t capacity, bool late) {
        const auto sequence = static_cast<uint16_t>(known_ + granted_ + 1);
        entries_[index(live())] = {receive, sequence, late, false};
        ++granted_;
        return {epoch_, sequence, capacity};
    }

    // A message has come into the first entry. False if there can be none.
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

    // Receives that were granted when something ended their grants: entries begin ... end - 1. From
    // `first_void` on they are void, the others claimed.
    struct Ended {
        uint32_t begin = 0;
        uint32_t first_void = 0;
        uint32_t end = 0;
    };

    // The epoch has ended: the last message sent before had this number. `ordinary`: an ordinary
    // message has ended it, and is the next. Nothing if it cannot be.
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
        known_ = static_cast<uint16_t>(sequence + ordinary);
        epoch_ = (epoch_ + 1) & Grant::kEpochMask;
        return ended;
    }

    // Grants have been taken back: the sender had announced no message beyond `sent` when it could
    // not use them any more. What was announced stays granted.
    Ended revoke(uint16_t sent) {
        const auto beyond = static_cast<uint16_t>(sent - known_);
        const uint32_t used = beyond < granted_ ? beyond : granted_;
        const Ended ended{claimed_, claimed_ + used, live()};
        void_ += granted_ - used;
        granted_ = used;
        return ended;
    }

    // How long the ordinary message was.
    void passed(uint64_t length) { window_.passed(length); }

    // How many entries are to be drained now: all void ones, once the messages on their way are in.
    uint32_t begin_drain() {
        if (live() != 0 || draining_ == void_) return 0;
        return draining_ = void_;
    }
    // The first entry has been drained. False if none was to be.
    bool drained(uint32_t& place) {
        if (draining_ == 0) return false;
        place = head_;
        head_ = index(1);
        --void_;
        --draining_;
        return true;
    }

    State state() const { return state_; }
    // The sender's messages are numbered.
    bool numbered() const { return state_ >= State::kOpen && state_ <= State::kUnbinding; }
    const GrantWindow& window() const { return window_; }
    uint32_t depth() const { return static_cast<uint32_t>(entries_.size()); }
    // Number of the last message that is known to have been sent.
    uint16_t known() const { return known_; }
    uint32_t granted() const { return granted_; }
    uint32_t claimed() const { return claimed_; }
    uint32_t void_entries() const { return void_; }
    // Entries that have a receive: the first ones.
    uint32_t live() const { return claimed_ + granted_; }
    bool empty() const { return live() + void_ == 0; }
    // The n-th entry of those not gone.
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
    uint32_t index(uint32_t n) const {
        return (head_ + n) & static_cast<uint32_t>(entries_.size() - 1);
    }

    std::vector<Entry> entries_;
    State state_ = State::kFree;
    uint16_t known_ = 0;
    uint16_t epoch_ = 0;  // events that have ended one, as the sender counts them
    GrantWindow window_;
    uint32_t head_ = 0;
    uint32_t granted_ = 0;
    uint32_t claimed_ = 0;
    uint32_t void_ = 0;
    uint32_t draining_ = 0;
};

}  // namespace tern
