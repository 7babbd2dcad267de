// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/costs.h"

#include <cstdio>

#include "bench/measure/failure.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/fit.h"
#include "bench/tern-bench/series.h"
#include "rendezvous/calibration.h"

namespace bench {
namespace {

constexpr const char* kCopies = "copying from fresh memory";
constexpr const char* kRegistrations = "registration";
constexpr const char* kSpacings = "RDMA writes, from one to the next";
constexpr const char* kLatency = "RDMA write, half round trip";
constexpr const char* kPosts = "posting an RDMA write";
constexpr uint32_t kWord = 8;

std::vector<Timing> timings_of(const std::vector<Figure>& figures, const char* test) {
    std::vector<Timing> timings;
    for (const Figure& figure : figures) {
        // Not the median: what disturbs the machine only ever adds.
        if (figure.test == test) timings.push_back({figure.x, figure.value.p10 / 1e6});
    }
    if (timings.empty()) throw Failure(std::string("not measured: ") + test);
    return timings;
}

class Probe {
  public:
    Probe(const Options& options, const Setup& setup)
        : quick_(options.quick),
          series_(setup, quick_ ? 2 : 5, 1),
          arm_(series_.add_arm(probe_arm(shared_memory_differs(setup) ? "shared" : "private"))) {
        for (uint32_t size = 4 << 10; size <= (16 << 20); size *= quick_ ? 8 : 2) {
            add(kCopies, size, Order::Kind::kCopies, size > (1 << 20) ? 4 : 20);
        }
        for (uint32_t size = 4 << 10; size <= (16 << 20); size *= quick_ ? 64 : 4) {
            add(kRegistrations, size, Order::Kind::kRegistrations, 4);
        }
        for (uint32_t size = 4 << 10; size <= (1 << 20); size *= quick_ ? 16 : 4) {
            add(kSpacings, size, Order::Kind::kSpacings, quick_ ? 1 : 3);
        }
        add(kLatency, kWord, Order::Kind::kWrites, quick_ ? 50 : 500);
        add(kPosts, 4 << 10, Order::Kind::kPosts, 50);
    }
    std::vector<Figure> run() { return series_.run(); }

  private:
    void add(const char* test, uint32_t size, Order::Kind kind, uint64_t count) {
        Series::Item item;
        item.test = test;
        item.size = size;
        item.name = "verbs";
        item.arm = arm_;
        item.unit = "us";
        item.order = {kind, size, count, 1, Buffers::kFresh};
        series_.add(std::move(item));
    }

    const bool quick_;
    Series series_;
    const size_t arm_;
};

}  // namespace

MeasuredCosts measure_costs(const Options& options, const Setup& setup) {
    MeasuredCosts result;
    result.figures = Probe(options, setup).run();
    const Line wire = fit_line(timings_of(result.figures, kSpacings));
    const Line pinning = fit_line(timings_of(result.figures, kRegistrations));
    tern::Costs& costs = result.costs;
    costs.network.bandwidth = wire.bandwidth;
    costs.network.gap = wire.constant;
    costs.network.latency = std::max(
        0.0, timings_of(result.figures, kLatency).front().seconds - kWord / wire.bandwidth);
    costs.network.overhead = timings_of(result.figures, kPosts).front().seconds;
    costs.copy = tern::measure_copies();
    costs.registration.latency = pinning.constant;
    costs.registration.bandwidth = pinning.bandwidth;
    return result;
}

std::string costs_text(const tern::Costs& costs) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "latency %.2f us, bandwidth %.2f GB/s, gap %.2f us; copies %.1f GB/s in the "
                  "cache, %.1f beyond; registration %.1f us + %.1f GB/s\n",
                  costs.network.latency * 1e6, costs.network.bandwidth / 1e9,
                  costs.network.gap * 1e6, costs.copy.cache_bandwidth / 1e9,
                  costs.copy.memory_bandwidth / 1e9, costs.registration.latency * 1e6,
                  costs.registration.bandwidth / 1e9);
    return text;
}

}  // namespace bench
