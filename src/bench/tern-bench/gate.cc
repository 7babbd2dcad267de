// SPDX-License-Identifier: BSD-3-Clause
// `tern-bench gate`: how fast Tern is in virtual time, compared with the peers that clusters run,
// and with what it was.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>

#include "bench/report/ratios.h"
#include "bench/series/progress.h"
#include "bench/sim/benchmarks.h"
#include "bench/sim/fresh.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/sim.h"
#include "common/command.h"

namespace bench::gate {
namespace {

using report::Ratio;
using sim::Adapter;
using sim::Value;

// What Tern is compared with. "Copying": stock UCX never begins a rendezvous, so that receivers
// copy long messages too.
struct Peer {
    const char* transport;
    const char* threshold = nullptr;  // UCX_RNDV_THRESH

    std::string name() const {
        const std::string title = sim::title_of(transport);
        return threshold == nullptr ? title : title + ", RNDV_THRESH=" + threshold;
    }
};
constexpr Peer kTern = {"tern"};
constexpr Peer kVerbs = {"rc_verbs"};
constexpr Peer kCopying = {"rc_verbs", "inf"};
constexpr Peer kMlx5 = {"rc_mlx5"};
constexpr Peer kDynamic = {"dc_mlx5"};

// Simulations of one kind, each in a process of its own for each peer. Its name begins the tests of
// its rows.
struct Part {
    const char* name;
    bool over_ucp;
    Words arguments;  // of tern-sim: the number of ranks, or what is there instead; and the others
    std::vector<Peer> peers;
};

std::vector<Part> all_parts() {
    Words sizes;
    for (const uint32_t size : sim::kBenchmarkSizes) sizes.push_back(std::to_string(size));
    Words messages = {sim::kBenchmarks};
    messages.insert(messages.end(), sizes.begin(), sizes.end());
    return {
        {"uct", false, {"2", "ping-pong", "stream", "puts", "gets", "overlap"}, {kVerbs, kMlx5}},
        {"ranks", false, {"8", "incast", "halo", "all-to-all", "random"}, {kVerbs, kMlx5}},
        // More than initiators of dynamic connections.
        {"more ranks", false, {"16", "all-to-all", "random"}, {kVerbs, kMlx5, kDynamic}},
        {"ucp", true, messages, {kVerbs, kCopying, kMlx5}},
        {"pair", true, {sim::kFresh, "2"}, {kVerbs, kCopying, kMlx5}},
        {"ring", true, {sim::kFresh, "16"}, {kVerbs, kCopying, kMlx5}},
    };
}

// What a run is restricted to.
struct Subset {
    const char* name;
    std::vector<std::string> profiles;
    std::vector<std::string> parts;
};
const std::vector<std::string> kProfiles = {"cx3-fdr", "cx5-edr", "cx6-hdr"};
std::vector<Subset> all_subsets() {
    return {{"all", kProfiles, {"uct", "ranks", "more ranks", "ucp", "pair", "ring"}},
            {"ci", {"cx5-edr"}, {"uct", "ranks", "more ranks", "pair"}}};
}

struct GateOptions {
    std::vector<std::string> profiles;
    std::string subset = "all";
    uint32_t copy = sim::kCopyBandwidth;
    std::string rows;
    std::string expected;
    std::string keep;
    std::string json;
};

struct Selection {
    std::vector<std::string> profiles;
    std::vector<std::string> parts;

    bool holds(const Ratio& row) const {
        const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
            return std::ranges::find(names, name) != names.end();
        };
        return is_in(profiles, row.profile) && is_in(parts, row.test.substr(0, row.test.find(':')));
    }
};

Selection selection_of(const GateOptions& options) {
    const std::vector<Subset> subsets = all_subsets();
    const Subset& subset = *std::ranges::find(subsets, options.subset, &Subset::name);
    return {options.profiles.empty() ? subset.profiles : options.profiles, subset.parts};
}

std::vector<Value> run(const Adapter& adapter, const Part& part, const Peer& peer) {
    Environment more;
    if (part.over_ucp) more = sim::over_ucp(peer.transport);
    if (peer.threshold != nullptr) more.emplace_back("UCX_RNDV_THRESH", peer.threshold);
    return sim::values_in(sim::run_in_virtual_time(
        adapter, peer.name(),
        [&](const std::string& result) -> Words {
            Words words = {"tern-sim", peer.transport, part.arguments.front(), result};
            words.insert(words.end(), part.arguments.begin() + 1, part.arguments.end());
            return words;
        },
        more));
}

// "ucp: UCP's messages, burst"; names of values of UCP end in the transport's.
std::string test_of(const Part& part, const Peer& peer, const Value& value) {
    const std::string title = ", " + sim::title_of(peer.transport);
    std::string name = value.name;
    if (name.ends_with(title)) name.resize(name.size() - title.size());
    return std::string(part.name) + ": " + (name.empty() ? "" : name + ", ") + value.test;
}

// Counts are no speeds.
bool is_speed(const Value& value) {
    return !value.unit.empty() || value.test.starts_with("availability");
}
// Of the first one compared with the other.
double speed(const Value& one, const Value& other) {
    const bool is_time = one.unit == "ns" || one.unit == "us";
    return is_time ? other.value / one.value : one.value / other.value;
}

void add_rows(const Adapter& adapter, const Part& part, Progress& progress,
              std::vector<Ratio>& rows) {
    const auto values_of = [&](const Peer& peer) {
        progress.step(adapter.profile + ", " + part.name + ": " + peer.name());
        return run(adapter, part, peer);
    };
    const std::vector<Value> tern = values_of(kTern);
    for (const Peer& peer : part.peers) {
        std::map<std::pair<std::string, double>, Value> others;
        for (const Value& value : values_of(peer))
            others.emplace(std::pair(test_of(part, peer, value), value.x), value);
        for (const Value& value : tern) {
            const std::string test = test_of(part, kTern, value);
            const auto other = others.find({test, value.x});
            if (is_speed(value) && other != others.end())
                rows.push_back({adapter.profile, test, static_cast<uint64_t>(value.x), peer.name(),
                                speed(value, other->second)});
        }
    }
}

std::vector<Ratio> simulate(const GateOptions& options, const Selection& selection) {
    std::vector<Part> parts = all_parts();
    std::erase_if(parts, [&](const Part& part) {
        return std::ranges::find(selection.parts, part.name) == selection.parts.end();
    });
    uint32_t steps = 0;
    for (const Part& part : parts) steps += static_cast<uint32_t>(1 + part.peers.size());
    Progress progress(steps * static_cast<uint32_t>(selection.profiles.size()));
    std::vector<Ratio> rows;
    for (const std::string& profile : selection.profiles)
        for (const Part& part : parts)
            add_rows({.profile = profile, .model = "", .copy = options.copy}, part, progress, rows);
    progress.clear();
    return rows;
}

std::string contents_of(const std::string& name) {
    std::ifstream file(name);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file) throw call_failed(name);
    return text;
}

