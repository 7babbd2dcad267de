// SPDX-License-Identifier: BSD-3-Clause
// Helpers for the command lines of the benchmarks.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "inspect/inspect.h"

namespace bench {

constexpr int kExitUsage = 2;

// Returns nothing if the command line is right. Otherwise it has printed the help or an error, and
// returns the exit status of the program.
inline std::optional<int> parse_options(CLI::App& app, int argc, char** argv) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return 0;
    } catch (const CLI::ParseError& error) {
        const char* name = app.get_name().c_str();
        std::fprintf(stderr, "%s: %s\nTry '%s --help'.\n", name, error.what(), name);
        return kExitUsage;
    }
    return std::nullopt;
}

// Checks a profile of the software HCA, and a list of changes to its model.
inline std::string model_error(const std::string& profile, const std::string& changes) {
    softhca_inspect_model model;
    char error[256];
    const int status =
        softhca_inspect_find_model(profile.c_str(), changes.c_str(), &model, error, sizeof error);
    return status == 0 ? std::string() : error;
}
inline CLI::Validator known_profile() {
    return {[](std::string& name) { return model_error(name, ""); }, "PROFILE"};
}
inline CLI::Validator known_model() {
    return {[](std::string& changes) { return model_error("ideal", changes); }, "MODEL"};
}

}  // namespace bench
