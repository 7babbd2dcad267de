// SPDX-License-Identifier: BSD-3-Clause
// The bandwidth of long tagged messages, as in figures 2, 6 and 7 of the superpipeline paper.
#include <algorithm>

#include "bench/tern-bench/command.h"
#include "tern/rendezvous/decision.h"

namespace bench {
namespace {

// Targets, all of them lower limits, as ratios of bandwidths.
constexpr uint32_t kMiddle = 16 << 10;
constexpr uint32_t kLong = 64 << 10;
constexpr double kMiddleToWrite = 0.85;
constexpr double kLongToWrite = 0.95;
constexpr double kLongToVerbs = 2;
constexpr double kFreshToVerbs = 0.95;
constexpr double kReusedToCached = 0.98;
constexpr double kReusedToDirect = 0.95;
constexpr double kFirstToBest = 0.95;

constexpr uint64_t kFewestTrips = 4;
constexpr uint64_t kMostTrips = 30;
// Additional messages of a reused buffer, because the buffer may be pinned piece by piece.
constexpr uint64_t kSettling = 8;

constexpr const char* kFresh = "fresh buffers";
constexpr const char* kReused = "reused buffers";
constexpr const char* kFirst = "first message of reused buffers";

constexpr const char* kBandwidthNotes =
    "write: RDMA write between registered buffers, polled in memory. rc_v: with its registration "
    "cache, rc_v direct:\n"
    "without (UCX_IB_REG_METHODS=direct), rc_v rndv: with it, and never copying from 16 KiB on "
    "(UCX_RNDV_THRESH), where\n"
    "by itself it copies messages of some 100 KiB. register: both sides register for each message, "
    "at the same time, then\n"
    "an RDMA write. copy: into registered memory, one RDMA write, out of it. model: what the cost "
    "model says, without the\n"
    "rendezvous that messages of UCP have and writes have not, and with it (+r). `?`: see behind "
    "the line; `<`: less than\n"
    "the target.\n";

using Contenders = std::vector<std::pair<std::string, Arm>>;

// Ping-pongs of messages, or of writes by arms that are not UCP's.
void add_long(Series& series, const Options& options, const Contenders& contenders, uint32_t size,
              Buffers buffers) {
    const bool is_fresh = buffers == Buffers::kFresh;
    const uint64_t trips =
        options.quick ? kFewestTrips - 1 : std::clamp(kOrderBytes / size, kFewestTrips, kMostTrips);
    const uint64_t settling = is_fresh ? 0 : options.quick ? 1 : kSettling + 1;
    Group& group = series.add({.test = is_fresh ? kFresh : kReused, .size = size, .unit = "GB/s"});
    if (!is_fresh) group.first_test = kFirst;
    for (const auto& [name, arm] : contenders) {
        const bool is_ucp = arm.port == "ucp";
        const auto kind = is_ucp ? Order::Kind::kMessages : Order::Kind::kWrites;
        group.add(name, arm, {kind, size, trips + settling, 1, buffers}).has_first =
            is_ucp && !is_fresh;
    }
    const std::string& tern = contenders.front().first;
    const double to_write = size >= kLong ? kLongToWrite : size >= kMiddle ? kMiddleToWrite : kNone;
    // The cost of registration is visible only where messages are not copied.
    const double to_rendezvous = size >= kLong && size < 2 * kLong ? kLongToVerbs : kFreshToVerbs;
    group.compare(tern, "write", is_fresh ? to_write : kNone);
    group.compare(tern, "rc_v", is_fresh ? kFreshToVerbs : kReusedToCached);
    group.compare(tern, "rc_v direct", is_fresh ? kFreshToVerbs : kReusedToDirect);
    group.compare(tern, "rc_v rndv", is_fresh ? to_rendezvous : kReusedToCached);
    if (!is_fresh) group.ratios.push_back({tern, tern, kFirstToBest, "first / later", true});
}

// Adds the figures of the model behind the last measured figure of a test and size.
void add_model(const tern::Decider& decider, const Figure& last, std::vector<Figure>* figures) {
    const auto add = [&](const char* name, double seconds) {
        figures->push_back(
            exact_figure(last.test, last.x, last.x_text, name, "GB/s", last.x / seconds / 1e9));
    };
    const auto length = static_cast<uint64_t>(last.x);
    const tern::CostModel& model = decider.model();
    const double staged = model.superpipeline(length, decider.staging(length));
    const double with_rendezvous = staged + 2 * model.costs().network.latency;
    if (last.test == kFirst) return add("model superpipeline+r", with_rendezvous);
    add("model write", model.raw(length));
    add("model superpipeline", staged);
    add("model superpipeline+r", with_rendezvous);
    add("model register", model.naive_registration(length));
    add("model copy", model.naive_copy(length));
}

}  // namespace

Result run_bandwidth(const Options& options, const Setup& setup) {
    const std::string tls = ucp_name(options);
    const tern::Decider decider(measure_costs(options, setup).costs, {});
    const char* const limit = shared_memory_differs(setup) ? "shared" : "private";
    const Contenders contenders = {{tls, ucp_arm(tls)},
                                   {"rc_v", ucp_arm("rc_v")},
                                   {"rc_v direct", uncached(ucp_arm("rc_v"))},
                                   {"rc_v rndv", rendezvous(ucp_arm("rc_v"))},
                                   {"write", large_arm("write", limit)},
                                   {"register", large_arm("register", "private")},
                                   {"copy", large_arm("copy", limit)}};
    Series series = make_series(options, setup, 2, 2);
    for (const Buffers buffers : {Buffers::kFresh, Buffers::kReused}) {
        for (const uint32_t size : long_sizes(options))
            add_long(series, options, contenders, size, buffers);
    }
    std::vector<Figure> figures;
    for (const Figure& figure : series.run()) {
        figures.push_back(figure);
        if (!figure.is_ratio() && figure.name == (figure.test == kFirst ? "rc_v rndv" : "copy"))
            add_model(decider, figure, &figures);
    }
    return matrix_of(
        figures, std::string(kBandwidthNotes) + "model: " + costs_text(decider.model().costs()));
}

}  // namespace bench
