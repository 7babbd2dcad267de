// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/decision.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tern/rendezvous/progress_budget.h"

namespace tern {

namespace {

// What a rule is about: a message, for its receiver, or one buffer of a message that is read, or
// that is written to its place.
enum Subject : uint8_t { kMessage = 1, kBuffer = 2, kBoth = kMessage | kBuffer };

struct Case : DecisionInputs {
    SchemeSetting setting;
    bool reused;  // `own`

    // Only the device may write to a device's memory, so it reads whatever it can.
    bool can_read() const {
        return readable &&
               (own.of_device || (one_piece && setting != SchemeSetting::kSuperpipeline));
    }
};

struct Rule {
    Scheme scheme;
    Reason reason;
    Subject subject;
    bool (*applies)(const Case& it);
};

// The first rule that applies decides. Where none does, the costs decide: those of a message in
// decide(), those of a buffer in decide_buffer().
constexpr Rule kRules[] = {
    {Scheme::kRead, Reason::kReused, kMessage,
     [](const Case& it) { return it.can_read() && it.reused; }},
    {Scheme::kPlaced, Reason::kPinned, kMessage, [](const Case& it) { return it.own.of_device; }},
    {Scheme::kPlaced, Reason::kPinned, kBuffer, [](const Case& it) { return it.own.pinned; }},
    {Scheme::kPlaced, Reason::kRingsTaken, kMessage, [](const Case& it) { return it.rings_taken; }},
    {Scheme::kStaged, Reason::kPinFailed, kMessage, [](const Case& it) { return it.pin_failed; }},
    {Scheme::kStaged, Reason::kSeveralPieces, kBoth, [](const Case& it) { return !it.one_piece; }},
    {Scheme::kStaged, Reason::kCannotPin, kBoth,
     [](const Case& it) { return it.length == 0 || !(it.own.pinned || it.own.can_pin); }},
    {Scheme::kStaged, Reason::kSetting, kBoth,
     [](const Case& it) { return it.setting == SchemeSetting::kSuperpipeline; }},
    {Scheme::kPlaced, Reason::kReused, kBuffer, [](const Case& it) { return it.reused; }},
    {Scheme::kPlaced, Reason::kSetting, kBoth,
     [](const Case& it) { return it.setting == SchemeSetting::kZeroCopy; }},
};

constexpr const char* kTexts[] = {"not decided",
                                  "the peer's memory is open",
                                  "the buffer is used again",
                                  "all rings are lent to other peers",
                                  "the buffer could not be registered",
                                  "the buffer is not one piece of the user's memory",
                                  "the buffer is too long to be pinned",
                                  "UCX_TERN_RNDV_SCHEME",
                                  "the buffer is pinned",
                                  "expected to cost less"};
static_assert(std::size(kTexts) == kReasons);

constexpr double kLate = 1.1;  // registrations sometimes take this much longer

}  // namespace

const char* const kSchemeSettings[] = {"auto", "superpipeline", "zcopy", nullptr};

std::string_view name_of(Scheme scheme) {
    return scheme == Scheme::kRead ? "read" : kSchemeSettings[static_cast<size_t>(scheme) + 1];
}

const char* text_of(Reason reason) {
    return kTexts[static_cast<size_t>(reason)];
}

Decider::Decider(const Costs& costs, const Settings& settings)
    : model_(costs),
      settings_(settings),
      longest_piece_(ProgressBudget::longest_piece(model_.costs())),
      longest_pin_(ProgressBudget::longest_registration(model_.costs())),
      longest_copy_(ProgressBudget::longest_copy(model_.costs())) {
    if (!(settings_.margin > 0)) settings_.margin = 0;
}

// The reason is kNone if no rule applies.
Decision Decider::by_rules(const DecisionInputs& inputs, bool of_message) const {
    const Case it{inputs, settings_.scheme, is_reused(inputs.own)};
    const Subject subject = of_message ? kMessage : kBuffer;
    for (const Rule& rule : kRules)
        if ((rule.subject & subject) != 0 && rule.applies(it))
            return made(inputs, rule.scheme, rule.reason);
    return {};
}

Decision Decider::made(const DecisionInputs& inputs, Scheme scheme, Reason reason) const {
    Decision decision{.scheme = scheme, .reason = reason};
    if (scheme != Scheme::kPlaced || inputs.own.pinned) return decision;
    decision.reused = inputs.rings_taken || is_reused(inputs.own);
    if (!decision.reused)
        decision.piece = first_piece(inputs.length);
    else if (settings_.overlap && inputs.length > longest_pin_)
        decision.piece = longest_piece_;  // else one pin, which one look-up finds
    return decision;
}

// A buffer that is not worth a pin will probably not be used again, so the message alone counts,
// and zero-copy has to be faster by the margin.
Decision Decider::decide(const DecisionInputs& inputs) const {
    const Decision ruled = by_rules(inputs, true);
    if (ruled.reason != Reason::kNone) return ruled;
    const Offer copied = staged(inputs.length);
    const Offer in_place = placed(inputs.length, inputs.own, inputs.sender);
    const bool places = is_reused(inputs.own)
                            ? in_place.cost() < copied.cost()
                            : in_place.cost() * (1 + settings_.margin) < copied.time;
    return made(inputs, places ? Scheme::kPlaced : Scheme::kStaged, Reason::kFaster);
}

Decision Decider::decide_buffer(const DecisionInputs& inputs) const {
    const Decision ruled = by_rules(inputs, false);
    if (ruled.reason != Reason::kNone) return ruled;
    const uint64_t length = inputs.length;
    const Decision placed = made(inputs, Scheme::kPlaced, Reason::kFaster);
    const double copied = model_.copied_once(length, staging(length));
    const double pinned = model_.pinned_behind_wire(length, placed.piece) +
                          model_.deregistration(static_cast<double>(length));
    if (pinned > copied / (1 + settings_.margin)) return {.reason = Reason::kFaster};
    return placed;
}

bool Decider::reads_in_place(uint64_t length, uint64_t to_pin, const BufferState& own) const {
    if (settings_.scheme == SchemeSetting::kSuperpipeline || !is_reused(own)) return false;
    return model_.costs().registration.look + registering(to_pin, own) <
           static_cast<double>(length) / model_.copy_bandwidth(length);
}

bool Decider::is_reused(const BufferState& buffer) const {
    return buffer.pinned ||
           (buffer.can_pin && buffer.keeps && buffer.uses >= settings_.worth_pinning);
}

Staging Decider::staging(uint64_t length) const {
    Staging staging = settings_.staging;
    const bool grows = staging.q > 1;
    staging.q = grows ? std::min(staging.q, std::max(1.0, model_.ratio(length))) : 1;
    if (!grows || staging.q > 1) return staging;
    // Where copies are slower than the wire, chunks do not grow. They are those of equation 3, with
    // what each takes of the processor, but not shorter than what is copied within a latency, as
    // half of a round trip hides an early copy.
    const NetworkCosts& network = model_.costs().network;
    const double copies = model_.copy_bandwidth(length);
    const double gap = network.gap + network.overhead;
    const double chunk = std::sqrt(static_cast<double>(length) * gap * copies / 2);
    staging.first =
        std::min(std::max({staging.first, chunk, network.latency * copies}), staging.most);
    return staging;
}

ScheduleLimits Decider::limits(uint64_t length, uint32_t slots, uint32_t buffers) const {
    const Staging shape = staging(length);
    ScheduleLimits limits;
    limits.first_bytes = shape.first > 1 ? static_cast<uint32_t>(std::min(shape.first, 1e9)) : 1;
    limits.q = shape.q;
    limits.most = std::min(ScheduleLimits::most_of(slots, buffers),
                           static_cast<uint32_t>(longest_copy_ / SubBlocks::kSubBlock));
    return limits;
}

// The first piece of a buffer that is pinned for one message; 0: all at once. The model's pieces
// take as long to pin as to send. If there are many, the first is a quarter longer: registrations
// may be late by as much, and the next piece may be longer.
uint64_t Decider::first_piece(uint64_t length) const {
    if (!settings_.overlap) return 0;
    const uint64_t piece = this->piece(length);
    if (piece >= length / 4) return piece;
    return std::min(piece + piece / 4 / CostModel::kPage * CostModel::kPage, longest_piece_);
}

// The model's best piece that can be pinned at once.
uint64_t Decider::piece(uint64_t length) const {
    const uint64_t piece = model_.best_piece(length);
    return std::min(piece != 0 ? piece : length, longest_piece_) % std::max<uint64_t>(length, 1);
}

uint64_t Decider::next_piece(uint64_t piece) const {
    const Costs& costs = model_.costs();
    const double sending = static_cast<double>(piece) / costs.network.bandwidth;
    const double pinned =
        (sending / kLate - costs.registration.latency) * costs.registration.bandwidth;
    const double most = static_cast<double>(std::min(kLongPiece, longest_piece_));
    return std::max(piece, static_cast<uint64_t>(std::clamp(pinned, 0.0, most)) / CostModel::kPage *
                               CostModel::kPage);
}

Decider::Offer Decider::staged(uint64_t length) const {
    const Staging shape = staging(length);
    const double copies = 2 * static_cast<double>(length) / model_.copy_bandwidth(length);
    const double chunks = CostModel::superpipeline_gaps(length, shape);
    return {.time = model_.superpipeline(length, shape),
            .work = copies + chunks * model_.costs().network.overhead};
}

Decider::Offer Decider::placed(uint64_t length, const BufferState& own,
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
        if (!again) return {.time = std::max(pinned, time) + model_.placing()};
    }
    return {.time = time + model_.placing(),
            .work = 2 * costs.registration.look + 2 * costs.network.overhead + copying +
                    registering(length, own)};
}

