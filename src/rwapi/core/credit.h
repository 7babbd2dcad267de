// SPDX-License-Identifier: BSD-3-Clause
// Flow control of small messages. A receiver has room for `credit` messages of each peer; the
// sender spends one unit for each message, and the receiver returns units after the user has
// received the messages. Invariants of one direction between two processes:
//
//   sender:    left <= credit
//   receiver:  held + owed <= credit
//   together:  left + messages under way + held + owed + units under way = credit
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/assert.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

// The sender's side of the small messages to one peer.
class SmallSender {
  public:
    void open(uint32_t credit) { credit_ = left_ = credit; }
    // Spends credit for one message. False: there is none.
    bool spend() {
        if (left_ == 0) return false;
        --left_;
        return true;
    }
    // The peer returns units. False: it returns more than were spent, and nothing is changed.
    bool add(uint32_t units) {
        TERN_ASSERT(left_ <= credit_);
        if (units > credit_ - left_) return false;
        left_ += units;
        return true;
    }
    uint32_t left() const { return left_; }

  private:
    uint32_t credit_ = 0;
    uint32_t left_ = 0;
};

// The receiver's side for one peer.
class SmallReceiver {
  public:
    void open(uint32_t credit) { credit_ = credit; }
    // A message has arrived. False: the peer had no credit for it.
    bool on_arrival() {
        if (held_ + owed_ >= credit_) return false;
        ++held_;
        return true;
    }
    // The user has received a message. True: the units owed are to be returned now.
    bool on_received() {
        TERN_ASSERT(held_ > 0);
        --held_;
        ++owed_;
        return is_due();
    }
    // Whether so many units are owed that they are worth a message of their own.
    bool is_due() const { return owed_ >= (credit_ + 1) / 2; }
    uint32_t owed() const { return owed_; }
    // A message with these units has been sent.
    void on_returned(uint32_t units) {
        TERN_ASSERT(units <= owed_);
        owed_ -= units;
    }

  private:
    uint32_t credit_ = 0;
    uint32_t held_ = 0;  // messages in the inbox
    uint32_t owed_ = 0;  // units of messages that the user has received
};

// Small messages that have arrived, in order. It grows with the number of peers that send, because
// each of them has credit: to twice the size at least, so that all of them together copy no more
// messages than it then has room for.
class Inbox {
  public:
    struct Message {
        uint32_t node;
        rwapi_small small;
    };

    // Makes room for a peer's messages.
    void add_sender(uint32_t credit) {
        needed_ += credit;
        if (needed_ <= ring_.size()) return;
        std::vector<Message> larger(std::max(needed_, 2 * ring_.size()));
        for (size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) % ring_.size()];
        ring_ = std::move(larger);
        first_ = 0;
    }

    // There is room, because the sender has spent credit for the message.
    void push(const Message& message) {
        TERN_ASSERT(count_ < ring_.size());
        ring_[(first_ + count_++) % ring_.size()] = message;
    }

    bool pop(Message& message) {
        if (count_ == 0) return false;
        message = ring_[first_];
        first_ = (first_ + 1) % ring_.size();
        --count_;
        return true;
    }

    // Messages that it has room for.
    size_t room() const { return ring_.size(); }

  private:
    std::vector<Message> ring_;
    size_t needed_ = 0;  // the credit of all senders
    size_t first_ = 0;
    size_t count_ = 0;
};

}  // namespace rwapi
