// SPDX-License-Identifier: BSD-3-Clause
// The command of tern-bench that compares a program of the user over Tern and over stock UCX.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "bench/measure/clock.h"
#include "bench/measure/link.h"
#include "bench/series/interrupt.h"
#include "bench/series/options.h"
#include "bench/series/progress.h"
#include "bench/tern-bench/command.h"
#include "common/command.h"
#include "common/mpi.h"

namespace bench {
namespace {

constexpr size_t kMostName = 60;

struct ProgramOptions {
    Options common;
    std::string name;
    std::string number;  // the text before it; empty: the time of the whole program
    std::string unit = "s";
    Words words;
};

// A way to run the program, and what its runs gave.
struct Way {
    std::string name;
    Environment environment;
    Samples rounds = {};
    bool failed = false;
};

std::string line_of(const Words& words) {
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
    return line;
}

std::string last_words(const std::string& output) {
    constexpr size_t kMost = 2000;
    return output.size() > kMost ? "...\n" + output.substr(output.size() - kMost) : output;
}

// The number behind the last `text` of the output.
std::optional<double> number_behind(const std::string& output, const std::string& text) {
    const size_t at = output.rfind(text);
    if (text.empty() || at == std::string::npos) return std::nullopt;
    const char* const begin = output.c_str() + at + text.size();
    char* end = nullptr;
    const double number = std::strtod(begin, &end);
    if (end == begin || !std::isfinite(number)) return std::nullopt;
    return number;
}

// The changes with which MPI has no other way between its processes than UCX.
Environment over_ucx() {
    Environment environment;
    for (const auto& [name, value] : tools::kOpenMpiOverUcx) environment.emplace_back(name, value);
    environment.insert(environment.end(), {{tools::kMpichOverUcx.name, tools::kMpichOverUcx.value},
                                           {"OMPI_MCA_btl", "self"},
                                           {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                           {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                           {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
    return environment;
}

// Runs the program once. Throws Failure.
double run_once(const ProgramOptions& options, const Way& way) {
    Words words = {"/usr/bin/env"};
    words.insert(words.end(), options.words.begin(), options.words.end());
    const MemoryFile output;
    const uint64_t start = now_ns();
    const int status = Process(words, way.environment, output.fd()).wait();
    const double seconds = static_cast<double>(now_ns() - start) / 1e9;
    if (status != 0) {
        throw Failure(way.name + ": the program ended with status " + std::to_string(status) +
                      ":\n" + last_words(output.text()));
    }
    if (options.number.empty()) return seconds;
    const std::optional<double> number = number_behind(output.text(), options.number);
    if (!number) {
        throw Failure(way.name + ": there is no number behind '" + options.number +
                      "' in what the program printed:\n" + last_words(output.text()));
    }
    return *number;
}

void run_round(const ProgramOptions& options, const Setup& setup, int round, Progress& progress,
               std::vector<Way>& ways) {
    for (size_t i = 0; i < ways.size() && interrupted() == 0; ++i) {
        Way& way = ways[round % 2 == 0 ? i : ways.size() - 1 - i];
        if (way.failed) continue;
        progress.step("round " + std::to_string(round + 1) + " of " +
                      std::to_string(options.common.rounds) + ", " + way.name);
        try {
            way.rounds.push_back(run_once(options, way));
        } catch (const Failure& failure) {
            if (interrupted() != 0) return;
            progress.clear();
            way.failed = true;
            if (std::ranges::all_of(ways, &Way::failed)) throw;
            add_gap(setup, failure.what());
        }
    }
}

// The figures of complete rounds.
std::vector<Figure> figures_of(const ProgramOptions& options, std::vector<Way>& ways) {
    size_t complete = static_cast<size_t>(options.common.rounds);
    for (const Way& way : ways)
        if (!way.failed) complete = std::min(complete, way.rounds.size());
    std::vector<Figure> figures;
    if (complete == 0) return figures;
    Figure outline;
    outline.test = options.name;
    outline.x = 1;
    outline.x_text = options.number.empty() ? "whole run" : options.number;
    for (Way& way : ways) {
        if (way.failed) continue;
        way.rounds.resize(complete);
        Figure figure = outline;
        figure.name = way.name;
        figure.unit = options.unit;
        figure.value = summarize(way.rounds);
        doubt_value(&figure, way.rounds, true, kNone);
        figures.push_back(std::move(figure));
    }
    if (figures.size() < 2) return figures;
    outline.name = ways.front().name + " / " + ways.back().name;
    figures.push_back(ratio_figure(outline, ways.front().rounds, ways.back().rounds));
    return figures;
}

int measure(const ProgramOptions& options) {
    if (!options.common.json.empty()) check_writable(options.common.json);
    Gaps gaps;
    Setup setup = make_setup(options.common);
    setup.gaps = &gaps;
    Facts facts = facts_of(options.common, setup);
    facts.emplace_back("program", line_of(options.words));
    std::vector<Way> ways = {{"tern", setup.with_tern}, {"rc_v", setup.without_tern}};
    for (Way& way : ways) {
        way.environment.emplace_back("UCX_TLS", way.name + ",self");
        const Environment mpi = over_ucx();
        way.environment.insert(way.environment.end(), mpi.begin(), mpi.end());
    }
    watch_for_interrupts();
    Progress progress(static_cast<uint32_t>(2 * options.common.rounds));
    int round = 0;
    for (; round < options.common.rounds && interrupted() == 0; ++round)
        run_round(options, setup, round, progress, ways);
    progress.clear();
    const std::vector<Figure> figures = figures_of(options, ways);
    if (interrupted() != 0) {
        const size_t complete = figures.empty() ? 0 : figures.front().rounds.size();
        add_gap(setup,
                formatted("interrupted after %zu of %d rounds", complete, options.common.rounds));
    }
    if (!figures.empty()) {
        std::printf("%s", as_table(figures).c_str());
        if (!options.common.json.empty())
            write_file(options.common.json, as_json(facts, figures, gaps));
    }
    if (interrupted() != 0) return kExitSignal + interrupted();
    return gaps.empty() ? 0 : kExitIncomplete;
}

}  // namespace

int run_program(int argc, char** argv) {
    CLI::App app(
        "Runs a program of yours over Tern and over stock UCX (rc_v), in turns, and compares how "
        "long it takes,\nor a number that it prints. Open MPI and MPICH are told to use UCX only.",
        "tern-bench program");
    ProgramOptions options;
    options.common.command = "program";
    options.common.rounds = 7;
    app.add_option("--name", options.name, "what the result calls it [its command line]");
    app.add_option("--number", options.number,
                   "compare the number behind the last TEXT that the program prints")
        ->option_text("TEXT");
    app.add_option("--unit", options.unit,
                   "its unit: of s, ms, us and ns less is better, of what ends in /s more")
        ->capture_default_str();
    app.add_option("--rounds", options.common.rounds, "how often each is run")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option("--device", options.common.device,
                   "HCA and port as UCX names them: mlx5_0:1 [the first HCA]");
    app.add_option("--profile", options.common.profile,
                   "model of the software HCA that is used if there is no HCA")
        ->option_text("NAME")
        ->check(known_profile());
    app.add_option("--json", options.common.json, "also write the result to this file, as JSON");
    return tools::run_command(
        &app, "[OPTIONS] [--] PROGRAM [ARGUMENT...]", argc - 1, argv + 1, [&](char** words) {
            if (*words != nullptr && std::string(*words) == "--") ++words;
            if (*words == nullptr) throw tools::UsageError("no program is named");
            if (!has_device(DeviceName(options.common.device).device))
                return run_on_own_device(options.common.device, options.common.profile, argv);
            check_profile(options.common.profile);
            for (; *words != nullptr; ++words) options.words.emplace_back(*words);
            if (options.name.empty()) options.name = line_of(options.words).substr(0, kMostName);
            return measure(options);
        });
}

}  // namespace bench
