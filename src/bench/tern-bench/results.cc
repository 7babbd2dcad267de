// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/results.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/measure/machine.h"
#include "bench/report/figure.h"
#include "bench/results/compare.h"
#include "bench/series/interrupt.h"
#include "common/command.h"
#include "common/library.h"
#include "common/process.h"

namespace bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StoredFigure, test, name, unit, x_text, x, median, p10, p90,
                                   paper, late_share, rounds, doubts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StoredResult, file, command, commit, date, machine, device, ucx,
                                   profile, slow, rounds, incomplete, figures)

namespace {

constexpr int kExitChanged = 4;

// The paths of what may be results, in the order of their names.
std::vector<std::string> results_in(const std::string& folder) {
    std::vector<std::string> paths;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        if (entry->path().extension() == ".json") paths.push_back(entry->path().string());
    }
    if (error) throw report::Failure(folder + ": " + error.message());
    std::ranges::sort(paths);
    return paths;
}

// For report.py: a missing number is null.
std::string page_data(const std::vector<StoredResult>& results,
                      const std::vector<std::string>& left_out) {
    nlohmann::json data = {{"results", results}, {"left_out", left_out}};
    for (size_t i = 0; i < results.size(); ++i) {
        for (size_t j = 0; j < results[i].figures.size(); ++j) {
            const Better which = better(results[i], results[i].figures[j]);
            data["results"][i]["figures"][j]["better"] = which == Better::kLess   ? "less"
                                                         : which == Better::kMore ? "more"
                                                                                  : "";
        }
    }
    // Names of files are not always UTF-8.
    return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Returns the exit status of report.py, which says why if it fails.
int make_page(const std::string& data, std::string* page) {
    std::string error;
    const std::string script = tools::find_library({"tern-report", "", TERN_LIBEXECDIR}, &error);
    if (script.empty()) throw report::Failure(error);
    const MemoryFile file(data);
    const std::string input = file.path();
    const int status = tools::capture(
        [&] { ::execlp("python3", "python3", script.c_str(), input.c_str(), nullptr); }, false,
        page);
    if (status == tools::kExitNotFound)
        throw report::Failure(
            "there is no python3: install Debian's python3-jinja2 and python3-matplotlib");
    if (status < 0) throw report::Failure("python3 was ended by a signal while it made the page");
    return status;
}

}  // namespace

int run_compare(int argc, char** argv) {
    CLI::App app(
        "Says what differs between two results of the same measurements by more than their "
        "spread.\nExit status: 0: nothing; 4: something; 1: a file cannot be read.",
        "tern-bench compare");
    std::string before;
    std::string after;
    app.add_option("A", before, "the older result: a file of --json")->required();
    app.add_option("B", after, "the newer one")->required();
    return tools::run_command(&app, argc - 1, argv + 1, [&] {
        const Comparison comparison = compare(read_result(before), read_result(after));
        std::fputs(comparison.text.c_str(), stdout);
        if (comparison.compared == 0)
            throw report::Failure("the files have no measurement in common");
        return comparison.changed == 0 ? 0 : kExitChanged;
    });
}

int run_report(int argc, char** argv) {
    CLI::App app(
        "Makes a page of HTML from the results in a folder: ratios, charts and tables. It needs no "
        "other file.\nPython draws it: python3-jinja2 and python3-matplotlib must be installed.\n"
        "Exit status: 0: made; 3: made, but some file is no result; 1: a failure.",
        "tern-bench report");
    std::string folder;
    std::string output;
    app.add_option("FOLDER", folder, "where the files of --json are: *.json")->required();
    app.add_option("--output", output, "the page [FOLDER/report.html]")->option_text("FILE");
    return tools::run_command(&app, argc - 1, argv + 1, [&] {
        std::vector<StoredResult> results;
        std::vector<std::string> left_out;
        for (const std::string& path : results_in(folder)) {
            try {
                results.push_back(read_result(path));
            } catch (const report::Failure& failure) {
                std::fprintf(stderr, "left out: %s\n", failure.what());
                left_out.emplace_back(failure.what());
            }
        }
        if (results.empty()) throw report::Failure("there is no result in " + folder);
        if (output.empty()) output = folder + "/report.html";
        std::string page;
        if (const int status = make_page(page_data(results, left_out), &page); status != 0)
            return status;
        report::write_file(output, page);
        std::printf("%s: made from %zu results\n", output.c_str(), results.size());
        return left_out.empty() ? 0 : kExitIncomplete;
    });
}

}  // namespace bench
