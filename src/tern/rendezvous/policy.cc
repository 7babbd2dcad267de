// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/policy.h"

#include <algorithm>

#include "tern/rendezvous/progress_budget.h"

namespace tern {

namespace {

constexpr double kLate = 1.1;  // registrations sometimes take this much longer

}  // namespace

const char* const kSchemeSettings[] = {"auto", "superpipeline", "zcopy", nullptr};

Policy::Policy(const Costs& costs, const Settings& settings)
    : model_(costs),
      settings_(settings),
      longest_piece_(ProgressBudget::longest_piece(model_.costs())),
      longest_pin_(ProgressBudget::longest_registration(model_.costs())),
      longest_copy_(ProgressBudget::longest_copy(model_.costs())) {
    if (!(settings_.margin > 0)) settings_.margin = 0;
}

bool Policy::is_reused(const BufferState& buffer) const {
    return buffer.pinned ||
           (buffer.can_pin && buffer.keeps && buffer.uses >= settings_.worth_pinning);
}

Staging Policy::staging(uint64_t length) const {
    Staging staging = settings_.staging;
    const double q = settings_.staging.q;
    staging.q = q > 1 ? std::min(q, std::max(1.0, model_.ratio(length))) : 1;
    return staging;
}

ScheduleLimits Policy::limits(uint64_t length, uint32_t slots, uint32_t buffers) const {
    const Staging shape = staging(length);
    ScheduleLimits limits;
    limits.first_bytes = shape.first > 1 ? static_cast<uint32_t>(std::min(shape.first, 1e9)) : 1;
    limits.q = shape.q;
    limits.most = std::min(ScheduleLimits::most_of(slots, buffers),
                           static_cast<uint32_t>(longest_copy_ / SubBlocks::kSubBlock));
    return limits;
}

// The model's pieces take as long to pin as to send. If there are many, the first is a quarter
// longer: registrations may be late by as much, and the next piece may be longer.
uint64_t Policy::first_piece(uint64_t length) const {
    if (!settings_.overlap) return 0;
    const uint64_t piece = this->piece(length);
    if (piece >= length / 4) return piece;
    return std::min(piece + piece / 4 / CostModel::kPage * CostModel::kPage, longest_piece_);
}

// The model's best piece that can be pinned at once.
uint64_t Policy::piece(uint64_t length) const {
    const uint64_t piece = model_.best_piece(length);
    return std::min(piece != 0 ? piece : length, longest_piece_) % std::max<uint64_t>(length, 1);
}

// One pin, which one lookup finds, unless that would take too long.
uint64_t Policy::reused_piece(uint64_t length) const {
    return settings_.overlap && length > longest_pin_ ? longest_piece_ : 0;
}

uint64_t Policy::next_piece(uint64_t piece) const {
    const Costs& costs = model_.costs();
    const double sending = static_cast<double>(piece) / costs.network.bandwidth;
    const double pinned =
        (sending / kLate - costs.registration.latency) * costs.registration.bandwidth;
    const double most = static_cast<double>(std::min(kLongPiece, longest_piece_));
    return std::max(piece, static_cast<uint64_t>(std::clamp(pinned, 0.0, most)) / CostModel::kPage *
                               CostModel::kPage);
}

SchemeTimings::Offer Policy::staged(uint64_t length) const {
    const Staging shape = staging(length);
    const double copies = 2 * static_cast<double>(length) / model_.copy_bandwidth(length);
    const double chunks = CostModel::superpipeline_gaps(length, shape);
    return {.way = SchemeTimings::Way::kStaged,
            .time = model_.superpipeline(length, shape),
            .work = copies + chunks * model_.costs().network.overhead};
}

SchemeTimings::Offer Policy::placed(uint64_t length, const BufferState& own,
                                    const BufferState& sender) const {
    const Costs& costs = model_.costs();
    const double bytes = static_cast<double>(length);
    const bool again = is_reused(own);
    // By the sender's fastest way, if the receiver's memory is pinned.
    double time = model_.raw(length);
    double copying = 0;
    if (!again || !is_reused(sender)) {
        const double pinned =
            model_.pinned_behind_wire(length, piece(length)) + model_.deregistration(bytes);
        const double copied = model_.copied_once(length, staging(length));
        const bool copies = !is_reused(sender) && !(sender.can_pin && pinned < copied);
        if (copies) copying = bytes / model_.copy_bandwidth(length);
        if (!is_reused(sender)) time = copies ? copied : pinned;
        if (!again)
            return {SchemeTimings::Way::kPinning, std::max(pinned, time) + model_.placing(), 0};
    }
    const double registering = model_.registration(bytes) + model_.deregistration(bytes);
    return {.way = SchemeTimings::Way::kPlaced,
            .time = time + model_.placing(),
            .work = 2 * costs.registration.look + 2 * costs.network.overhead + copying +
                    (own.pinned ? 0 : registering / std::max(1u, own.uses))};
}

// As in placed(): memory that has been used n times bears one n-th of its registration.
bool Policy::reads_in_place(uint64_t length, uint64_t to_pin, const BufferState& own) const {
    if (settings_.scheme == SchemeSetting::kSuperpipeline || !is_reused(own)) return false;
    const auto pages = static_cast<double>(to_pin);
    const double pinning =
        own.pinned
            ? 0
            : (model_.registration(pages) + model_.deregistration(pages)) / std::max(1u, own.uses);
    return model_.costs().registration.look + pinning <
           static_cast<double>(length) / model_.copy_bandwidth(length);
}

}  // namespace tern
