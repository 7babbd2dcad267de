// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// How many cold messages one side of a connection may have sent, so that they do not fill the
// shared receive queue and the network of the other side. The receiver allows a number of them,
// counted from the beginning of the connection, modulo 2^16, that only grows. Control frames are
// not counted, so they never wait.
//
// Invariant: a sender has sent at most kMost messages, and one, that the receiver has not taken;
// kMostRepeats if it repeats messages (repeats.h), which are writes, and so take no memory of the
// receiver's but an entry of the queue.
// A receiver that has taken all that it has allowed allows more.
namespace allowance {

inline constexpr uint16_t kFirst = 8;  // without being told
inline constexpr uint16_t kMost = 16;  // beyond those taken
inline constexpr uint16_t kMostRepeats = 64;
inline constexpr uint16_t kLeast = 2;       // the same, however many senders there are
inline constexpr uint16_t kTogether = 128;  // of all senders, as far as kLeast permits

// How many each sender may send beyond those taken; `most`: kMost, or up to kMostRepeats.
inline uint16_t window(uint32_t senders, uint32_t most = kMost) {
    return static_cast<uint16_t>(
        std::clamp<uint32_t>(kTogether / std::max(senders, 1u), kLeast, most));
}

// At the sender.
class Taken {
  public:
    bool open() const { return left() > 0; }
    // Whether more than one may be sent.
    bool several() const { return left() > 1; }
    // One message more than allowed: its length was not known before it had to be sent.
    bool overdrawn() const { return left() < 0; }
    void sent() { ++sent_; }
    // The receiver allows `limit` messages in all. False: it breaks the protocol.
    bool extend(uint16_t limit) {
        // One more, if the message that was not allowed has been taken too.
        if (static_cast<uint16_t>(limit - limit_) > kMostRepeats + 1) return false;
        limit_ = limit;
        return true;
    }

  private:
    int16_t left() const { return static_cast<int16_t>(limit_ - sent_); }

    uint16_t limit_ = kFirst;
    uint16_t sent_ = 0;
};

// At the receiver.
class Given {
  public:
    void received(uint16_t messages = 1) {
        received_ = static_cast<uint16_t>(received_ + messages);
    }
    // Whether extend() is due: soon enough that a sender need not wait, and not for a few messages.
    bool due(uint16_t window) const { return left() <= std::min(window, kFirst) / 2; }
    // The same for a sender that goes on while there is none left, by dearer ways.
    bool due_early(uint16_t window) const { return left() <= window / 2; }
    // Returns the new limit; the old one if it allows as much.
    uint16_t extend(uint16_t window) {
        if (left() < window) limit_ = static_cast<uint16_t>(received_ + window);
        return limit_;
    }

  private:
    int16_t left() const { return static_cast<int16_t>(limit_ - received_); }

    uint16_t limit_ = kFirst;
    uint16_t received_ = 0;
};

}  // namespace allowance

}  // namespace tern