// The kept file with the rows that were measured in the place of those of the selection.
std::string renewed(const std::string& kept, const Selection& selection,
                    const std::vector<Ratio>& measured) {
    std::vector<Ratio> rows = report::ratios_in(kept);
    std::vector<Ratio> all = report::with_reasons(rows, measured);
    std::ranges::copy_if(rows, std::back_inserter(all),
                         [&](const Ratio& row) { return !selection.holds(row); });
    std::ranges::sort(all, {}, [](const Ratio& row) {
        return std::tuple(row.profile, row.test, row.bytes, row.peer);
    });
    return report::comments_in(kept) + report::text_of(all);
}

std::string as_json(const GateOptions& options, const Selection& selection,
                    const std::vector<Ratio>& rows) {
    std::vector<report::Figure> figures;
    for (const Ratio& row : rows) {
        report::Figure figure =
            report::exact_figure(row.test, row.bytes, "speed of tern / " + row.peer,
                                 std::string(1, report::kRatioUnit), row.value);
        figure.target = report::kEven;
        figure.at_most = false;
        figures.push_back(std::move(figure));
    }
    const Adapter adapter{.profile = selection.profiles.front(), .model = "", .copy = options.copy};
    const std::string costs =
        sim::costs_text(adapter, {"tern", "rc_verbs", "rc_mlx5", "dc_mlx5"}, sim::Above::kRwapiToo);
    return report::as_json(sim::facts_of("gate", adapter, 16, costs), figures);
}

int run_gate_with(const GateOptions& options) {
    const Selection selection = selection_of(options);
    if (!options.json.empty() && selection.profiles.size() != 1)
        throw tools::UsageError("--json: the file has one profile, so choose it by --profile");
    for (const std::string& file : {options.json, options.keep})
        if (!file.empty()) check_writable(file);
    const std::string kept = options.expected.empty() ? "" : contents_of(options.expected);
    std::vector<Ratio> expected = report::ratios_in(kept);
    std::erase_if(expected, [&](const Ratio& row) { return !selection.holds(row); });

    std::vector<Ratio> rows = options.rows.empty() ? simulate(options, selection)
                                                   : report::ratios_in(contents_of(options.rows));
    std::erase_if(rows, [&](const Ratio& row) { return !selection.holds(row); });
    std::fputs(report::as_sorted_table(rows).c_str(), stdout);
    if (!options.json.empty()) write_file(options.json, as_json(options, selection, rows));
    if (!options.keep.empty()) write_file(options.keep, renewed(kept, selection, rows));
    if (options.expected.empty()) return 0;

    const report::Judgement found = report::judge(expected, rows);
    for (const std::string& note : found.notes) std::printf("%s\n", note.c_str());
    std::fflush(stdout);
    for (const std::string& failure : found.failures) std::fprintf(stderr, "%s\n", failure.c_str());
    std::printf("%zu rows, %zu failures\n", rows.size(), found.failures.size());
    return found.failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace bench::gate

int bench::run_gate(int argc, char** argv) {
    using namespace gate;
    CLI::App app(
        "Simulates Tern and the peers that clusters run, in virtual time: speeds of Tern divided "
        "by those of its peers,\nand which of them are less than those of a kept file.\n"
        "Exit status: 0: none is less; 1: some is, or a failure.",
        "tern-bench gate");
    GateOptions options;
    std::vector<std::string> names;
    for (const Subset& subset : all_subsets()) names.emplace_back(subset.name);
    app.add_option("--profile", options.profiles,
                   "models of adapters [cx3-fdr,cx5-edr,cx6-hdr, or those of the subset]")
        ->option_text("NAME,...")
        ->delimiter(',')
        ->check(known_profile());
    app.add_option("--subset", options.subset,
                   "some of the rows: ci takes at most 3 minutes on two processors")
        ->option_text("all|ci")
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    sim::add_copy(app, options.copy);
    app.add_option("--expected", options.expected, "a file of rows that Tern had before")
        ->option_text("FILE")
        ->check(CLI::ExistingFile);
    app.add_option("--rows", options.rows, "compares the rows of this file, and simulates nothing")
        ->option_text("FILE")
        ->check(CLI::ExistingFile);
    app.add_option(
           "--keep", options.keep,
           "writes the rows to this file, with the reasons and the other rows of --expected")
        ->option_text("FILE");
    app.add_option("--json", options.json, "also write the rows to this file, as JSON");
    return tools::run_command(&app, argc - 1, argv + 1, [&] { return run_gate_with(options); });
}
