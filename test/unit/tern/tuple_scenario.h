// SPDX-License-Identifier: BSD-3-Clause
// What can happen in a TupleWorld, how often, and which rule is left out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tern {

// A rule of the protocol that is left out, to see that this is noticed.
enum class Sabotage : uint8_t {
    kNone,
    kEpochIgnored,      // the sender uses a grant of any epoch
    kSequenceIgnored,   // the sender uses a grant for any message
    kCapacityIgnored,   // the sender uses a grant that is too small
    kGrantsStay,        // the sender does not clear old grants before it announces the slots
    kPostAfterGrant,    // the grant is written before the receive is in the queue
    kWildcardsIgnored,  // receives behind a wildcard are granted
    kMarksIgnored,      // an ordinary message is matched without looking at its number
    kClaimsIgnored,     // a receive whose direct message is on its way may be matched
    kVoidsNotDrained,   // the next epoch begins with void receives in the queue
    kDrainsEarly,       // void receives are drained while direct messages are on the way
    kNotRead,           // grants are taken back, and what the sender has announced is not read
    kReadEarly,         // it is read before the grants are overwritten
    kNotAnnounced,      // the sender does not announce what it sends
    kNotLookedAgain,    // the sender does not look at a grant again when it has announced
    kCancelAtOnce,      // a granted receive is cancelled without taking its grant back
    kAnswerOvertakes,   // answers of the sender are not in order with its messages
    kUnbindOvertakes,   // Unbind may arrive before grants that were written earlier
    kConflictIgnored,   // a message is matched although its receive is granted to another peer
    kHeldIgnored,       // a peer's receives are granted while messages of it are held
    kMarksHeld,         // numbers of held messages are heeded only when they are matched
    kTagIgnored,        // a message goes direct that has the tuple's key, but not its tag
    kKeyChangesAtOnce,  // the key mask changes while tuples are bound
    kCount
};
const char* name_of(Sabotage sabotage);

// Of tags and masks, if the scenario is one with an open bit. A wildcard's mask is 0.
inline constexpr uint8_t kOpenBit = 0x40;
inline constexpr uint8_t kExactMask = 0xff;
inline constexpr uint8_t kWideMask = kExactMask & ~kOpenBit;

struct TupleScenario {
    const char* name = "";
    uint8_t peers = 1;
    uint8_t tags = 1;
    uint8_t queues = 1;
    uint8_t depth = 2;
    uint8_t tuples = 2;              // that each sender has room for
    std::array<uint8_t, 3> sends{};  // per peer
    uint8_t posts = 0;               // receives
    uint8_t wildcards = 0;           // of these, at most
    uint8_t cancels = 0;
    uint8_t binds = 0;  // besides those of the beginning
    uint8_t unbinds = 0;
    uint8_t deaths = 0;
    uint8_t longest = 1;    // messages are 1 ... longest long
    uint8_t capacity = 1;   // receives are 1 ... capacity long
    bool any_bind = false;  // any peer and tag; else only those that are not bound yet
    bool late = false;      // what the core wants done is done some time later
    bool slow = false;      // a sender takes its time between announcing a message and sending it
    // Messages have the open bit or not; receives have the wide mask, as the key at first has.
    bool open = false;
    uint8_t exacts = 0;                         // receives with the exact mask, at most
    uint8_t key_changes = 0;                    // from one mask to the other
    std::vector<std::array<uint8_t, 2>> bound;  // peer, tag: at the beginning
    // One peer sends only these tags, if not 0.
    std::array<uint8_t, 3> only_tag{};
    uint16_t sequence = 0;
    uint16_t epoch = 0;

    std::string text() const;
};

struct TupleMove {
    enum class Kind : uint8_t {
        kSend,      // peer a, tag b, length c
        kPost,      // mask a, tag b, capacity c
        kCancel,    // receive a
        kFrame,     // peer a's next frame arrives at the receiver
        kAnswer,    // the next frame to peer a arrives
        kDecide,    // peer a, which has announced a message, sends it
        kGrant,     // the next grant to peer a arrives, or the next read
        kRead,      // the answer to peer a's next read arrives
        kAsk,       // what the peer of queue a has announced is to be read again
        kDirect,    // peer a's next direct message arrives
        kDrain,     // of queue a
        kBind,      // peer a, tag b
        kUnbind,    // queue a
        kDeath,     // of peer a
        kKey,       // the key mask is to be the other one
        kAct,       // what the core wants done next is done
        kPostLate,  // sabotage only
        kOvertake,  // sabotage only
    };
    Kind kind = Kind::kSend;
    uint8_t a = 0;
    uint8_t b = 0;
    uint8_t c = 0;

    std::string text() const;
};

}  // namespace tern
