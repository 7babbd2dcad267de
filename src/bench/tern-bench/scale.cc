// SPDX-License-Identifier: BSD-3-Clause
// `tern-bench scale`: connections and blocks of a process with many peers, simulated.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iterator>

#include "bench/replay/trace.h"
#include "bench/report/figure.h"
#include "bench/scale/process.h"
#include "bench/tern-bench/command.h"
#include "common/command.h"

namespace bench::scale {
namespace {

constexpr const char* kTraces = "traces";

struct ScaleOptions {
    std::vector<std::string> patterns;
    std::vector<uint32_t> ranks = {1000, 10'000, 100'000};
    std::vector<std::string> limits = {"inf", "4096", "256", "64"};
    uint64_t messages = 1'000'000;
    uint32_t hot_most = tern::Promotion::Limits{}.most;
    std::vector<std::string> traces;
    std::string json;
};

// A line of the table.
struct Line {
    std::string pattern;
    uint32_t ranks;
    std::string limit;
    Outcome outcome;
};

// What is said of a line.
struct Quantity {
    const char* name;
    const char* unit;
    double (*value)(const Outcome& outcome);
};

double share(uint64_t part, uint64_t all) {
    return all == 0 ? 0 : 100. * static_cast<double>(part) / static_cast<double>(all);
}
double kib(uint64_t bytes) {
    return static_cast<double>(bytes) / 1024;
}

// The queue pair for handshakes counts too.
constexpr Quantity kQuantities[] = {
    {"queue pairs, at most", "", [](const Outcome& o) { return o.most + 1.; }},
    {"queue pairs, mean", "",
     [](const Outcome& o) {
         return 1 + static_cast<double>(o.sum) / static_cast<double>(o.messages);
     }},
    {"memory of the queues", "KiB", [](const Outcome& o) { return kib(o.queue_bytes); }},
    {"registered memory", "KiB", [](const Outcome& o) { return kib(o.registered_bytes); }},
    {"records of connections", "KiB", [](const Outcome& o) { return kib(o.record_bytes); }},
    {"reconnects per 1000 messages", "",
     [](const Outcome& o) { return share(o.reconnects, o.messages) * 10; }},
    {"messages delayed by a connect", "%",
     [](const Outcome& o) { return share(o.delayed, o.messages); }},
    {"blocks offered per 1000 messages", "",
     [](const Outcome& o) { return share(o.offers, o.messages) * 10; }},
    {"messages through blocks", "%", [](const Outcome& o) { return share(o.hot, o.received); }},
};
constexpr const char* kHeads[] = {"most",  "mean", "queues", "reg'd", "records",
                                  "again", "late", "blocks", "hot"};
static_assert(std::size(kHeads) == std::size(kQuantities));

tern::EngineSettings settings_of(const ScaleOptions& options, const std::string& limit) {
    tern::EngineSettings settings;
    settings.promotion.most = options.hot_most;
    settings.connections = limit == "inf" ? tern::EngineSettings::kUnlimited
                                          : static_cast<uint32_t>(std::stoul(limit));
    return settings;
}

Outcome simulate(const ScaleOptions& options, Messages messages, uint32_t ranks,
                 const std::string& limit, uint64_t count) {
    Process process(settings_of(options, limit), Times(), ranks);
    for (uint64_t i = 0; i < count; ++i) process.handle(messages.next());
    return process.outcome();
}

std::string assumptions(const ScaleOptions& options) {
    constexpr Times kTimes;
    const auto us = [](uint64_t ns) { return static_cast<double>(ns) / 1000; };
    const HandshakePackets packets = count_packets();
    return formatted(
               "a message each %g us; a connection takes %g us: %u packets one after the "
               "other of %g us, a queue pair on each side in %g us",
               us(kTimes.step), us(2 * kTimes.setup + packets.trips * kTimes.packet), packets.trips,
               us(kTimes.packet), us(kTimes.setup)) +
           formatted(
               "; %u packets to connect, %u to end; %u looks between two messages; %u hot peers "
               "at most",
               packets.connect, packets.end, kTimes.looks, options.hot_most);
}

std::string count_text(const ScaleOptions& options) {
    return options.traces.empty() ? std::to_string(options.messages) : "those of rank 0";
}

std::string as_text(const ScaleOptions& options, const std::vector<Line>& lines) {
    std::string text = assumptions(options) + "\nmessages " + count_text(options) + "\n\n";
    text += formatted("%-10s %7s %6s", "pattern", "ranks", "limit");
    for (const char* head : kHeads) text += formatted(" %9s", head);
    text += "\n";
    for (const auto& [pattern, ranks, limit, outcome] : lines) {
        text += formatted("%-10s %7u %6s", pattern.c_str(), ranks, limit.c_str());
        for (const Quantity& quantity : kQuantities) {
            const double value = quantity.value(outcome);
            text += formatted(value < 1000 ? " %9.2f" : " %9.0f", value);
        }
        text += "\n";
    }
    return text +
           "\nmost, mean: queue pairs; queues, reg'd, records: memory in KiB; again: "
           "reconnects per 1000 messages;\nlate: % of messages delayed by a connect; blocks: "
           "offers of blocks per 1000 messages; hot: % of the messages\nreceived that came "
           "through blocks\n";
}

std::string as_json(const ScaleOptions& options, const std::vector<Line>& lines) {
    std::vector<report::Figure> figures;
    for (const Quantity& quantity : kQuantities)
        for (const auto& [pattern, ranks, limit, outcome] : lines)
            figures.push_back(report::exact_figure(
                quantity.name, ranks, std::to_string(ranks) + " ranks",
                pattern + ", QP_MAX=" + limit, quantity.unit, quantity.value(outcome)));
    return report::as_json({{"command", "scale"},
                            {"assumptions", assumptions(options)},
                            {"messages", count_text(options)}},
                           figures);
}

void add_options(CLI::App& app, ScaleOptions& options) {
    std::vector<std::string> names;
    std::string patterns = "Patterns:\n";
    for (const auto& [name, help] : kPatterns) {
        names.emplace_back(name);
        patterns += formatted("  %-28s", name) + help + "\n";
    }
    options.patterns = names;
    app.footer(patterns);
    app.add_option("--patterns", options.patterns, "some of the patterns, instead of all")
        ->option_text("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    app.add_option("--ranks", options.ranks, "ranks of the job [1000,10000,100000]")
        ->option_text("N,...")
        ->delimiter(',')
        ->check(CLI::Range(2, 1'000'000));
    app.add_option("--limits", options.limits, "values of UCX_TERN_QP_MAX [inf,4096,256,64]")
        ->option_text("N,...")
        ->delimiter(',')
        ->check(CLI::IsMember({"inf"}) | CLI::Range(1, 1'000'000));
    app.add_option("--hot-max", options.hot_most, "value of UCX_TERN_HOT_MAX")
        ->option_text("N")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
    app.add_option("--messages", options.messages, "messages that the process sends and receives")
        ->option_text("N")
        ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}))
        ->capture_default_str();
    app.add_option("--traces", options.traces,
                   "traces of all ranks of a job (tern-bench replay), instead of patterns")
        ->option_text("FILE...")
        ->check(CLI::ExistingFile)
        ->excludes("--patterns", "--ranks", "--messages");
    app.add_option("--json", options.json, "also write the result to this file, as JSON");
}

