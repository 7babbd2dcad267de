// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/base/tunables.h"

namespace tern {

// How many peers send cold. Time is counted in cold messages, in rounds of kColdRound: a peer
// counts in the round in which it sends, and in the next one. Silent peers do not count. Data path.
class ColdSenders {
  public:
    // Of one peer; a member of its channel.
    struct Peer {
        uint32_t round = 0;  // the last one in which it sent
    };

    // Messages from `peer`.
    void count(Peer& peer, uint32_t messages = 1) {
        if (peer.round != round_) {
            peer.round = round_;
            ++senders_;
        }
        messages_ += messages;
        if (messages_ >= kColdRound) [[unlikely]] {
            ++round_;
            before_ = senders_;
            messages_ = senders_ = 0;
        }
    }
    uint32_t number() const { return std::max(senders_, before_); }

  private:
    uint32_t round_ = 1;
    uint32_t messages_ = 0;  // in this round
    uint32_t senders_ = 0;   // in this round
    uint32_t before_ = 0;    // in the one before
};

// How many cold messages one side of a connection may have sent, so that they do not fill the
// shared receive queue and the network of the other side. The receiver allows a number of them,
// counted from the beginning of the connection, modulo 2^16, that only grows. Control frames are
// not counted, so they never wait.
//
// Invariant: a sender has sent at most kMost messages, and one, that the receiver has not taken;
// messages that cannot wait (EngineSettings::urgent_id) are counted, and sent all the same.
// A receiver that has taken half of what it has allowed allows more.
namespace allowance {

inline constexpr uint16_t kFirst = 8;            // without being told
inline constexpr uint16_t kMost = 256;           // beyond those taken
inline constexpr uint16_t kMostAhead = 1 << 14;  // of a limit, beyond the one before

// How many each of `senders` may send beyond those taken. Their messages have some `bytes`, and
// `receives` wait for no message that has been allowed before.
inline uint16_t window(uint32_t senders, uint32_t receives, uint32_t bytes) {
    senders = std::max(senders, 1u);
    bytes = std::max(bytes, 1u);
    const uint32_t usual = std::min<uint32_t>(kAllowanceOfAll / senders, kUsualAllowance);
    const uint32_t shorter = std::min({receives / senders, kAllowedBytes / bytes,
                                       kAllowedBytesOfAll / bytes / senders, uint32_t{kMost}});
    return static_cast<uint16_t>(std::max({usual, shorter, uint32_t{kLeastAllowance}}));
}

// At the sender.
class Taken {
  public:
    bool open() const { return left() > 0; }
    // Whether more than one may be sent.
    bool several() const { return left() > 1; }
    // More than allowed: a message's length was not known before it had to be sent.
    bool overdrawn() const { return left() < 0; }
    void sent() { ++sent_; }
    // The receiver allows `limit` messages in all. False: it breaks the protocol.
    bool extend(uint16_t limit) {
        if (static_cast<uint16_t>(limit - limit_) > kMostAhead) return false;
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
    // Whether extend() is due: half of what was allowed at a time has come.
    bool due() const { return left() <= window_ / 2; }
    // Allows `window` messages beyond those taken. False: as many are allowed already.
    bool extend(uint16_t window) {
        window_ = window;
        if (left() > window / 2) return false;
        limit_ = static_cast<uint16_t>(received_ + window);
        return true;
    }
    uint16_t limit() const { return limit_; }
    // Messages that are allowed and have not come. -1: the sender has exceeded the limit.
    int16_t left() const { return static_cast<int16_t>(limit_ - received_); }

  private:
    uint16_t limit_ = kFirst;
    uint16_t received_ = 0;
    uint16_t window_ = kFirst;
};

}  // namespace allowance

}  // namespace tern
