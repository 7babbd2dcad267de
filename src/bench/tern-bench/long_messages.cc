// SPDX-License-Identifier: BSD-3-Clause
// The bandwidth of long tagged messages, as in figures 2, 6 and 7 of the superpipeline paper; the
// gain from pinning memory while earlier parts are being sent, as in figure 7 of the pinning paper;
// and what UCP's protocols choose over Tern, against each way by itself.
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
constexpr double kToOtherProtocols = 0.97;

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
constexpr const char* kPinningNotes =
    "before: both sides pin all of a message's memory, and then it is sent (UCX_TERN_RNDV_SCHEME="
    "zcopy, TERN_TUNABLES=rndv_pin_overlap=0).\n"
    "overlapped: piece by piece, while what is pinned is on the wire. Both with a buffer of its "
    "own for each message.\n"
    "cached: always the same buffer. rc_v direct: UCX without its registration cache. write: RDMA "
    "write between\n"
    "registered buffers. model: with the rendezvous.\n";

constexpr const char* kProtocolsNotes =
    "v1: UCP's older protocols (UCX_PROTO_ENABLE=n). v2: its newer ones, with its own estimates "
    "(UCX_TERN_PROTO=n).\n"
    "v2 tern: with those of Tern's plug-in. frames, superpipeline, zcopy: v2 tern with all "
    "messages "
    "sent in one way\n"
    "(UCX_RNDV_THRESH, UCX_TERN_RNDV_SCHEME): where two of them cross, UCP should change from one "
    "to the other.\n"
    "write: RDMA write between registered buffers, polled in memory. `?`: see behind the line; "
    "`<`: less than the target.\n";

// The bandwidth of a ping-pong of messages, or of writes if the arm is not UCP's.
Order long_order(const Options& options, const Arm& arm, uint32_t size, Buffers buffers) {
    const uint64_t trips =
        options.quick ? kFewestTrips - 1 : std::clamp(kOrderBytes / size, kFewestTrips, kMostTrips);
    const auto kind = arm.port == "ucp" ? Order::Kind::kMessages : Order::Kind::kWrites;
    return {kind, size, trips, 1, buffers};
}

Group long_group(const char* test, uint32_t size) {
    return {.test = test, .size = size, .unit = "GB/s"};
}

const char* limit_memory(const Setup& setup) {
    return shared_memory_differs(setup) ? "shared" : "private";
}

// Runs the measurement. The figures of the model, add(name, seconds), follow the last measured
// figure of each test and size.
template <typename IsLast, typename AddModel>
Result run_with_model(Series& series, const tern::Costs& costs, const char* notes, IsLast&& is_last,
                      AddModel&& add_model) {
    std::vector<Figure> figures;
    for (Figure& figure : series.run()) {
        figures.push_back(std::move(figure));
        const Figure last = figures.back();
        if (last.is_ratio() || !is_last(last)) continue;
        add_model(last.test, static_cast<uint64_t>(last.x), [&](const char* name, double seconds) {
            figures.push_back(
                exact_figure(last.test, last.x, last.x_text, name, "GB/s", last.x / seconds / 1e9));
        });
    }
    return matrix_of(std::move(figures), std::string(notes) + "model: " + costs_text(costs));
}

double rendezvous_time(const tern::Costs& costs) {
    return 2 * costs.network.latency;
}

using Contenders = std::vector<std::pair<std::string, Arm>>;

