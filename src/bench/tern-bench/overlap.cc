// SPDX-License-Identifier: BSD-3-Clause
// The share of a message that the processor can leave to the network, as in figure 5 of the TupleQ
// paper, and the cost of matching by the device when there is nothing to overlap.
#include <algorithm>
#include <cstdlib>

#include "bench/tern-bench/command.h"

namespace bench {
namespace {

using Kind = Order::Kind;

constexpr double kAvailable = 0.95;
constexpr double kCost = 1.05;
constexpr uint64_t kOverlapped = 40;  // of an order; half of them without work
constexpr uint64_t kLooks = 8;        // the same, for kArrivals
constexpr uint64_t kTrips = 60;

constexpr const char* kOverlapNotes =
    "The Sandia method: post, work, wait; twice as much work as the message takes without.\n"
    "availability: 1 - overhead / time without work. overhead: time of the processor that is not "
    "work. arrived: messages\n"
    "that were there although the process did nothing but look into its memory (receiver), or that "
    "the receiver had\n"
    "although the sender did nothing (sender). For all these the device has a thread of its own, "
    "on "
    "the processor of the\n"
    "process that only takes part.\n"
    "matcher: UCX_TERN_TM_ENABLE=y; for arrivals short messages too: UCX_TERN_TM_TUPLE_MIN=8, "
    "UCX_TM_THRESH=8.\n"
    "tern: without. rc_v get, put: UCX_RNDV_SCHEME. All: UCX_RNDV_THRESH=16k.\n";

// The matcher's counters in one part of the measurement. Each part has its own processes, because
// processes write counters only when they end.
struct Part {
    const char* name;
    MemoryFile counters{""};

    Arm arm(const Arm& matcher) const {
        return with(matcher, std::string(" ") + name, {{"UCX_TERN_COUNTERS", counters.path()}});
    }
    // The sum over the processes, which write their counters when they end.
    uint64_t sum(const std::string& counter) const {
        const std::string text = counters.text();
        const std::string key = "\"" + counter + "\":";
        uint64_t sum = 0;
        for (size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += key.size())
            sum += std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
        return sum;
    }
    std::string text() const {
        const uint64_t direct = sum("direct_received");
        const uint64_t all = direct + sum("direct_not");
        return formatted(
            "direct, %s: %.1f %% of %llu messages of tuples\n", name,
            100. * static_cast<double>(direct) / static_cast<double>(std::max<uint64_t>(all, 1)),
            static_cast<unsigned long long>(all));
    }
};

Arm threaded(Arm arm) {
    arm.device_threads = DeviceThreads::kApart;
    return with(std::move(arm), " thread", {{"SOFTHCA_EXECUTOR", "thread"}});
}

std::vector<uint32_t> overlap_sizes(const Options& options) {
    if (options.quick) return {8, 64 << 10};
    return {8, 64, 512, 2 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
}

}  // namespace

Result run_overlap(const Options& options, const Setup& setup) {
    const Part receiver{"while the receiver works"};
    const Part sender{"while the sender works"};
    const Part trips{"round trips"};
    const Arm tern = rendezvous(ucp_arm("tern"));
    const Arm verbs = threaded(rendezvous(ucp_arm("rc_v")));
    const Arm matcher = with(tern, " matcher", {{"UCX_TERN_TM_ENABLE", "y"}});
    const Arm eager =
        with(threaded(matcher), " all", {{"UCX_TERN_TM_TUPLE_MIN", "8"}, {"UCX_TM_THRESH", "8"}});
    Series series = make_series(options, setup, 1, 2);
    const auto add = [&](const char* what, const char* unit, Kind kind, bool sends, uint32_t size) {
        const bool looks = kind == Kind::kArrivals;
        const uint64_t count = options.quick ? 4 : looks ? kLooks : kOverlapped;
        const Order order = {kind, size, count, 1, Buffers::kReused, sends};
        Group& group =
            series.add({.test = std::string(what) + (sends ? " of the sender" : " of the receiver"),
                        .size = size,
                        .unit = unit,
                        .at_most = kind != Kind::kAvailability});
        const Arm direct = (sends ? sender : receiver).arm(looks ? eager : threaded(matcher));
        group.add("matcher", direct, order).target =
            kind == Kind::kAvailability ? kAvailable : kNone;
        group.add("tern", threaded(tern), order);
        group.add("rc_v get", with(verbs, " get", {{"UCX_RNDV_SCHEME", "get_zcopy"}}), order);
        group.add("rc_v put", with(verbs, " put", {{"UCX_RNDV_SCHEME", "put_zcopy"}}), order);
    };
    struct Test {
        const char* what;
        const char* unit;
        Kind kind;
    };
    for (const auto& [what, unit, kind] :
         {Test{"arrived", "%", Kind::kArrivals}, Test{"availability", "", Kind::kAvailability},
          Test{"overhead", "us", Kind::kOverhead}}) {
        for (const bool sends : {false, true}) {
            for (const uint32_t size : overlap_sizes(options)) add(what, unit, kind, sends, size);
        }
    }
    for (const uint32_t size : overlap_sizes(options)) {
        const Order order = {Kind::kMessages, size, options.quick ? 4 : kTrips, 1,
                             Buffers::kReused};
        Group& group = series.add({.test = "half round trip of reused buffers", .size = size});
        group.add("matcher", trips.arm(matcher), order, {{"tern", kCost}});
        group.add("tern", tern, order);
    }
    const std::vector<Figure> figures = series.run();  // ends the processes
    return matrix_of(figures, kOverlapNotes + receiver.text() + sender.text() + trips.text());
}

}  // namespace bench
