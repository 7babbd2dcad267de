// SPDX-License-Identifier: BSD-3-Clause
// The decisions of a rendezvous: how a message, a put or a get comes to its receiver, and from
// where the sender writes it. All are taken here, by kRules (decision.cc) and by costs, from plain
// values: no clock, no device, no lock, no allocation, and less than a microsecond.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tern/base/tunables.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/schedule.h"

namespace tern {

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
    kReused,         // the buffer is used again, and worth a pin; of a read: and so is the message
    kRingsTaken,     // all rings have been lent to other peers for long
    kPinFailed,      // the buffer could not be registered
    kSeveralPieces,  // the buffer is not one piece of the user's memory
    kCannotPin,      // the buffer is not pinned, and too long to be pinned
    kSetting,        // UCX_TERN_RNDV_SCHEME
    kPinned,         // the buffer is pinned
    kFaster,         // by the costs
};
constexpr size_t kReasons = static_cast<size_t>(Reason::kFaster) + 1;

// As the user names the scheme; "read" for kRead.
std::string_view name_of(Scheme scheme);
// For the log.
const char* text_of(Reason reason);

// The user's setting: the costs decide, or one scheme is used for all messages.
enum class SchemeSetting : uint8_t { kAuto, kSuperpipeline, kZeroCopy };

// In the order of SchemeSetting, ended by null: "auto", "superpipeline", "zcopy".
extern const char* const kSchemeSettings[];

// The state of the user's memory on one side.
struct BufferState {
    bool pinned = false;     // all of it
    bool can_pin = true;     // not too long to be pinned
    uint32_t uses = 0;       // number of recent uses, this use included
    bool keeps = true;       // a pin of it would be remembered after its use
    bool of_device = false;  // pinned, and the processor may not touch it
};

// All that a decision depends on, besides costs.
struct DecisionInputs {
    uint64_t length = 0;
    // The sender's memory, as far as is known.
    BufferState sender;
    bool readable = false;  // there is an rkey that is good for this message
    // The receiver's memory; of a decision about one buffer, that buffer.
    BufferState own;
    bool one_piece = true;  // of the user's memory
    // What has been tried for this message.
    bool rings_taken = false;
    bool pin_failed = false;
};

struct Decision {
    Scheme scheme = Scheme::kStaged;
    Reason reason = Reason::kNone;
    uint64_t piece = 0;  // kPlaced: bytes to pin first; 0: all at once, or pinned already
    // The buffer is used again: pieces end at multiples of `piece`, so that they are found again.
    bool reused = false;

    bool staged() const { return scheme == Scheme::kStaged; }
};

// Decides for an interface, by its settings and costs.
class Decider {
  public:
    struct Settings {
        SchemeSetting scheme = SchemeSetting::kAuto;
        uint32_t worth_pinning = 2;  // a buffer is pinned from this use on
        double margin = 0.03;
        bool overlap = kTunables.rndv_pin_overlap !=
                       0;  // memory is pinned while the piece before it is on the wire
        Staging staging = {.most = 64 * SubBlocks::kSubBlock};
    };

    Decider(const Costs& costs, const Settings& settings);

    // The receiver's decision about a message, a long put or a long get; the sender guesses it.
    Decision decide(const DecisionInputs& inputs) const;
    // Whether one buffer is accessed in place (kPlaced) or copied (kStaged): the sender's, whose
    // bytes go to the receiver's pinned memory, or the receiver's, whose device reads. Of `inputs`,
    // `length`, `own` and `one_piece` count.
    Decision decide_buffer(const DecisionInputs& inputs) const;
    // Whether a get of one work request goes to the user's memory (true) or to a registered
    // buffer, from which it is copied. `to_pin`: bytes to be pinned if they are not.
    bool reads_in_place(uint64_t length, uint64_t to_pin, const BufferState& own) const;

    // Whether the buffer is pinned, or used so often that it is worth a pin.
    bool is_reused(const BufferState& buffer) const;

    // The piece after one of `piece` bytes: as long as can be pinned while that is on the wire, up
    // to kLongPiece.
    uint64_t next_piece(uint64_t piece) const;
    // Bytes of a piece, at most: as one call of progress allows (ProgressBudget).
    uint64_t longest_piece() const { return longest_piece_; }
    // Bytes that are copied at once, at most.
    uint64_t longest_copy() const { return longest_copy_; }

    // How a message is staged: with the q of the settings, or with B_copy / B_net if that is less,
    // so that the wire does not wait for copies.
    Staging staging(uint64_t length) const;
    // How a message is staged in a ring of `slots` sub-blocks that `buffers` chunks share.
    ScheduleLimits limits(uint64_t length, uint32_t slots, uint32_t buffers = 3) const;

    // What a message costs that is staged, or written to its place. The time is that of the
    // message; the work is that of the two processors, of which the message does not wait for all.
    // Memory that is worth a pin has to be registered once; a use bears the share that it has if
    // the buffer is used as many times again.
    struct Offer {
        double time = 0;  // until the message is in place
        double work = 0;  // of processors, besides

        double cost() const { return time + work; }
    };
    Offer staged(uint64_t length) const;
    Offer placed(uint64_t length, const BufferState& own, const BufferState& sender) const;

    const CostModel& model() const { return model_; }
    const Settings& settings() const { return settings_; }

  private:
    Decision by_rules(const DecisionInputs& inputs, bool of_message) const;
    Decision made(const DecisionInputs& inputs, Scheme scheme, Reason reason) const;
    uint64_t piece(uint64_t length) const;
    uint64_t first_piece(uint64_t length) const;
    double registering(uint64_t bytes, const BufferState& own) const;

    CostModel model_;
    Settings settings_;
    uint64_t longest_piece_;
    uint64_t longest_pin_;  // of a buffer that needs no pieces
    uint64_t longest_copy_;
};

// The time from the decision to fetch a message until both sides know that it is over, for messages
// of up to `upto` bytes that are longer than those of the range before: latency + fixed + length *
// per_byte, in seconds; `fixed` may be negative. Further messages can be under way during the
// latency.
struct FetchRange {
    uint64_t upto = 0;
    double latency = 0;
    double fixed = 0;
    double per_byte = 0;
    Scheme scheme = Scheme::kStaged;
};

inline constexpr size_t kFetchRanges = 7;  // at most

// The times of the scheme that the decider chooses for buffers that are used for the first time, as
// straight lines: ranges are short enough that a line is within a few per cent of the model.
// Buffers of more than `longest_pin` bytes are not pinned. Copies take the time that the user of
// the result assumes for its own copies, to compare like with like: `copy_bandwidth`, in bytes per
// second. The last range is unlimited.
struct FetchTimes {
    std::array<FetchRange, kFetchRanges> ranges;
    size_t count = 0;
};
FetchTimes fetch_times(const Decider& decider, uint64_t longest_pin, double copy_bandwidth);

}  // namespace tern
