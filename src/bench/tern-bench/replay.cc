// SPDX-License-Identifier: BSD-3-Clause
// The command `tern-bench replay`.
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "bench/report/figure.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/sim.h"
#include "common/command.h"

namespace bench::replay {
namespace {

struct ReplayOptions {
    sim::Adapter adapter;
    double compute = 1;
    std::vector<std::string> transports = sim::kUsualTransports;
    std::vector<std::string> settings;  // NAME=VALUE, of UCX
    std::vector<std::string> traces;
    std::string json;
};

// In microseconds.
struct RankTimes {
    double whole = 0;
    double computed = 0;
};

struct Column {
    std::string transport;
    std::vector<RankTimes> ranks;
    double job = 0;              // of the slowest rank
    uint64_t registrations = 0;  // of all ranks, while the clock of the job ran
};

Column replay_over(const sim::Adapter& adapter, const std::string& transport, double compute,
                   const std::vector<std::string>& traces, const Environment& environment) {
    Column column{transport, {}};
    const std::string result = sim::run_in_virtual_time(
        adapter, transport,
        [&](const std::string& file) {
            Words words{"tern-replay", transport, formatted("%g", compute), file};
            words.insert(words.end(), traces.begin(), traces.end());
            return words;
        },
        environment);
    std::istringstream text(result);
    uint64_t rank = 0, whole = 0, computed = 0, registrations = 0;
    while (text >> rank >> whole >> computed >> registrations) {
        column.registrations += registrations;
        column.ranks.push_back(
            {static_cast<double>(whole) / 1000, static_cast<double>(computed) / 1000});
        column.job = std::max(column.job, column.ranks.back().whole);
    }
    return column;
}

Column replay_over(const ReplayOptions& options, const std::string& transport) {
    Environment environment = sim::over_ucp(transport);
    for (const std::string& setting : options.settings) {
        const size_t sign = setting.find('=');
        environment.emplace_back(setting.substr(0, sign), setting.substr(sign + 1));
    }
    return replay_over(options.adapter, transport, options.compute, options.traces, environment);
}

std::string settings_text(const ReplayOptions& options) {
    std::string text;
    for (const std::string& setting : options.settings)
        text.append(text.empty() ? "" : " ").append(setting);
    return text;
}

// Also of the one that is left out by --over.
std::string costs_of_job(const ReplayOptions& options) {
    return sim::costs_text(options.adapter, options.transports, sim::Above::kUcpToo);
}

std::string as_text(const ReplayOptions& options, const std::vector<Column>& columns) {
    std::string text = sim::profile_text(options.adapter);
    text += formatted("ranks %zu, computations times %g\n", options.traces.size(), options.compute);
    if (!options.settings.empty()) text += "settings " + settings_text(options) + "\n";
    text += "costs " + costs_of_job(options) + "\n\n";
    text += formatted("%-6s %12s", "us", "computed");
    for (const Column& column : columns) text += formatted(" %12s", column.transport.c_str());
    const bool compares = columns.size() == 2;
    text += compares ? formatted(" %8s\n", "ratio") : "\n";
    const auto line = [&](const std::string& name, double computed, auto&& time_of) {
        text += formatted("%-6s %12.3f", name.c_str(), computed);
        for (const Column& column : columns) text += formatted(" %12.3f", time_of(column));
        text += compares ? formatted(" %8.3f\n", time_of(columns.front()) / time_of(columns.back()))
                         : "\n";
    };
    double computed = 0;
    for (size_t rank = 0; rank < columns.front().ranks.size(); ++rank) {
        const double own = columns.front().ranks[rank].computed;
        line(std::to_string(rank), own,
             [&](const Column& column) { return column.ranks[rank].whole; });
        computed = std::max(computed, own);
    }
    line("job", computed, [](const Column& column) { return column.job; });
    text += formatted("%-19s", "registrations");
    for (const Column& column : columns)
        text += formatted(" %12llu", static_cast<unsigned long long>(column.registrations));
    return text + "\n";
}

std::string as_json(const ReplayOptions& options, const std::vector<Column>& columns) {
    std::vector<report::Figure> figures;
    const auto add = [&](const std::string& test, const std::string& name, const std::string& unit,
                         double value) {
        figures.push_back(report::exact_figure(test, options.compute,
                                               formatted("computations times %g", options.compute),
                                               name, unit, value));
    };
    for (const Column& column : columns) add("job", column.transport, "us", column.job);
    if (columns.size() == 2)
        add("job", columns.front().transport + " / " + columns.back().transport,
            std::string(1, report::kRatioUnit), columns.front().job / columns.back().job);
    for (const Column& column : columns)
        add("registrations of the job", column.transport, "",
            static_cast<double>(column.registrations));
    Facts facts = sim::facts_of("replay", options.adapter, std::to_string(options.traces.size()),
                                costs_of_job(options));
    facts.emplace_back("environment", settings_text(options));
    return report::as_json(facts, figures);
}

}  // namespace

double job_us(const sim::Adapter& adapter, const std::string& transport, double compute,
              const std::vector<std::string>& traces, const Environment& more) {
    return replay_over(adapter, transport, compute, traces, more).job;
}

}  // namespace bench::replay

int bench::run_replay(int argc, char** argv) {
    using namespace replay;
    CLI::App app(
        "Replays an MPI job over UCP in virtual time, with Tern and with UCX's own rc_verbs. The "
        "traces are those\nof all ranks, in their order; libtern_record.so writes them.",
        "tern-bench replay");
    ReplayOptions options;
    app.add_option("TRACE", options.traces, "a trace of each rank")
        ->required()
        ->check(CLI::ExistingFile)
        ->expected(1, 128);
    sim::add_adapter(app, options.adapter);
    app.add_option("--compute", options.compute, "factor of the computations between messages")
        ->check(CLI::Range(0.0, 1000.0))
        ->capture_default_str();
    app.add_option("--over", options.transports,
                   "one transport, instead of the first two; rc_mlx5 is modelled")
        ->option_text("tern|rc_verbs|rc_mlx5")
        ->expected(1)
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"tern", "rc_verbs", "rc_mlx5"}));
    app.add_option("--set", options.settings,
                   "a setting of UCX or Tern, for both transports; the environment has no effect")
        ->option_text("UCX_NAME=VALUE")
        ->allow_extra_args(false)
        ->check(CLI::Validator(
            [](const std::string& setting) {
                return (setting.starts_with("UCX_") || setting.starts_with("TERN_TUNABLES=")) &&
                               setting.find('=') != std::string::npos
                           ? std::string()
                           : "a setting is UCX_NAME=VALUE, not " + setting;
            },
            ""));
    app.add_option("--json", options.json, "also write the result to this file, as JSON");
    return tools::run_command(&app, argc - 1, argv + 1, [&] {
        if (!options.json.empty()) check_writable(options.json);
        std::vector<Column> columns;
        // The device and the programs get equal bytes each time.
        Progress progress(static_cast<uint32_t>(options.transports.size()), false);
        for (const std::string& transport : options.transports) {
            progress.step(transport);
            columns.push_back(replay_over(options, transport));
        }
        progress.clear();
        std::fputs(as_text(options, columns).c_str(), stdout);
        if (!options.json.empty()) write_file(options.json, as_json(options, columns));
        return 0;
    });
}
