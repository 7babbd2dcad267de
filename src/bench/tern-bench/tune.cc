// SPDX-License-Identifier: BSD-3-Clause
// The parameters of the cost model on this device, and the schemes that the model chooses.
#include <algorithm>
#include <cmath>

#include "bench/measure/clock.h"
#include "bench/measure/mark.h"
#include "bench/tern-bench/command.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/decision.h"

namespace bench {
namespace {

using Kind = Order::Kind;

constexpr const char* kRegistrations = "registration";
constexpr const char* kSpacings = "RDMA writes, from one to the next";
constexpr const char* kWriteLatency = "RDMA write, half round trip";
constexpr const char* kPosts = "posting an RDMA write";
constexpr uint64_t kSpacedMessages = 24;  // of each sample of kSpacings

std::vector<Timing> timings_of(const std::vector<Figure>& figures, const char* test) {
    std::vector<Timing> timings;
    for (const Figure& figure : figures) {
        // The 10th percentile, not the median, because disturbances only add time.
        if (figure.test == test) timings.push_back({figure.x, figure.value.p10 / 1e6});
    }
    if (timings.empty()) throw Failure(std::string("not measured: ") + test);
    return timings;
}

std::vector<Figure> probe(const Options& options, const Setup& setup) {
    const bool quick = options.quick;
    const Arm arm = raw_arm(shared_memory_differs(setup) ? "shared" : "private");
    Series series(setup, quick ? 2 : 5, 1);
    const auto add = [&](const char* test, uint32_t size, Kind kind, uint64_t count) {
        Group& group = series.add({.test = test, .size = size});
        group.add("verbs", arm,
                  {.kind = kind,
                   .size = size,
                   .count = count,
                   .per_sample = kind == Kind::kSpacings ? kSpacedMessages : 1,
                   .one_sided = kind != Kind::kWrites,
                   .reaps = true});
    };
    for (uint32_t size = 4 << 10; size <= (16 << 20); size *= quick ? 64 : 4)
        add(kRegistrations, size, Kind::kPinnings, 4);
    for (uint32_t size = 4 << 10; size <= (1 << 20); size *= quick ? 16 : 4)
        add(kSpacings, size, Kind::kSpacings, quick ? 1 : 3);
    add(kWriteLatency, kWord, Kind::kWrites, quick ? 50 : 500);
    add(kPosts, 4 << 10, Kind::kPosts, 50);
    return series.run();
}

constexpr const char* kParameters = "parameters of the cost model";

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;

// A parameter of the model, and its name in UCX_TERN_RNDV_COSTS; "-" if it has none.
struct Parameter {
    const char* setting;
    const char* text;
    const char* unit;
    double value;
};
std::vector<Parameter> parameters_of(const tern::Costs& costs) {
    const auto& [network, copy, registration] = costs;
    return {{"net_latency", "network: latency", "us", network.latency * kMicro},
            {"net", "network: bandwidth", "GB/s", network.bandwidth * kGiga},
            {"-", "network: gap between messages", "us", network.gap * kMicro},
            {"-", "network: posting", "us", network.overhead * kMicro},
            {"copy", "copying: in the cache", "GB/s", copy.cache_bandwidth * kGiga},
            {"-", "copying: beyond it", "GB/s", copy.memory_bandwidth * kGiga},
            {"-", "copying: what fits the cache", "KiB", copy.cache / 1024},
            {"pin_latency", "registration: fixed", "us", registration.latency * kMicro},
            {"pin", "registration: bandwidth", "GB/s", registration.bandwidth * kGiga}};
}

// The scheme for a message between buffers that both are pinned, or are not.
std::string scheme(const tern::Decider& decider, uint64_t length, bool pinned) {
    const tern::BufferState state{pinned, true, 0};
    return std::string(
        name_of(decider.decide({.length = length, .sender = state, .own = state}).scheme));
}

// The schemes by size, each with the first size that takes it.
std::string schemes(const tern::Decider& decider, bool pinned) {
    std::string text = pinned ? "pinned buffers: " : "fresh buffers: ", before;
    for (uint32_t i = 0; i <= 4 * 14; ++i) {  // 1 KiB to 16 MiB, four of each doubling
        const uint32_t size = (4 + i % 4) << (8 + i / 4);
        const std::string taken = scheme(decider, size, pinned);
        if (taken != before)
            text += (before.empty() ? "" : ", ") + taken + " from " + size_text(size);
        before = taken;
    }
    return text + "\n";
}

tern::Costs costs_of(const std::vector<Figure>& figures) {
    const Line wire = fit_line(timings_of(figures, kSpacings));
    const Line pinning = fit_line(timings_of(figures, kRegistrations));
    tern::Costs costs;
    costs.network.bandwidth = wire.bandwidth;
    costs.network.gap = wire.constant;
    costs.network.latency =
        std::max(0.0, timings_of(figures, kWriteLatency).front().seconds - kWord / wire.bandwidth);
    costs.network.overhead = timings_of(figures, kPosts).front().seconds;
    costs.copy = tern::measure_copies();
    costs.registration.latency = pinning.constant;
    costs.registration.bandwidth = pinning.bandwidth;
    return costs;
}

}  // namespace

Result run_tune(const Options& options, const Setup& setup) {
    std::vector<Figure> figures = probe(options, setup);
    const tern::Costs costs = costs_of(figures);
    const tern::Decider decider(costs, {});
    std::vector<Figure> parameters;
    for (const auto& [setting, text, unit, value] : parameters_of(costs)) {
        if (std::isfinite(value))
            parameters.push_back(exact_figure(kParameters, 0, setting, text, unit, value));
    }
    const std::string table = as_matrix(figures) + as_table(parameters) + "\n" +
                              schemes(decider, false) + schemes(decider, true);
    figures.insert(figures.end(), parameters.begin(), parameters.end());
    return {figures, table, "Parameters: what UCX_TERN_RNDV_COSTS calls them, unless it is -.\n"};
}

}  // namespace bench
