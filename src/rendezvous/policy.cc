// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/policy.h"

#include <algorithm>

namespace tern {

const char* const kSchemeSettings[] = {"auto", "superpipeline", "zcopy", "hybrid", nullptr};

std::string_view name_of(Scheme scheme) {
    return kSchemeSettings[static_cast<size_t>(scheme) + 1];
}

bool Policy::comes_back(const BufferState& buffer) const {
    return buffer.pinned || (buffer.can_pin && buffer.returned >= settings_.worth_pinning);
}

Plan Policy::staged(uint64_t length) const {
    return {Scheme::kSuperpipeline, length, 0};
}

Plan Policy::in_place(uint64_t length, bool pinned) const {
    return {Scheme::kZeroCopy, 0, pinned ? 0 : model_.best_piece(length)};
}

Plan Policy::receive(uint64_t length, const BufferState& own, const BufferState& sender) const {
    const Staging& staging = settings_.staging;
    if (length == 0 || !(own.pinned || own.can_pin)) return staged(length);

    if (settings_.scheme == SchemeSetting::kSuperpipeline) return staged(length);
    if (settings_.scheme == SchemeSetting::kZeroCopy) return in_place(length, own.pinned);
    if (settings_.scheme == SchemeSetting::kHybrid) {
        const CostModel::Split split = model_.best_split(length, staging);
        if (split.head >= length) return staged(length);
        return {Scheme::kHybrid, split.head, own.pinned ? 0 : split.piece};
    }

    // What the sender needs for a message that goes into pinned memory, by the best of its ways.
    const double copied = model_.copied_once(length, staging);
    double sending = copied;
    if (comes_back(sender))
        sending = model_.raw(length);
    else if (sender.can_pin)
        sending = std::min(copied, model_.pinned_behind_wire(length, model_.best_piece(length)));
    const double through = model_.superpipeline(length, staging);
    if (comes_back(own) && sending <= through) return in_place(length, own.pinned);

    // Now or never: what is not pinned will not have been worth it.
    const double enough = through / (1 + settings_.margin);
    if (model_.raw(length) > enough) return staged(length);
    const uint64_t piece = own.pinned ? 0 : model_.best_piece(length);
    const double placing =
        own.pinned ? model_.raw(length) : model_.pinned_behind_wire(length, piece);
    const double zero_copy = std::max(placing, sending);
    const CostModel::Split split = model_.best_split(length, staging);
    const bool can_split = split.head < length && sender.can_pin && !own.pinned;
    const double hybrid = can_split ? model_.hybrid(length, split, staging) : zero_copy;
    if (std::min(zero_copy, hybrid) > enough) return staged(length);
    if (hybrid < zero_copy) return {Scheme::kHybrid, split.head, split.piece};
    return {Scheme::kZeroCopy, 0, piece};
}

SourcePlan Policy::send(uint64_t length, const BufferState& own) const {
    if (own.pinned) return {true, 0};
    if (length == 0 || !own.can_pin || settings_.scheme == SchemeSetting::kSuperpipeline)
        return {false, 0};
    const uint64_t piece = model_.best_piece(length);
    if (settings_.scheme != SchemeSetting::kAuto || comes_back(own)) return {true, piece};
    const double copied = model_.copied_once(length, settings_.staging);
    const double pinned = model_.pinned_behind_wire(length, piece);
    return pinned < copied / (1 + settings_.margin) ? SourcePlan{true, piece} : SourcePlan{};
}

ScheduleLimits Policy::limits(uint64_t length, uint32_t slots, uint32_t buffers) const {
    const Staging& staging = settings_.staging;
    ScheduleLimits limits;
    limits.first_bytes = static_cast<uint32_t>(std::clamp(staging.first, 1.0, 1e9));
    limits.q = std::min(staging.q, std::max(1.0, model_.ratio(length)));
    limits.most = ScheduleLimits::most_of(slots, buffers);
    return limits;
}

}  // namespace tern
