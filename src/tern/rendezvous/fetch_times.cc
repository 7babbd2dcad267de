// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/fetch_times.h"

#include <algorithm>
#include <iterator>

#include "tern/rendezvous/decision.h"

namespace tern {

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
        : decider_(decider.model().costs(), decider.settings()),
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
    Decider decider_;  // without what messages have taken
    Decider told_;     // has the costs that the user assumes
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