// Of memory that has been used n times, a use bears one n-th of its registration.
double Decider::registering(uint64_t bytes, const BufferState& own) const {
    if (own.pinned) return 0;
    const auto length = static_cast<double>(bytes);
    return (model_.registration(length) + model_.deregistration(length)) / std::max(1u, own.uses);
}

namespace {

// Where ranges end, but for those that end where the scheme changes: by the costs, and for buffers
// that are too long to be pinned. Few, because UCX 1.13 has room for 24 ranges, and splits them.
constexpr uint64_t kEnds[] = {16 << 10, 256 << 10, 4 << 20};
static_assert(std::size(kEnds) + 4 == kFetchRanges);
constexpr uint64_t kShortest = 512;         // the first line begins here
constexpr uint64_t kAsymptote = 256 << 20;  // the last line goes through the time of this length

// Processor time of both sides for the rendezvous: the request to send, the fetch and the last
// acknowledgement, in UCP and here. Measured as the difference to frames of the same length.
constexpr double kAsking = 2e-6;

Costs with_copies(Costs costs, double bandwidth) {
    costs.copy = {.cache_bandwidth = bandwidth, .memory_bandwidth = bandwidth};
    return costs;
}

class Times {
  public:
    Times(const Decider& decider, uint64_t longest_pin, double copy_bandwidth)
        : decider_(decider),
          told_(with_copies(decider.model().costs(), copy_bandwidth), decider.settings()),
          longest_pin_(longest_pin) {}

