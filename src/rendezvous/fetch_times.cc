// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/fetch_times.h"

#include <algorithm>
#include <iterator>

namespace tern {

namespace {

// Where ranges end, but for those that end with the cache or where the scheme changes.
constexpr uint64_t kEnds[] = {8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20};
static_assert(std::size(kEnds) + 3 == kFetchRanges);
constexpr uint64_t kShortest = 512;         // the first line begins here
constexpr uint64_t kAsymptote = 256 << 20;  // the last line goes through the time of this length

class Times {
  public:
    Times(const Policy& policy, uint64_t longest_pin)
        : policy_(policy), longest_pin_(longest_pin) {}

    Scheme scheme(uint64_t length) const {
        const BufferState fresh{.can_pin = length <= longest_pin_};
        return policy_.receive(length, fresh, {}).scheme;
    }
    double time(uint64_t length, Scheme scheme) const {
        const CostModel& model = policy_.model();
        if (scheme == Scheme::kSuperpipeline)
            return model.superpipeline(length, policy_.staging(length));
        return model.placing() + model.pinned_behind_wire(length, model.best_piece(length));
    }
    // The longest message from `least` to `most` bytes that goes by the scheme of `least`; the
    // scheme changes at most once.
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
    const Policy& policy_;
    uint64_t longest_pin_;
};

// The line through the times of `least` and `most` bytes; never a falling one. The fetch itself is
// a message, before the bytes.
FetchRange line(const Times& times, const NetworkCosts& network, uint64_t least, uint64_t most) {
    const Scheme scheme = times.scheme(least);
    const double first = times.time(least, scheme);
    const double per_byte =
        std::max(0.0, (times.time(most, scheme) - first) / static_cast<double>(most - least));
    const double begins = first - per_byte * static_cast<double>(least);
    return {.upto = most,
            .latency = 2 * network.latency,
            .fixed = begins - network.latency + 2 * network.overhead,
            .per_byte = per_byte,
            .scheme = scheme};
}

}  // namespace

FetchTimes fetch_times(const Policy& policy, uint64_t longest_pin) {
    const Times times(policy, longest_pin);
    const Costs& costs = policy.model().costs();
    FetchTimes all;
    uint64_t least = kShortest;
    const auto add = [&](uint64_t most) {
        if (most <= least) return;
        all.ranges[all.count++] = line(times, costs.network, least, most);
        least = most + 1;
    };
    bool changed = false;
    const auto add_to = [&](uint64_t end) {
        const uint64_t alike = times.longest_alike(least, end);
        if (alike != end && !changed) add(alike);
        changed |= alike != end;
        add(end);
    };
    const auto cache = static_cast<uint64_t>(std::clamp(costs.copy.cache, 0.0, double{kAsymptote}));
    for (const uint64_t end : kEnds) {
        if (cache > least && cache < end) add_to(cache);
        add_to(end);
    }
    add_to(kAsymptote);
    all.ranges[all.count - 1].upto = UINT64_MAX;
    return all;
}

}  // namespace tern
