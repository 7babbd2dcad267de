// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/base/tunables.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/decision.h"
#include "tern/rendezvous/schedule.h"
#include "tern/rendezvous/scheme_timings.h"

namespace tern {

// The user's setting: the model decides, or one scheme is used for all messages.
enum class SchemeSetting : uint8_t { kAuto, kSuperpipeline, kZeroCopy };

// In the order of SchemeSetting, ended by null: "auto", "superpipeline", "zcopy".
extern const char* const kSchemeSettings[];

// The user's settings for long messages, and what follows from them and from the costs: what each
// scheme costs, how much is pinned or copied at a time. decide() (decision.h) chooses by it. No
// allocation, no clock.
class Policy {
  public:
    struct Settings {
        SchemeSetting scheme = SchemeSetting::kAuto;
        uint32_t worth_pinning = 2;  // a buffer is pinned from this use on
        double margin = 0.03;
        bool overlap = kTunables.rndv_pin_overlap !=
                       0;  // memory is pinned while the piece before it is on the wire
        Staging staging = {.most = 64 * SubBlocks::kSubBlock};
    };

    Policy(const Costs& costs, const Settings& settings);

    // Whether the buffer is pinned, or used so often that it is worth a pin.
    bool is_reused(const BufferState& buffer) const;
    // Whether a read of `length` bytes that needs no help from the peer should go to the user's own
    // memory, and not through a registered buffer, from which it is copied. `to_pin`: bytes to be
    // pinned if they are not.
    bool reads_in_place(uint64_t length, uint64_t to_pin, const BufferState& own) const;

    // The first piece of a buffer that is pinned for one message; 0: all at once.
    uint64_t first_piece(uint64_t length) const;
    // The length of all pieces of a buffer that is used again; 0: all at once.
    uint64_t reused_piece(uint64_t length) const;
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
    uint64_t piece(uint64_t length) const;

    CostModel model_;
    Settings settings_;
    uint64_t longest_piece_;
    uint64_t longest_pin_;  // of a buffer that needs no pieces
    uint64_t longest_copy_;
};

}  // namespace tern
