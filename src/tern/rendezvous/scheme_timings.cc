// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/scheme_timings.h"

#include <algorithm>

namespace tern {

// Noise makes messages slower, never faster: one fast message is believed, slow ones only if there
// are many.
double SchemeTimings::of(const Cell& cell, Way way) {
    const Speed& speed = cell.speeds[static_cast<size_t>(way)];
    return speed.samples < kTrusted ? std::min(speed.factor, 1.0) : speed.factor;
}

bool SchemeTimings::better(const Cell& cell, const Offer& staged, const Offer& other) {
    const double first = cost(cell, staged);
    const double second = cost(cell, other);
    switch (cell.choices[static_cast<size_t>(other.way)].last) {
        case Last::kStaged:
            return second * kHysteresis < first;
        case Last::kOther:
            return second < first * kHysteresis;
        default:
            return second < first;
    }
}

bool SchemeTimings::choose(uint64_t length, const Offer& staged, const Offer& other, bool may_try) {
    Cell& cell = cells_[index(length)];
    Choice& choice = cell.choices[static_cast<size_t>(other.way)];
    const bool wins = better(cell, staged, other);
    choice.last = wins ? Last::kOther : Last::kStaged;
    const double usual = cost(cell, wins ? other : staged);
    const double loss = cost(cell, wins ? staged : other) - usual;
    ++choice.since;
    choice.credit = std::min(choice.credit + usual / kRarely, usual * kMostCredit);
    if (!may_try || choice.since < kRarely || loss > choice.credit) return wins;
    choice.since = 0;
    choice.credit = 0;
    return !wins;
}

void SchemeTimings::took(uint64_t length, Way way, double expected, double time) {
    Speed& speed = cells_[index(length)].speeds[static_cast<size_t>(way)];
    const double seen = time / expected;
    if (!(seen > 0 && seen <= kLate * std::max(speed.factor, 1.0))) return;
    const double most = speed.samples < kTrusted ? kLate : 2;
    const double sample = speed.samples == 0
                              ? std::max(seen, 1 / kLate)
                              : std::clamp(seen, speed.factor / kLate, speed.factor * most);
    const double least_weight = sample < speed.factor ? 1.0 / 4 : 1.0 / 16;
    const double weight = std::max(least_weight, 1.0 / (speed.samples + 1.0));
    speed.factor += weight * (sample - speed.factor);
    if (speed.samples < kTrusted) ++speed.samples;
}

}  // namespace tern
