// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tern/base/tunables.h"

namespace tern {

// Decides which tuples have a queue: tuples of one peer whose messages are many, long enough, and
// find their receives posted. A queue without grants costs nearly nothing, and GrantWindow avoids
// useless grants, so a tuple loses its queue only if another tuple wants one. Time is counted in
// messages, so it stands still when nothing happens. A table of fixed size remembers the most
// recent tags.
//
// Use by a binding, after an ordinary message has been matched:
//     of a tuple       policy.missed(number)
//     of no tuple      if (policy.worth(peer, tag, length, whether its receive was posted)) {
//                          if (receivers.bind(peer, tag))
//                              policy.bound(receivers.lookup(tag), peer, tag);
//                          else if (victim = policy.victim(tag); it is not kNone)
//                              receivers.unbind(victim);
//                      }
// After a direct message: policy.used(number). When the sender refuses: discourage(number). When a
// queue is free again, for whatever reason: freed(number).
class TuplePolicy {
  public:
    struct Limits {
        uint32_t after = kTunables.tm_tuple_after;  // messages until a tuple gets a queue
        uint64_t least = 4096;                      // bytes; shorter messages do not count
        // Bytes; longer messages do not count. A direct message is one work request, behind which
        // the sender's frames may have to wait, also frames that ask for messages in the other
        // direction.
        uint64_t most = 4 << 20;
        uint32_t idle = 16;  // a tuple may lose its queue if its last direct message is this many
                             // messages ago for each queue there is

        // Whether a message or receive of this length is worth a queue.
        bool counts(uint64_t length) const { return length >= least && length <= most; }
    };
    static constexpr uint16_t kNone = 0xffff;

    TuplePolicy(const Limits& limits, uint32_t queues);

    bool counts(uint64_t length) const { return limits_.counts(length); }
    // A message that belongs to no tuple. True if its key is worth a queue. Data path.
    bool worth(uint32_t peer, uint64_t tag, uint64_t length, bool expected);
    // A message of the tuple was direct, or was not. Data path.
    void used(uint16_t number) {
        Queue& queue = queues_[number];
        queue.last = ++now_;
        ++queue.uses;
    }
    void missed(uint16_t number) {
        ++now_;
        ++queues_[number].misses;
    }

    // The tuple has been bound to queue `number`.
    void bound(uint16_t number, uint32_t peer, uint64_t tag);
    // No queue is free for a tuple that is worth one. Returns the queue that has been of no use for
    // longest, to be unbound; kNone if none has been for long enough, or an earlier victim is not
    // free yet.
    uint16_t victim(uint64_t tag);
    // The tuple was refused: it needs twice as many messages to get a queue again.
    void discourage(uint16_t number);
    // The queue is free. Discourages its tuple if most of the tuple's messages were ordinary.
    void freed(uint16_t number);
    // The peer is gone: another peer that sends its tags later does not count as a second sender.
    void gone(uint32_t peer);

  private:
    static constexpr size_t kWays = 4;
    static constexpr size_t kSets = 128;

    struct Tag {
        uint64_t tag = 0;
        uint32_t peer = 0;
        uint32_t count = 0;
        uint64_t seen = 0;    // 0: none
        uint8_t strikes = 0;  // the tag needs 2^strikes times as many messages
        bool shared = false;  // several peers send it
    };
    struct Queue {
        uint64_t tag = 0;
        uint32_t peer = 0;
        uint64_t last = 0;  // when it was bound or a message was direct
        uint64_t uses = 0;
        uint64_t misses = 0;
        bool bound = false;
        bool leaving = false;
    };

    Tag* set(uint64_t tag) { return &tags_[(tag * 0x9e3779b97f4a7c15 >> 57) * kWays]; }
    Tag* find(uint64_t tag);
    Tag& find_or_replace(uint32_t peer, uint64_t tag);

    Limits limits_;
    uint64_t now_ = 0;
    std::vector<Tag> tags_;
    std::vector<Queue> queues_;
};

}  // namespace tern