    Scheme scheme(uint64_t length) const {
        const BufferState fresh{.can_pin = length <= longest_pin_};
        return decider_.decide({.length = length, .own = fresh}).scheme;
    }
    double time(uint64_t length, Scheme scheme) const {
        const CostModel& model = told_.model();
        if (scheme == Scheme::kStaged) return model.superpipeline(length, told_.staging(length));
        return model.placing() + model.pinned_behind_wire(length, model.best_piece(length));
    }
    // The longest message from `least` to `most` bytes that goes by the scheme of `least`; either
    // all of them can be pinned or none, so the scheme changes at most once.
    uint64_t longest_alike(uint64_t least, uint64_t most) const {
        const Scheme wanted = scheme(least);
        if (scheme(most) == wanted) return most;
        while (most - least > 1) {
            const uint64_t middle = least + (most - least) / 2;
            (scheme(middle) == wanted ? least : most) = middle;
        }
        return least;
    }

  private:
    const Decider& decider_;
    const Decider told_;  // has the costs that the user assumes
    uint64_t longest_pin_;
};

// The line through the times of `least` and `most` bytes; never a falling one. The fetch is a
// message before the bytes, and the acknowledgement that ends the rendezvous is one after them.
FetchRange line(const Times& times, const NetworkCosts& network, uint64_t least, uint64_t most,
                Scheme scheme) {
    const double first = times.time(least, scheme);
    const double per_byte =
        std::max(0.0, (times.time(most, scheme) - first) / static_cast<double>(most - least));
    const double begins = first - per_byte * static_cast<double>(least);
    return {.upto = most,
            .latency = 3 * network.latency,
            .fixed = begins - network.latency + kAsking,
            .per_byte = per_byte,
            .scheme = scheme};
}

}  // namespace

FetchTimes fetch_times(const Decider& decider, uint64_t longest_pin, double copy_bandwidth) {
    const Times times(decider, longest_pin, copy_bandwidth);
    const NetworkCosts& network = decider.model().costs().network;
    FetchTimes all;
    uint64_t least = kShortest;
    const auto add = [&](uint64_t most, Scheme scheme) {
        all.ranges[all.count++] = line(times, network, least, most, scheme);
        least = most + 1;
    };
    const auto add_to = [&](uint64_t end) {
        if (end <= least) return;
        const uint64_t alike = times.longest_alike(least, end);
        if (alike != end && alike != least) add(alike, times.scheme(least));
        add(end, times.scheme(end));
    };
    for (const uint64_t end : kEnds) {
        add_to(std::min(end, longest_pin));
        add_to(end);
    }
    add_to(std::min(kAsymptote, longest_pin));
    if (longest_pin < kAsymptote) add_to(kAsymptote);
    all.ranges[all.count - 1].upto = UINT64_MAX;
    return all;
}

}  // namespace tern
