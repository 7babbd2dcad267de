// SPDX-License-Identifier: BSD-3-Clause
// The share of a message that the processor can leave to the network, as in figure 5 of the TupleQ
// paper, and the cost of matching by the device when there is nothing to overlap.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "bench/series/series.h"
#include "bench/tern-bench/arms.h"

namespace bench {
namespace {

constexpr double kAvailable = 0.95;
constexpr double kCost = 1.05;
constexpr uint64_t kMessages = 40;  // of an order; half of them without work
constexpr uint64_t kLooks = 8;      // the same, for kArrivals
constexpr uint64_t kTrips = 60;

constexpr const char* kCostTest = "half round trip of reused buffers";

constexpr const char* kNotes =
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

class OverlapSeries {
  public:
    OverlapSeries(const Options& options, const Setup& setup)
        : series_(setup, options.quick ? 1 : options.rounds, options.quick ? 1 : 2) {
        const Arm tern = rendezvous(ucp_arm("tern", "tern,self"));
        const Arm verbs = threaded(rendezvous(ucp_arm("rc_v", "rc_v,self")));
        const Arm matcher = with(tern, " matcher", {{"UCX_TERN_TM_ENABLE", "y"}});
        const Arm eager = with(threaded(matcher), " all",
                               {{"UCX_TERN_TM_TUPLE_MIN", "8"}, {"UCX_TM_THRESH", "8"}});
        std::array<Contender, 4> overlapping = {
            {{"matcher", {}},
             {"tern", threaded(tern)},
             {"rc_v get", with(verbs, " get", {{"UCX_RNDV_SCHEME", "get_zcopy"}})},
             {"rc_v put", with(verbs, " put", {{"UCX_RNDV_SCHEME", "put_zcopy"}})}}};
        const std::vector<uint32_t> sizes =
            options.quick ? std::vector<uint32_t>{8, 64 << 10}
                          : std::vector<uint32_t>{8,        64,       512,       2 << 10, 8 << 10,
                                                  16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
        const auto add_all = [&](const char* what, const char* unit, Order::Kind kind) {
            for (const bool sender : {false, true}) {
                const std::string test =
                    std::string(what) + (sender ? " of the sender" : " of the receiver");
                const bool all = kind == Order::Kind::kArrivals;
                overlapping[0].arm =
                    (sender ? sender_ : receiver_).arm(all ? eager : threaded(matcher));
                const uint64_t count = kind == Order::Kind::kArrivals ? kLooks : kMessages;
                const Order order = {kind,  0, options.quick ? 4 : count, 1, Buffers::kReused,
                                     sender};
                for (const uint32_t size : sizes)
                    for (const Contender& who : overlapping) add(test, unit, order, size, who);
            }
        };
        add_all("arrived", "%", Order::Kind::kArrivals);
        add_all("availability", "", Order::Kind::kAvailability);
        add_all("overhead", "us", Order::Kind::kOverhead);
        const Order trips = {Order::Kind::kMessages, 0, options.quick ? 4 : kTrips, 1,
                             Buffers::kReused};
        for (const uint32_t size : sizes) {
            const Series::Item& on =
                add(kCostTest, "us", trips, size, {"matcher", trips_.arm(matcher)});
            const Series::Item& off = add(kCostTest, "us", trips, size, {"tern", tern});
            series_.compare(on, off, kCost);
        }
    }

    Result run() {
        Result result;
        result.figures = series_.run();
        for (Figure& figure : result.figures) {
            if (figure.name != "matcher" || !figure.test.starts_with("availability")) continue;
            figure.target = kAvailable;
            figure.at_most = false;
        }
        result.notes = kNotes + receiver_.text() + sender_.text() + trips_.text();
        result.matrix = true;
        return result;
    }

  private:
    struct Contender {
        std::string name;
        Arm arm;
    };

    static Arm threaded(Arm arm) {
        arm.device_threads = DeviceThreads::kApart;
        return with(std::move(arm), " thread", {{"SOFTHCA_EXECUTOR", "thread"}});
    }

    const Series::Item& add(const std::string& test, const char* unit, Order order, uint32_t size,
                            const Contender& who) {
        order.size = size;
        return series_.add({.test = test,
                            .size = size,
                            .name = who.name,
                            .arm = series_.add_arm(who.arm),
                            .order = order,
                            .unit = unit});
    }

    const Part receiver_{"while the receiver works"};
    const Part sender_{"while the sender works"};
    const Part trips_{"round trips"};
    Series series_;
};

}  // namespace

Result run_overlap(const Options& options, const Setup& setup) {
    return OverlapSeries(options, setup).run();
}

}  // namespace bench