void add_long(Series& series, const Options& options, const Contenders& contenders, uint32_t size,
              Buffers buffers) {
    const bool is_fresh = buffers == Buffers::kFresh;
    Group& group = series.add(long_group(is_fresh ? kFresh : kReused, size));
    if (!is_fresh) group.first_test = kFirst;
    for (const auto& [name, arm] : contenders) {
        Entry& entry = group.add(name, arm, long_order(options, arm, size, buffers));
        if (is_fresh) continue;
        entry.order.count += options.quick ? 1 : kSettling + 1;
        entry.has_first = arm.port == "ucp";
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

Arm over_tern(const char* name, Environment environment) {
    environment.emplace_back("UCX_PROTO_ENABLE", name == std::string("v1") ? "n" : "y");
    Arm arm = with(ucp_arm("tern"), "", environment);
    arm.name = name;
    return arm;
}

}  // namespace

Result run_bandwidth(const Options& options, const Setup& setup) {
    const std::string tls = ucp_name(options);
    const tern::Costs costs = measure_costs(options, setup).costs;
    const Contenders contenders = {{tls, ucp_arm(tls)},
                                   {"rc_v", ucp_arm("rc_v")},
                                   {"rc_v direct", uncached(ucp_arm("rc_v"))},
                                   {"rc_v rndv", rendezvous(ucp_arm("rc_v"))},
                                   {"write", large_arm("write", limit_memory(setup))},
                                   {"register", large_arm("register", "private")},
                                   {"copy", large_arm("copy", limit_memory(setup))}};
    Series series = make_series(options, setup, 2, 2);
    for (const Buffers buffers : {Buffers::kFresh, Buffers::kReused}) {
        for (const uint32_t size : long_sizes(options))
            add_long(series, options, contenders, size, buffers);
    }
    const tern::Decider decider(costs, {});
    const tern::CostModel& model = decider.model();
    return run_with_model(
        series, costs, kBandwidthNotes,
        [](const Figure& figure) {
            return figure.name == (figure.test == kFirst ? "rc_v rndv" : "copy");
        },
        [&](const std::string& test, uint64_t length, const auto& add) {
            const double staged = model.superpipeline(length, decider.staging(length));
            if (test != kFirst) {
                add("model write", model.raw(length));
                add("model superpipeline", staged);
            }
            add("model superpipeline+r", staged + rendezvous_time(costs));
            if (test == kFirst) return;
            add("model register", model.naive_registration(length));
            add("model copy", model.naive_copy(length));
        });
}

Result run_pinning(const Options& options, const Setup& setup) {
    const tern::Costs costs = measure_costs(options, setup).costs;
    const Arm overlapped =
        with(rendezvous(ucp_arm("tern")), " zcopy", {{"UCX_TERN_RNDV_SCHEME", "zcopy"}});
    const Arm before = with(overlapped, " before", {{"TERN_TUNABLES", "rndv_pin_overlap=0"}});
    Series series = make_series(options, setup, 2, 2);
    for (const uint32_t size : long_sizes(options)) {
        Group& group = series.add(long_group("pinned buffers", size));
        const auto add = [&](const char* name, const Arm& arm, Buffers buffers,
                             const std::vector<Group::Against>& yardsticks = {}) {
            group.add(name, arm, long_order(options, arm, size, buffers), yardsticks);
        };
        add("before", before, Buffers::kFresh);
        add("overlapped", overlapped, Buffers::kFresh, {{"before"}});
        add("cached", overlapped, Buffers::kReused, {{"before"}});
        add("rc_v direct", uncached(ucp_arm("rc_v")), Buffers::kFresh);
        add("write", large_arm("write", limit_memory(setup)), Buffers::kFresh);
        group.compare("overlapped", "write");
    }
    const tern::CostModel model(costs);
    return run_with_model(
        series, costs, kPinningNotes, [](const Figure& figure) { return figure.name == "write"; },
        [&](const std::string&, uint64_t length, const auto& add) {
            add("model before", model.naive_registration(length) + rendezvous_time(costs));
            add("model overlapped", model.pinned_behind_wire(length, model.best_piece(length)) +
                                        rendezvous_time(costs));
        });
}

Result run_protocols(const Options& options, const Setup& setup) {
    std::vector<Arm> arms = {
        over_tern("v1", {}),
        over_tern("v2", {{"UCX_TERN_PROTO", "n"}}),
        over_tern("v2 tern", {}),
        over_tern("frames", {{"UCX_RNDV_THRESH", "inf"}}),
        over_tern("superpipeline",
                  {{"UCX_RNDV_THRESH", "0"}, {"UCX_TERN_RNDV_SCHEME", "superpipeline"}}),
        over_tern("zcopy", {{"UCX_RNDV_THRESH", "0"}, {"UCX_TERN_RNDV_SCHEME", "zcopy"}}),
        large_arm("write", limit_memory(setup))};
    arms.back().name = "write";
    Series series = make_series(options, setup, 2, 2);
    for (const Buffers buffers : {Buffers::kFresh, Buffers::kReused}) {
        const bool is_fresh = buffers == Buffers::kFresh;
        const uint64_t settling = is_fresh ? 0 : options.quick ? 1 : kSettling;
        for (const uint32_t size : long_sizes(options)) {
            Group& group = series.add(long_group(is_fresh ? kFresh : kReused, size));
            for (const Arm& arm : arms)
                group.add(arm.name, arm, long_order(options, arm, size, buffers)).order.count +=
                    settling;
            group.compare("v2 tern", "v1", kToOtherProtocols);
            group.compare("v2 tern", "v2", kToOtherProtocols);
        }
    }
    return matrix_of(series.run(), kProtocolsNotes);
}

}  // namespace bench
