// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/decision.h"

#include "tern/rendezvous/policy.h"

namespace tern {

namespace {

Decision placed(const DecisionInputs& inputs, const Policy& policy, Reason reason) {
    Decision decision{.scheme = Scheme::kPlaced, .reason = reason};
    if (inputs.own.pinned) return decision;
    decision.reused = policy.is_reused(inputs.own);
    decision.piece =
        decision.reused ? policy.reused_piece(inputs.length) : policy.first_piece(inputs.length);
    return decision;
}

bool reads_message(const DecisionInputs& inputs, const Policy& policy) {
    if (!inputs.readable || !inputs.one_piece) return false;
    if (policy.settings().scheme == SchemeSetting::kSuperpipeline) return false;
    return inputs.late || policy.is_reused(inputs.own);
}

// `prefer(staged, placed, reason)` says whether the latter is better, and may change the reason.
template <class Prefer>
Decision by_costs(const DecisionInputs& inputs, const Policy& policy, Prefer&& prefer) {
    SchemeTimings::Offer through = policy.staged(inputs.length);
    SchemeTimings::Offer in_place = policy.placed(inputs.length, inputs.own, inputs.sender);
    const double expected[] = {through.time, in_place.time};
    if (!policy.is_reused(inputs.own)) {
        // Such a buffer will probably not be used again, so the message alone counts.
        through.work = 0;
        in_place.time *= 1 + policy.settings().margin;
    }
    Reason reason = Reason::kFaster;
    const bool places = prefer(through, in_place, reason);
    Decision decision = places ? placed(inputs, policy, reason)
                               : Decision{.scheme = Scheme::kStaged, .reason = reason};
    decision.way = places ? in_place.way : through.way;
    decision.expected = expected[places] + policy.model().costs().network.latency;  // of the fetch
    return decision;
}

template <class Prefer>
Decision decide_by(const DecisionInputs& inputs, const Policy& policy, Prefer&& prefer) {
    if (inputs.own.of_device && inputs.readable)
        return {.scheme = Scheme::kRead, .reason = reason_to_read(true, inputs.late)};
    if (inputs.own.of_device) return placed(inputs, policy, Reason::kPinned);
    if (reads_message(inputs, policy))
        return {.scheme = Scheme::kRead, .reason = reason_to_read(true, inputs.late)};
    if (inputs.rings_taken)
        return {.scheme = Scheme::kPlaced,
                .reason = Reason::kRingsTaken,
                .piece = policy.reused_piece(inputs.length),
                .reused = true};
    if (inputs.pin_failed) return {.reason = Reason::kPinFailed};
    if (!inputs.one_piece) return {.reason = Reason::kSeveralPieces};
    if (inputs.length == 0 || !(inputs.own.pinned || inputs.own.can_pin))
        return {.reason = Reason::kCannotPin};
    switch (policy.settings().scheme) {
        case SchemeSetting::kSuperpipeline:
            return {.reason = Reason::kSetting};
        case SchemeSetting::kZeroCopy:
            return placed(inputs, policy, Reason::kSetting);
        default:
            return by_costs(inputs, policy, prefer);
    }
}

}  // namespace

std::string_view name_of(Scheme scheme) {
    return scheme == Scheme::kRead ? "read" : kSchemeSettings[static_cast<size_t>(scheme) + 1];
}

const char* text_of(Reason reason) {
    switch (reason) {
        case Reason::kNone:
            return "not decided";
        case Reason::kOpenMemory:
            return "the peer's memory is open";
        case Reason::kSenderIsLate:
            return "the sender keeps its receivers waiting";
        case Reason::kReused:
            return "the buffer is used again";
        case Reason::kRingsTaken:
            return "all rings are lent to other peers";
        case Reason::kPinFailed:
            return "the buffer could not be registered";
        case Reason::kSeveralPieces:
            return "the buffer is not one piece of the user's memory";
        case Reason::kCannotPin:
            return "the buffer is too long to be pinned";
        case Reason::kSetting:
            return "UCX_TERN_RNDV_SCHEME";
        case Reason::kPinned:
            return "the buffer is pinned";
        case Reason::kFaster:
            return "expected to cost less";
        case Reason::kTrial:
            return "tried to measure it";
    }
    return "";
}

Decision decide(const DecisionInputs& inputs, const Policy& policy, SchemeTimings& timings) {
    return decide_by(inputs, policy, [&](const auto& staged, const auto& other, Reason& reason) {
        const bool usual = timings.prefers(inputs.length, staged, other);
        const bool choice = timings.choose(inputs.length, staged, other, inputs.may_try);
        if (choice != usual) reason = Reason::kTrial;
        return choice;
    });
}

Decision expect(const DecisionInputs& inputs, const Policy& policy, const SchemeTimings& timings) {
    return decide_by(inputs, policy, [&](const auto& staged, const auto& other, Reason&) {
        return timings.prefers(inputs.length, staged, other);
    });
}

SourceDecision decide_source(uint64_t length, const BufferState& own, const Policy& policy) {
    const SchemeSetting setting = policy.settings().scheme;
    if (own.pinned) return {.in_place = true, .reason = Reason::kPinned};
    if (length == 0 || !own.can_pin) return {.reason = Reason::kCannotPin};
    if (setting == SchemeSetting::kSuperpipeline) return {.reason = Reason::kSetting};
    if (policy.is_reused(own))
        return {.in_place = true,
                .reason = Reason::kReused,
                .piece = policy.reused_piece(length),
                .reused = true};
    const uint64_t piece = policy.first_piece(length);
    if (setting == SchemeSetting::kZeroCopy)
        return {.in_place = true, .reason = Reason::kSetting, .piece = piece};
    const CostModel& model = policy.model();
    const double copied = model.copied_once(length, policy.staging(length));
    const double pinned =
        model.pinned_behind_wire(length, piece) + model.deregistration(static_cast<double>(length));
    if (pinned > copied / (1 + policy.settings().margin)) return {.reason = Reason::kFaster};
    return {.in_place = true, .reason = Reason::kFaster, .piece = piece};
}

Decision decide_target(uint64_t length, const BufferState& own, const Policy& policy) {
    const SourceDecision decision = decide_source(length, own, policy);
    if (!decision.in_place) return {.reason = decision.reason};
    return {.scheme = Scheme::kPlaced,
            .reason = decision.reason,
            .piece = decision.piece,
            .reused = decision.reused};
}

}  // namespace tern
