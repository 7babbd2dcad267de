// SPDX-License-Identifier: BSD-3-Clause
// The share of a message that the processor can leave to the network, as in figure 5 of the TupleQ
// paper, and the cost of matching by the device when there is nothing to overlap.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "bench/tern-bench/arms.h"

namespace bench {
namespace {

using Kind = Order::Kind;

constexpr double kAvailable = 0.95;
constexpr double kCost = 1.05;
constexpr uint64_t kOverlapped = 40;  // of an order; half of them without work
constexpr uint64_t kLooks = 8;        // the same, for kArrivals
constexpr uint64_t kTrips = 60;

constexpr const char* kCostTest = "half round trip of reused buffers";

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

// The sums of the counters that processes write to a file when they end.
class CounterFile {
  public:
    CounterFile() {
        const int fd = ::mkstemp(name_.data());
        if (fd < 0) throw call_failed("mkstemp " + name_);
        ::close(fd);
    }
    ~CounterFile() { std::remove(name_.c_str()); }
    CounterFile(const CounterFile&) = delete;
    CounterFile& operator=(const CounterFile&) = delete;

    const std::string& name() const { return name_; }
    uint64_t sum(const std::string& counter) const {
        uint64_t sum = 0;
        std::ifstream file(name_);
        const std::string key = "\"" + counter + "\":";
        for (std::string line; std::getline(file, line);) {
            const size_t at = line.find(key);
            if (at != std::string::npos)
                sum += std::strtoull(line.c_str() + at + key.size(), nullptr, 10);
        }
        return sum;
    }

  private:
    static std::string folder() {
        const char* set = std::getenv("TMPDIR");
        return set != nullptr && *set != '\0' ? set : "/tmp";
    }

    std::string name_ = folder() + "/tern-bench-XXXXXX";
};

// The matcher's counters in one part of the measurement. Each part has its own processes, because
// processes write counters only when they end.
struct Part {
    const char* name;
    CounterFile counters = {};

    Arm arm(const Arm& matcher) const {
        return with(matcher, std::string(" ") + name, {{"UCX_TERN_COUNTERS", counters.name()}});
    }
    std::string text() const {
        const uint64_t direct = counters.sum("direct_received");
        const uint64_t all = direct + counters.sum("direct_not");
        const auto count = [this](const char* counter) {
            return std::to_string(counters.sum(counter));
        };
        const uint64_t share = all == 0 ? 0 : (1000 * direct + all / 2) / all;
        return std::string("direct, ") + name + ": " + std::to_string(share / 10) + "." +
               std::to_string(share % 10) + " % of " + std::to_string(all) +
               " messages of tuples; " + count("direct_grants") + " grants, " +
               count("direct_grants_void") + " void; " + count("direct_drains") + " drains; " +
               count("direct_queues_most") + " queues; " + count("direct_binds") + " bound, " +
               count("direct_unbinds") + " unbound; " + count("direct_not_ready") +
               " found no receive\n";
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
        Group group{.test = std::string(what) + (sends ? " of the sender" : " of the receiver"),
                    .size = size,
                    .unit = unit};
        const Arm direct = (sends ? sender : receiver).arm(looks ? eager : threaded(matcher));
        Entry& first = group.add("matcher", direct, order);
        if (kind == Kind::kAvailability) first.target = kAvailable;
        group.add("tern", threaded(tern), order);
        group.add("rc_v get", with(verbs, " get", {{"UCX_RNDV_SCHEME", "get_zcopy"}}), order);
        group.add("rc_v put", with(verbs, " put", {{"UCX_RNDV_SCHEME", "put_zcopy"}}), order);
        series.add(std::move(group));
    };
    struct Test {
        const char* what;
        const char* unit;
        Kind kind;
    };
    for (const auto& [what, unit, kind] : {Test{"arrived", "%", Kind::kArrivals},
                                           {"availability", "", Kind::kAvailability},
                                           {"overhead", "us", Kind::kOverhead}}) {
        for (const bool sends : {false, true}) {
            for (const uint32_t size : overlap_sizes(options)) add(what, unit, kind, sends, size);
        }
    }
    for (const uint32_t size : overlap_sizes(options)) {
        const Order order = {Kind::kMessages, size, options.quick ? 4 : kTrips, 1,
                             Buffers::kReused};
        Group group{.test = kCostTest, .size = size};
        group.add("matcher", trips.arm(matcher), order);
        group.add("tern", tern, order);
        group.compare("matcher", "tern", kCost);
        series.add(std::move(group));
    }
    std::vector<Figure> figures = series.run();
    for (Figure& figure : figures) {
        if (figure.test.starts_with("availability")) figure.at_most = false;
    }
    return matrix_of(std::move(figures),
                     kOverlapNotes + receiver.text() + sender.text() + trips.text());
}

}  // namespace bench
