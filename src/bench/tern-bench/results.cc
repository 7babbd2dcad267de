// SPDX-License-Identifier: BSD-3-Clause
// The commands of tern-bench that read results, compare and report, which are a script.
#include <CLI/CLI.hpp>
#include <vector>

#include "bench/tern-bench/command.h"
#include "common/command.h"
#include "common/library.h"

namespace bench {
namespace {

// Executes the script in the place of this process. Throws Failure.
int become_script(Words words) {
    std::string error;
    const std::string script =
        tools::find_library({"tern_results.py", "", TERN_LIBEXECDIR}, &error);
    if (script.empty()) throw Failure(error);
    words.insert(words.begin(), {"python3", "-B", script});
    std::vector<char*> command;
    for (std::string& word : words) command.push_back(word.data());
    command.push_back(nullptr);
    tools::become(command.data(), &error);
    throw Failure(
        "there is no python3: install Debian's python3-jinja2 and python3-matplotlib, which report "
        "needs");
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
        return become_script({"compare", before, after});
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
        return become_script({"report", folder, output.empty() ? folder + "/report.html" : output});
    });
}

}  // namespace bench
