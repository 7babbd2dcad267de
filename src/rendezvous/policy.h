// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>

#include "rendezvous/cost_model.h"
#include "rendezvous/schedule.h"
#include "rendezvous/scheme_timings.h"

namespace tern {

enum class Scheme : uint8_t {
    kSuperpipeline,  // staged through rings
    kZeroCopy,       // written directly to the receiver's pinned memory
};

// The user's setting: the model decides, or one scheme is used for all messages.
enum class SchemeSetting : uint8_t { kAuto, kSuperpipeline, kZeroCopy };

std::string_view name_of(Scheme scheme);
// In the order of SchemeSetting, ended by null: "auto", "superpipeline", "zcopy".
extern const char* const kSchemeSettings[];

// The state of the user's memory on one side.
struct BufferState {
    bool pinned = false;  // all of it
    bool can_pin = true;  // not too long to be pinned
    uint32_t uses = 0;    // number of recent uses, this use included
    bool keeps = true;    // a pin of it would be remembered after its use
};

struct Plan {
    Scheme scheme = Scheme::kSuperpipeline;
    uint64_t piece = 0;  // zero-copy: bytes to pin first; 0: all at once, or pinned already
    // The buffer is used again: pieces end at multiples of `piece`, so that they are found again.
    bool again = false;
    // For SchemeTimings::took(); 0: not to be told.
    SchemeTimings::Way way = SchemeTimings::Way::kStaged;
    double expected = 0;

    bool staged() const { return scheme == Scheme::kSuperpipeline; }
};

// How the sender reads bytes that it writes directly to the receiver's memory.
struct SourcePlan {
    bool gather = false;  // from the user's pinned memory; else copied through staging memory
    uint64_t piece = 0;   // as in Plan
    bool again = false;   // as in Plan
};

// Chooses between the schemes by the cost model. The first rule that applies counts:
//   - a buffer that cannot be pinned is staged;
//   - a setting is obeyed;
//   - a buffer that is pinned, or is used often enough to be worth pinning, is used in place if
//     that costs less than staging: time and work of both sides, and a share of the registration;
//   - else the faster scheme is used: staging, unless zero-copy is faster by `margin`.
// What a scheme takes is what the model says, corrected by timings. A decision takes less than a
// microsecond; no allocation, no clock.
class Policy {
  public:
    struct Settings {
        SchemeSetting scheme = SchemeSetting::kAuto;
        uint32_t worth_pinning = 2;  // a buffer is pinned from this use on
        double margin = 0.03;
        bool overlap = true;  // memory is pinned while the piece before it is on the wire
        Staging staging = {.most = 64 * SubBlocks::kSubBlock};
    };

    Policy(const Costs& costs, const Settings& settings);

    // The receiver's decision for a message of `length` bytes. `may_try`: nothing else is under
    // way, so that experience can be gained.
    Plan receive(uint64_t length, const BufferState& own, const BufferState& sender,
                 SchemeTimings& timings, bool may_try) const;
    // What it would probably decide, by what is known here.
    Plan receive(uint64_t length, const BufferState& own, const BufferState& sender,
                 const SchemeTimings& timings = {}) const;
    // A message that cannot be staged now; its buffer need not be worth pinning.
    Plan without_ring(uint64_t length) const {
        return {Scheme::kZeroCopy, piece_again(length), true};
    }
    // Whether a read of `length` bytes that needs no help from the peer should go to the user's own
    // memory, and not through a registered buffer, from which it is copied. `to_pin`: bytes to be
    // pinned if they are not.
    bool reads_in_place(uint64_t length, uint64_t to_pin, const BufferState& own) const;
    // The sender's decision for a segment of `length` bytes that goes to pinned memory.
    SourcePlan send(uint64_t length, const BufferState& own) const;

    static constexpr uint64_t kLongPiece = 2 << 20;
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
    // The same, for a ring of `slots` sub-blocks that `buffers` chunks share.
    ScheduleLimits limits(uint64_t length, uint32_t slots, uint32_t buffers = 3) const;

    // What a message costs that is staged, or written to its place. The time is that of the
    // message; the work is that of the two processors, of which the message does not wait for all.
    // Memory that is worth a pin has to be registered once; a use bears the share that it has if
    // the buffer is used as many times again.
    SchemeTimings::Offer staged(uint64_t length) const;
    SchemeTimings::Offer placed(uint64_t length, const BufferState& own,
                                const BufferState& sender) const;

    const CostModel& model() const { return model_; }
    const Settings& settings() const { return settings_; }

  private:
    template <class Prefers>
    Plan decide(uint64_t length, const BufferState& own, const BufferState& sender,
                Prefers&& prefers) const;
    Plan in_place(uint64_t length, const BufferState& own) const;
    uint64_t piece(uint64_t length) const;
    uint64_t first_piece(uint64_t length) const;
    uint64_t piece_again(uint64_t length) const;
    bool is_reused(const BufferState& buffer) const;

    CostModel model_;
    Settings settings_;
    uint64_t longest_piece_;
    uint64_t longest_pin_;  // of a buffer that needs no pieces
    uint64_t longest_copy_;
};

}  // namespace tern
