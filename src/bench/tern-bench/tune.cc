// SPDX-License-Identifier: BSD-3-Clause
// What the cost model is given on this device, and what it makes of it.
#include <cmath>
#include <cstdio>

#include "bench/measure/columns.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/costs.h"
#include "bench/tern-bench/series.h"
#include "bench/tern-bench/sizes.h"
#include "rendezvous/policy.h"

namespace bench {
namespace {

constexpr const char* kCurves = "time by the cost model";
constexpr const char* kParameters = "parameters of the cost model";

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;

// The setting that takes the place of a measurement, in the unit of the table; "-": there is none.
struct Parameter {
    const char* setting;
    const char* text;
    const char* unit;
    double (*value)(const tern::Costs&);
};
constexpr Parameter kAll[] = {
    {"UCX_TERN_RNDV_NET_LATENCY", "network: latency", "us",
     [](const tern::Costs& costs) { return costs.network.latency * kMicro; }},
    {"UCX_TERN_RNDV_NET_BW", "network: bandwidth", "GB/s",
     [](const tern::Costs& costs) { return costs.network.bandwidth * kGiga; }},
    {"-", "network: gap between messages", "us",
     [](const tern::Costs& costs) { return costs.network.gap * kMicro; }},
    {"-", "network: posting", "us",
     [](const tern::Costs& costs) { return costs.network.overhead * kMicro; }},
    {"UCX_TERN_RNDV_COPY_BW", "copying: in the cache", "GB/s",
     [](const tern::Costs& costs) { return costs.copy.cache_bandwidth * kGiga; }},
    {"-", "copying: beyond it", "GB/s",
     [](const tern::Costs& costs) { return costs.copy.memory_bandwidth * kGiga; }},
    {"-", "copying: what fits the cache", "KiB",
     [](const tern::Costs& costs) { return costs.copy.cache / 1024; }},
    {"UCX_TERN_RNDV_PIN_LATENCY", "registration: fixed", "us",
     [](const tern::Costs& costs) { return costs.registration.latency * kMicro; }},
    {"UCX_TERN_RNDV_PIN_BW", "registration: bandwidth", "GB/s",
     [](const tern::Costs& costs) { return costs.registration.bandwidth * kGiga; }},
};

// What the model says of one size, in seconds.
struct Times {
    Times(const tern::Policy& policy, uint64_t length)
        : raw(policy.model().raw(length)),
          superpipeline(policy.model().superpipeline(length, policy.staging(length))),
          pinning(policy.model().pinned_behind_wire(length, policy.model().best_piece(length))),
          pipeline(policy.model().pipeline(length)),
          copy(policy.model().naive_copy(length)),
          registration(policy.model().naive_registration(length)),
          fresh(name_of(policy.receive(length, {}, {}).scheme)) {
        const tern::BufferState pinned{true, true, 0};
        reused = name_of(policy.receive(length, pinned, pinned).scheme);
    }

    double raw;
    double superpipeline;
    double pinning;
    double pipeline;
    double copy;
    double registration;
    std::string_view fresh;   // the scheme that is taken for buffers that are not pinned,
    std::string_view reused;  // and for those that are
};

struct Curve {
    const char* name;
    double Times::*time;
};
constexpr Curve kLines[] = {{"RDMA write", &Times::raw},
                            {"superpipeline", &Times::superpipeline},
                            {"pin behind wire", &Times::pinning},
                            {"pipeline", &Times::pipeline},
                            {"copy", &Times::copy},
                            {"register", &Times::registration}};

std::string parameter_table(const tern::Costs& costs) {
    std::vector<Cells> lines = {{kParameters, "", "", "fixed by"}};
    for (const Parameter& parameter : kAll) {
        const double value = parameter.value(costs);
        lines.push_back({std::string("  ") + parameter.text,
                         std::isinf(value) ? "inf" : number_text(value), parameter.unit,
                         parameter.setting});
    }
    return in_columns(lines, "lrll");
}

std::string curve_table(const tern::Policy& policy, const std::vector<uint32_t>& sizes) {
    std::vector<Cells> lines = {{std::string(kCurves) + ", us"}};
    for (const Curve& curve : kLines) lines.front().emplace_back(curve.name);
    lines.front().insert(lines.front().end(), {"fresh: taken", "pinned: taken"});
    for (const uint32_t size : sizes) {
        const Times times(policy, size);
        Cells cells = {"  " + size_text(size)};
        for (const Curve& curve : kLines) cells.push_back(number_text(times.*curve.time * kMicro));
        cells.insert(cells.end(), {std::string(times.fresh), std::string(times.reused)});
        lines.push_back(std::move(cells));
    }
    return in_columns(lines, "lrrrrrrll");
}

}  // namespace

Result run_tune(const Options& options, const Setup& setup) {
    MeasuredCosts measured = measure_costs(options, setup);
    const tern::Policy policy(measured.costs, {});
    const std::vector<uint32_t> sizes = long_sizes(options);
    Result result;
    result.figures = std::move(measured.figures);
    result.table = as_matrix(result.figures) + parameter_table(measured.costs) + "\n" +
                   curve_table(policy, sizes);
    for (const Parameter& parameter : kAll) {
        const double value = parameter.value(measured.costs);
        if (std::isfinite(value)) {
            result.figures.push_back(exact_figure(kParameters, 0, parameter.setting, parameter.text,
                                                  parameter.unit, value));
        }
    }
    for (const uint32_t size : sizes) {
        const Times times(policy, size);
        for (const Curve& curve : kLines) {
            result.figures.push_back(exact_figure(kCurves, size, size_text(size), curve.name, "us",
                                                  times.*curve.time * kMicro));
        }
    }
    result.x_label = "bytes";
    return result;
}

}  // namespace bench
