// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rwapi/include/rwapi.h"

namespace rwapi {

// The sender's side of small messages to one peer: it sends only what the peer has room for.
class SmallSender {
  public:
    void open(uint32_t credit) { most_ = left_ = credit; }
    bool take() {
        if (left_ == 0) return false;
        --left_;
        return true;
    }
    // The peer has received so many more. False: it says it received more than were sent.
    bool give(uint32_t credit) {
        if (credit > most_ - left_) return false;
        left_ += credit;
        return true;
    }
    uint32_t left() const { return left_; }

  private:
    uint32_t most_ = 0;
    uint32_t left_ = 0;
};

// The receiver's side for one peer.
class SmallReceiver {
  public:
    void open(uint32_t credit) { most_ = credit; }
    // A message has come. False: there was no credit for it.
    bool came() {
        if (held_ + owed_ >= most_) return false;
        ++held_;
        return true;
    }
    // The user has received one. True: so many are owed that they should be given back now.
    bool received() {
        --held_;
        return ++owed_ >= (most_ + 1) / 2;
    }
    bool due() const { return owed_ >= (most_ + 1) / 2; }
    uint32_t owed() const { return owed_; }
    void gave(uint32_t credit) { owed_ -= credit; }

  private:
    uint32_t most_ = 0;
    uint32_t held_ = 0;  // in the inbox
    uint32_t owed_ = 0;  // received, and not given back yet
};

// Small messages that have come, in order. It grows with the number of peers that send, because
// each of them has credit.
class Inbox {
  public:
    struct Message {
        uint32_t node;
        rwapi_small small;
    };

    // Makes room for a peer's messages.
    void add_sender(uint32_t credit) {
        std::vector<Message> larger(ring_.size() + credit);
        for (size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) % ring_.size()];
        ring_ = std::move(larger);
        first_ = 0;
    }

    void push(const Message& message) { ring_[(first_ + count_++) % ring_.size()] = message; }

    bool pop(Message& message) {
        if (count_ == 0) return false;
        message = ring_[first_];
        first_ = (first_ + 1) % ring_.size();
        --count_;
        return true;
    }

  private:
    std::vector<Message> ring_;
    size_t first_ = 0;
    size_t count_ = 0;
};

}  // namespace rwapi
