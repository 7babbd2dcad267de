// SPDX-License-Identifier: BSD-3-Clause
// The events of a TupleWorld, their numbers, and the rule that is left out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tern {

// A rule of the protocol that is left out, to check that the tests notice.
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
    kNotRead,           // grants are taken back, but the announced number is not read
    kReadEarly,         // the announced number is read before the grants are overwritten
    kNotAnnounced,      // the sender does not announce direct messages
    kNotLookedAgain,    // the sender does not look at a grant again after announcing
    kCancelAtOnce,      // a granted receive is canceled without taking its grant back
    kAnswerOvertakes,   // answers of the sender are not in order with its messages
    kUnbindOvertakes,   // Close may arrive before grants that were written earlier
    kConflictIgnored,   // a message is matched although its receive is granted to another peer
    kHeldIgnored,       // receives are granted to a peer while messages of the peer are held
    kMarksHeld,         // numbers of held messages take effect only when the messages are matched
    kTagIgnored,        // a message with the tuple's key is direct although it has another tag
    kKeyChangesAtOnce,  // the key mask changes while tuples are bound
    kCount
};
const char* name_of(Sabotage sabotage);

// Of tags and masks, in scenarios with an open bit. A wildcard's mask is 0.
inline constexpr uint8_t kOpenBit = 0x40;
inline constexpr uint8_t kExactMask = 0xff;
inline constexpr uint8_t kWideMask = kExactMask & ~kOpenBit;

struct TupleScenario {
    const char* name = "";
    uint8_t peers = 1;
    uint8_t tags = 1;
    uint8_t queues = 1;
    uint8_t depth = 2;
    uint8_t tuples = 2;              // room of each sender for tuples
    std::array<uint8_t, 3> sends{};  // per peer
    uint8_t posts = 0;               // receives
    uint8_t wildcards = 0;           // of the receives, at most
    uint8_t cancels = 0;
    uint8_t binds = 0;  // besides those at the beginning
    uint8_t unbinds = 0;
    uint8_t deaths = 0;
    uint8_t longest = 1;   // messages are 1 ... longest long
    uint8_t capacity = 1;  // receives are 1 ... capacity long
    bool late = false;     // actions of the core are performed some time later
    bool slow = false;     // time may pass between a sender's announcement and its decision
    // Messages may have the open bit; receives have the wide mask, which is the first key mask.
    bool open = false;
    uint8_t exacts = 0;                         // receives with the exact mask, at most
    uint8_t key_changes = 0;                    // from one mask to the other
    std::vector<std::array<uint8_t, 2>> bound;  // peer and tag of the tuples bound at the beginning
    // The only tag that each peer sends; 0: any.
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
        kDecide,    // peer a sends the message that it has announced, or withdraws it
        kGrant,     // the next grant to peer a arrives, or the next read
        kRead,      // the answer to peer a's next read arrives
        kAsk,       // the announced number for queue a is to be read again
        kDirect,    // peer a's next direct message arrives
        kDrain,     // of queue a
        kBind,      // peer a, tag b
        kUnbind,    // queue a
        kDeath,     // of peer a
        kKey,       // another key mask is wanted
        kAct,       // the core's next action is performed
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
