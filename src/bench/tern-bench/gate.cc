// SPDX-License-Identifier: BSD-3-Clause
// `tern-bench gate`: how fast Tern is in virtual time, compared with the peers that clusters run.
// contrib/gate.py compares that with what it was.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "bench/report/figure.h"
#include "bench/series/process.h"
#include "bench/series/progress.h"
#include "bench/sim/benchmarks.h"
#include "bench/sim/patterns.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/sim.h"
#include "common/command.h"

namespace bench::gate {
namespace {

using sim::Adapter;
using sim::Value;

// A row: more than 1 means that Tern is faster.
struct Ratio {
    std::string profile;
    std::string test;
    uint64_t bytes = 0;
    std::string peer;
    double value = 0;
};

// Tern or what it is compared with, with a setting of UCX.
struct Peer {
    const char* transport;
    const char* setting = nullptr;  // without UCX_
    const char* value = nullptr;

    std::string name() const {
        const std::string title = sim::title_of(transport);
        return setting == nullptr ? title : title + ", " + setting + "=" + value;
    }
};
constexpr Peer kTern = {"tern"};
constexpr Peer kMatching = {"tern", "TERN_TM_ENABLE", "y"};
constexpr Peer kVerbs = {"rc_verbs"};
// Stock UCX never begins a rendezvous, so that receivers copy long messages too.
constexpr Peer kCopying = {"rc_verbs", "RNDV_THRESH", "inf"};
constexpr Peer kGetting = {"rc_verbs", "RNDV_SCHEME", "get_zcopy"};
constexpr Peer kPutting = {"rc_verbs", "RNDV_SCHEME", "put_zcopy"};
constexpr Peer kMlx5 = {"rc_mlx5"};
constexpr Peer kDynamic = {"dc_mlx5"};

constexpr const char* kReplays = "replays";

// Simulations of one kind, each in a process of its own for each peer. Its name begins the tests of
// its rows.
struct Part {
    const char* name;
    bool in_ci;
    bool over_ucp;
    Words arguments;  // of tern-sim: the number of ranks, or what is there instead; and the others
    std::vector<Peer> peers;
    Peer tern = kTern;
};

std::vector<Part> all_parts() {
    Words messages = {sim::kBenchmarks};
    for (const uint32_t size : sim::kBenchmarkSizes) messages.push_back(std::to_string(size));
    const std::vector<Peer> both = {kVerbs, kMlx5};
    // For more peers than an interface has initiators of dynamic connections.
    const std::vector<Peer> three = {kVerbs, kMlx5, kDynamic};
    const std::vector<Peer> long_messages = {kVerbs, kCopying, kMlx5};
    const std::vector<Peer> halos = {kVerbs, kGetting, kPutting, kMlx5};
    return {
        {"uct",
         true,
         false,
         {"2", "ping-pong", "stream", "puts", "gets", "overlap", "windows", "last-of-burst"},
         both},
        {"ranks", true, false, {"8", "incast", "halo", "all-to-all", "random"}, both},
        {"more ranks", true, false, {"16", "all-to-all", "random", "windows"}, three},
        {"65 ranks", false, false, {"65", "windows"}, three},
        {"64 ranks", false, false, {"64", "all-to-all"}, three},
        {"2 for each port", false, false, {"4:2", "pairs"}, both},
        {"8 for each port", false, false, {"16:8", "pairs"}, both},
        {"16 for each port", false, false, {"32:16", "pairs"}, both},
        {"64 for each port", false, false, {"128:64", "pairs"}, both},
        {"mpi", true, true, {sim::kTaggedRanks, "2"}, both},
        {"halo", false, true, {sim::kTaggedRanks, "16"}, halos},
        {"matching halo", false, true, {sim::kTaggedRanks, "16"}, halos, kMatching},
        {"ucp", false, true, messages, long_messages},
        {"pair", true, true, {sim::kFreshRanks, "2"}, long_messages},
        {"ring", false, true, {sim::kFreshRanks, "16"}, long_messages},
        {kReplays, false, true, {}, long_messages},
    };
}

const std::vector<std::string> kProfiles = {"cx3-fdr", "cx5-edr", "cx6-hdr", "cx7-ndr"};
constexpr const char* kAll = "all";
constexpr const char* kCi = "ci";

struct GateOptions {
    std::vector<std::string> profiles;
    std::string subset = kAll;
    std::vector<std::string> jobs;  // folders of traces
    sim::Processor processor;
    std::string json;
};

struct Selection {
    std::vector<std::string> profiles;
    std::vector<Part> parts;
};

Selection selection_of(const GateOptions& options) {
    const bool all = options.subset == kAll;
    Selection selection{options.profiles, all_parts()};
    if (selection.profiles.empty())
        selection.profiles = all ? kProfiles : std::vector<std::string>{"cx5-edr"};
    const bool replays = all && !options.jobs.empty();
    std::erase_if(selection.parts, [&](const Part& part) {
        if (part.name == std::string(kReplays)) return !replays;
        return !all &&
               !(options.subset == kCi ? part.in_ci
                                       : std::string_view(part.name).ends_with(options.subset));
    });
    return selection;
}

// Of each job, whose traces are in a folder, the time, and that with processors that are infinitely
// fast.
std::vector<Value> replay_all(const std::vector<std::string>& jobs, const Adapter& adapter,
                              const Peer& peer, const Environment& more) {
    std::vector<Value> values;
    for (const std::filesystem::path job : jobs) {
        Words traces;
        for (const auto& entry : std::filesystem::directory_iterator(job))
            traces.push_back(entry.path());
        // Their names end in the rank.
        std::ranges::sort(traces, {},
                          [](const std::string& name) { return std::pair(name.size(), name); });
        for (const double compute : {1.0, 0.0})
            values.push_back(
                {job.filename().string() + (compute == 0 ? " without computations" : ""), 0, "us",
                 replay::job_us(adapter, peer.transport, compute, traces, more)});
    }
    return values;
}

// A part over one transport.
struct Step {
    Adapter adapter;
    const Part* part;
    Peer peer;
    std::vector<Value> values = {};
};

std::vector<Value> run(const Step& step, const std::vector<std::string>& jobs) {
    const Peer& peer = step.peer;
    Environment more;
    if (step.part->over_ucp) more = sim::over_ucp(peer.transport);
    if (peer.setting != nullptr) more.emplace_back(std::string("UCX_") + peer.setting, peer.value);
    const Words& arguments = step.part->arguments;
    if (arguments.empty()) return replay_all(jobs, step.adapter, peer, more);
    return sim::values_in(sim::run_in_virtual_time(
        step.adapter, peer.name(),
        [&](const std::string& result) -> Words {
            Words words = {"tern-sim", peer.transport, arguments.front(), result};
            words.insert(words.end(), arguments.begin() + 1, arguments.end());
            return words;
        },
        more));
}

// Some at once, each in processes of its own.
void run_all(std::vector<Step>& steps, const std::vector<std::string>& jobs) {
    Progress progress(static_cast<uint32_t>(steps.size()));
    std::mutex mutex;
    size_t next = 0;
    std::exception_ptr error;
    const auto work = [&] {
        for (;;) {
            Step* step = nullptr;
            {
                const std::lock_guard lock(mutex);
                if (error || next == steps.size()) return;
                step = &steps[next++];
                progress.step(step->adapter.profile + ", " + step->part->name + ": " +
                              step->peer.name());
            }
            try {
                step->values = run(*step, jobs);
            } catch (...) {
                const std::lock_guard lock(mutex);
                error = std::current_exception();
            }
        }
    };
    std::vector<std::thread> threads;
    for (uint32_t i = std::max(1U, std::thread::hardware_concurrency()); i > 0; --i)
        threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    progress.clear();
    if (error) std::rethrow_exception(error);
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

// Of Tern's values that the peer has too.
void add_rows(const Step& tern, const Step& peer, std::vector<Ratio>& rows) {
    std::map<std::pair<std::string, double>, Value> others;
    for (const Value& value : peer.values)
        others.emplace(std::pair(test_of(*peer.part, peer.peer, value), value.x), value);
    for (const Value& value : tern.values) {
        const std::string test = test_of(*tern.part, tern.peer, value);
        const auto other = others.find({test, value.x});
        if (is_speed(value) && other != others.end())
            rows.push_back({tern.adapter.profile, test, static_cast<uint64_t>(value.x),
                            peer.peer.name(), speed(value, other->second)});
    }
}

std::vector<Ratio> simulate(const GateOptions& options, const Selection& selection) {
    std::vector<Step> steps;
    for (const std::string& profile : selection.profiles) {
        for (const Part& part : selection.parts) {
            const Adapter adapter{.profile = profile, .model = "", .processor = options.processor};
            steps.push_back({adapter, &part, part.tern});
            for (const Peer& peer : part.peers) steps.push_back({adapter, &part, peer});
        }
    }
    run_all(steps, options.jobs);
    std::vector<Ratio> rows;
    const Step* tern = nullptr;
    for (const Step& step : steps) {
        if (tern == nullptr || step.part != tern->part ||
            step.adapter.profile != tern->adapter.profile)
            tern = &step;
        else
            add_rows(*tern, step, rows);
    }
    return rows;
}

// One more row for each test: over the peer that is fastest in it, of which stock UCX chooses one
// by its settings.
std::vector<Ratio> with_best_peers(std::vector<Ratio> rows) {
    std::map<std::tuple<std::string, std::string, uint64_t>, double> best;
    for (const Ratio& row : rows) {
        double& least =
            best.try_emplace({row.profile, row.test, row.bytes}, row.value).first->second;
        least = std::min(least, row.value);
    }
    for (const auto& [key, value] : best) {
        const auto& [profile, test, bytes] = key;
        rows.push_back({profile, test, bytes, "the best peer", value});
    }
    return rows;
}

std::string as_json(const GateOptions& options, const Selection& selection,
                    const std::vector<Ratio>& rows) {
    std::vector<report::Figure> figures;
    for (const Ratio& row : with_best_peers(rows)) {
        figures.push_back(report::exact_figure(row.test, row.bytes, "speed of tern / " + row.peer,
                                               std::string(1, report::kRatioUnit), row.value));
    }
    const Adapter adapter{
        .profile = selection.profiles.front(), .model = "", .processor = options.processor};
    const std::string costs =
        sim::costs_text(adapter, {"tern", "rc_verbs", "rc_mlx5", "dc_mlx5"}, sim::Above::kRwapiToo);
    return report::as_json(sim::facts_of("gate", adapter, "16", costs), figures);
}

int run_gate_with(const GateOptions& options) {
    const Selection selection = selection_of(options);
    if (!options.json.empty() && selection.profiles.size() != 1)
        throw tools::UsageError("--json: the file has one profile, so choose it by --profile");
    if (!options.json.empty()) check_writable(options.json);
    const std::vector<Ratio> rows = simulate(options, selection);
    // A part without a row is not the same as one that was not simulated.
    for (const std::string& profile : selection.profiles)
        for (const Part& part : selection.parts)
            std::printf("# simulated: %s|%s\n", profile.c_str(), part.name);
    for (const Ratio& row : rows)
        std::printf("%s|%s|%llu|%s|%.4f\n", row.profile.c_str(), row.test.c_str(),
                    static_cast<unsigned long long>(row.bytes), row.peer.c_str(), row.value);
    if (!options.json.empty()) write_file(options.json, as_json(options, selection, rows));
    return 0;
}

}  // namespace
}  // namespace bench::gate

int bench::run_gate(int argc, char** argv) {
    using namespace gate;
    CLI::App app(
        "Simulates Tern and the peers that clusters run, in virtual time: speeds of Tern divided "
        "by those of its peers.",
        "tern-bench gate");
    GateOptions options;
    std::vector<std::string> subsets{kAll, kCi};
    for (const Part& part : all_parts()) subsets.emplace_back(part.name);
    app.add_option("--profile", options.profiles,
                   "models of adapters [cx3-fdr,cx5-edr,cx6-hdr,cx7-ndr; of ci cx5-edr]")
        ->option_text("NAME,...")
        ->delimiter(',')
        ->check(known_profile());
    app.add_option("--subset", options.subset,
                   "some of the rows: ci takes at most 3 minutes on two processors; or what is "
                   "before the colon of a row, or its last words")
        ->option_text("all|ci|PART")
        ->check(CLI::IsMember(subsets))
        ->capture_default_str();
    app.add_option("--jobs", options.jobs,
                   "replays recorded jobs too, of which each folder has the traces")
        ->option_text("FOLDER...")
        ->check(CLI::ExistingDirectory);
    sim::add_processor(app, options.processor);
    app.add_option("--json", options.json, "also write the rows to this file, as JSON");
    return tools::run_command(&app, argc - 1, argv + 1, [&] { return run_gate_with(options); });
}