std::vector<Line> lines_of(const ScaleOptions& options) {
    std::vector<Line> lines;
    const auto add = [&](const std::string& name, uint32_t ranks, const Messages& messages,
                         uint64_t count) {
        for (const std::string& limit : options.limits)
            lines.push_back({name, ranks, limit, simulate(options, messages, ranks, limit, count)});
    };
    if (!options.traces.empty()) {
        const std::vector<replay::Trace> traces = replay::load(options.traces);
        const Messages messages(traces);
        if (messages.in_traces() == 0) throw Failure("rank 0 of these traces has no messages");
        add(kTraces, static_cast<uint32_t>(traces.size()), messages, messages.in_traces());
        return lines;
    }
    for (const std::string& pattern : options.patterns)
        for (const uint32_t ranks : options.ranks)
            add(pattern, ranks, Messages(pattern, ranks), options.messages);
    return lines;
}

}  // namespace
}  // namespace bench::scale

int bench::run_scale(int argc, char** argv) {
    using namespace scale;
    CLI::App app(
        "Simulates one process of a large job, with all its peers: its connections, their memory, "
        "and the share of\nits messages that is fast. The transport's own code decides which "
        "connections end and which peers get a block.",
        "tern-bench scale");
    ScaleOptions options;
    add_options(app, options);
    return tools::run_command(&app, argc - 1, argv + 1, [&] {
        if (!options.json.empty()) check_writable(options.json);
        const auto lines = lines_of(options);
        std::fputs(as_text(options, lines).c_str(), stdout);
        if (!options.json.empty()) write_file(options.json, as_json(options, lines));
        return 0;
    });
}
