// SPDX-License-Identifier: BSD-3-Clause
// `tern-bench compare`, which is a script.
#include <CLI/CLI.hpp>
#include <string>

#include "bench/tern-bench/command.h"
#include "common/command.h"
#include "common/library.h"

int bench::run_compare(int argc, char** argv) {
    CLI::App app(
        "Says what differs between two results of the same measurements by more than their "
        "spread.\nExit status: 0: nothing; 4: something; 1: a file cannot be read.",
        "tern-bench compare");
    std::string before;
    std::string after;
    app.add_option("A", before, "the older result: a file of --json")->required();
    app.add_option("B", after, "the newer one")->required();
    return tools::run_command(&app, argc - 1, argv + 1, [&]() -> int {
        std::string error;
        std::string script = tools::find_library({"tern_results.py", "", TERN_LIBEXECDIR}, &error);
        if (script.empty()) throw Failure(error);
        char* command[] = {const_cast<char*>("python3"),
                           const_cast<char*>("-B"),
                           script.data(),
                           before.data(),
                           after.data(),
                           nullptr};
        tools::become(command, &error);
        throw Failure("there is no python3");
    });
}
