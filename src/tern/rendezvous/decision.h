// SPDX-License-Identifier: BSD-3-Clause
// The decisions of a rendezvous: how a message comes to its receiver, from where the sender writes
// it, and whether the sender lets the receiver read it. All are taken here, from plain values and
// the costs of the policy: no clock, no device, no lock, and less than a microsecond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tern/rendezvous/scheme_timings.h"

namespace tern {

class Policy;

// How a message comes to its receiver.
enum class Scheme : uint8_t {
    kStaged,  // the superpipeline: the sender writes through a ring, the receiver copies out of it
    kPlaced,  // zero-copy: the sender writes to the receiver's pinned memory
    kRead,    // the receiver's device reads the sender's memory, without the sender
};

// Why a decision was taken.
enum class Reason : uint8_t {
    kNone,           // nothing has been decided yet
    kOpenMemory,     // the peer's memory is open: its rkey is good at any time
    kSenderIsLate,   // the sender keeps its receivers waiting, and lets them read
    kReused,         // the buffer is used again, and worth a pin; of a read: and so is the message
    kRingsTaken,     // all rings have been lent to other peers for long
    kPinFailed,      // the buffer could not be registered
    kSeveralPieces,  // the buffer is not one piece of the user's memory
    kCannotPin,      // the buffer is not pinned, and too long to be pinned
    kSetting,        // UCX_TERN_RNDV_SCHEME
    kPinned,         // the buffer is pinned
    kFaster,         // by the costs and by what the schemes have taken
    kTrial,          // the other scheme is the faster one as far as is known; measured again
};
constexpr size_t kReasons = static_cast<size_t>(Reason::kTrial) + 1;

// As the user names the scheme; "read" for kRead.
std::string_view name_of(Scheme scheme);
// For the log.
const char* text_of(Reason reason);

// The state of the user's memory on one side.
struct BufferState {
    bool pinned = false;     // all of it
    bool can_pin = true;     // not too long to be pinned
    uint32_t uses = 0;       // number of recent uses, this use included
    bool keeps = true;       // a pin of it would be remembered after its use
    bool of_device = false;  // pinned, and the processor may not touch it
};

// All that a receiver's decision depends on, besides costs.
struct DecisionInputs {
    uint64_t length = 0;
    // The sender's memory, as far as is known.
    BufferState sender;
    bool readable = false;  // there is an rkey that is good for this message
    bool late = false;      // with `readable`: it is there because the sender is late
    // The receiver's memory.
    BufferState own;
    bool one_piece = true;  // of the user's memory
    // What has been tried for this message.
    bool rings_taken = false;
    bool pin_failed = false;
    // Nothing else is under way, so that the time of a scheme can be measured.
    bool may_try = false;
};

struct Decision {
    Scheme scheme = Scheme::kStaged;
    Reason reason = Reason::kNone;
    uint64_t piece = 0;  // kPlaced: bytes to pin first; 0: all at once, or pinned already
    // The buffer is used again: pieces end at multiples of `piece`, so that they are found again.
    bool reused = false;
    // For SchemeTimings::took(); 0: the time of this message teaches nothing.
    SchemeTimings::Way way = SchemeTimings::Way::kStaged;
    double expected = 0;

    bool staged() const { return scheme == Scheme::kStaged; }
};

// The receiver's decision. The first rule that applies counts:
//   1. memory that is open is read: Rendezvous::rkey_to_read() says so, as nothing else counts;
//   2. a buffer in a device's memory is used in place: a message that can be read is read, others
//      are written to it;
//   3. a message that can be read is read if its sender is late, or if the receiver's buffer is
//      used again, unless the setting is `superpipeline`;
//   4. what has failed is not tried again: no rings, or no pin;
//   5. a buffer that cannot be pinned is staged;
//   6. a setting is obeyed;
//   7. a buffer that is pinned, or is used often enough to be worth pinning, is used in place if
//      that costs less than staging: time and work of both sides, and a share of the registration;
//   8. else the faster scheme is used: staging, unless zero-copy is faster by Settings::margin.
// The costs are the model's, corrected by `timings`, which remember the choice. If `may_try`, the
// choice may be the slower scheme, so that its time is measured.
Decision decide(const DecisionInputs& inputs, const Policy& policy, SchemeTimings& timings);
// What decide() would probably say. Changes nothing.
Decision expect(const DecisionInputs& inputs, const Policy& policy,
                const SchemeTimings& timings = {});
// Why memory with an rkey is read; see DecisionInputs.
constexpr Reason reason_to_read(bool readable, bool late) {
    if (!readable) return Reason::kOpenMemory;
    return late ? Reason::kSenderIsLate : Reason::kReused;
}

// From where the sender writes bytes that go to the receiver's pinned memory.
struct SourceDecision {
    bool in_place = false;  // from the user's pinned memory; else copied through staging memory
    Reason reason = Reason::kNone;
    uint64_t piece = 0;   // as in Decision
    bool reused = false;  // as in Decision
};
// For a segment of `length` bytes.
SourceDecision decide_source(uint64_t length, const BufferState& own, const Policy& policy);

// The same for a read of `length` bytes: kPlaced or kStaged, by what decide_source() says of the
// receiver's buffer.
Decision decide_target(uint64_t length, const BufferState& own, const Policy& policy);

// Whether the request of a message carries an rkey, so that its receiver may read it.
enum class Publishing : uint8_t {
    kNone,
    kReused,  // the memory is used again, so it is pinned or soon will be
    kLate,    // this process keeps the receivers of its messages waiting
};
// `allowed`: the setting allows it, the key is one of a request, and the memory is not open anyway.
constexpr Publishing publishing(bool allowed, bool reused, bool late) {
    if (!allowed) return Publishing::kNone;
    if (late) return Publishing::kLate;
    return reused ? Publishing::kReused : Publishing::kNone;
}

}  // namespace tern
