// SPDX-License-Identifier: BSD-3-Clause
// What the command lines of the benchmarks have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "inspect/inspect.h"

namespace bench {

constexpr int kExitUsage = 2;

// Nothing, or the exit status with which the program ends now: the help was asked for, or the
// command line is wrong, which has been said then.
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

// What the software HCA does not know is refused: a profile, or a list of changes to one.
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
