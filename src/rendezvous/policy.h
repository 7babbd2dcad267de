// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>

#include "rendezvous/cost_model.h"
#include "rendezvous/schedule.h"

namespace tern {

// How a message travels.
enum class Scheme : uint8_t {
    kSuperpipeline,  // staged through rings
    kZeroCopy,       // straight into the receiver's pinned memory
};

// A setting: what the model says, or always one scheme.
enum class SchemeSetting : uint8_t { kAuto, kSuperpipeline, kZeroCopy };

std::string_view name_of(Scheme scheme);
// By the order of SchemeSetting, ended by null: "auto", "superpipeline", "zcopy".
extern const char* const kSchemeSettings[];

// What is known of the user's memory on one side.
struct BufferState {
    bool pinned = false;    // all of it
    bool can_pin = true;    // a registration is possible: no limit reached, none has failed lately
    uint32_t returned = 0;  // how often it was used lately, this use included
};

// The receiver's decision.
struct Plan {
    Scheme scheme = Scheme::kSuperpipeline;
    uint64_t piece = 0;  // zero-copy: bytes to be pinned first; 0: all at once, or pinned already

    bool staged() const { return scheme == Scheme::kSuperpipeline; }
};

// The sender's, for bytes that go straight into the receiver's memory.
struct SourcePlan {
    bool gather = false;  // from the user's memory, pinned; else copied through the staging ring
    uint64_t piece = 0;   // as in Plan
};

// Chooses between the schemes by the cost model. The first rule that applies counts:
//   - what cannot be pinned is staged;
//   - a setting;
//   - what is pinned, or comes back so often that it will be worth it, is used in place, unless it
//     is so short that a processor copies it in less time than zero-copy costs whatever the length;
//   - else the scheme that takes the least time now: staging unless zero-copy is better by
//   `margin`.
// A decision takes less than a microsecond; no allocation, no clock.
class Policy {
  public:
    struct Settings {
        SchemeSetting scheme = SchemeSetting::kAuto;
        uint32_t worth_pinning = 2;  // a buffer is pinned from its use of this number on
        double margin = 0.03;
        bool overlap = true;  // what is pinned for a message is pinned while it is on the wire
        Staging staging = {.most = 64 * SubBlocks::kSubBlock};
    };

    Policy(const Costs& costs, const Settings& settings);

    // At the receiver, of a message of `length` bytes.
    Plan receive(uint64_t length, const BufferState& own, const BufferState& sender) const;
    // At the sender, of a segment of `length` bytes for pinned memory.
    SourcePlan send(uint64_t length, const BufferState& own) const;

    static constexpr uint64_t kLongestPiece = 2 << 20;
    // What is pinned behind a piece of `piece` bytes: as much as can be while that is on the wire.
    uint64_t next_piece(uint64_t piece) const;

    // How a message is staged: with the q of the settings, or B_copy / B_net where that is less, so
    // that copies do not hold up the wire.
    Staging staging(uint64_t length) const;
    // The same for a ring of `slots` sub-blocks that `buffers` chunks share.
    ScheduleLimits limits(uint64_t length, uint32_t slots, uint32_t buffers = 3) const;

    const CostModel& model() const { return model_; }

  private:
    Plan in_place(uint64_t length, const BufferState& own) const;
    uint64_t first_piece(uint64_t length) const;
    bool comes_back(const BufferState& buffer) const;

    CostModel model_;
    Settings settings_;
};

}  // namespace tern
