// SPDX-License-Identifier: BSD-3-Clause
// Helpers for the command lines of the benchmarks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "softhca/inspect/inspect.h"

namespace bench {

// An option whose value is a list in one word: "--name A,B".
template <typename List>
CLI::Option* add_list(CLI::App& app, const std::string& name, List& list, char delimiter,
                      const std::string& help) {
    return app.add_option(name, list, help)
        ->delimiter(delimiter)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

inline CLI::Option* add_gid_index(CLI::App& app, int* index, const std::string& help) {
    return app.add_option("--gid-index", *index, help)
        ->check(CLI::Range(0, 255))
        ->capture_default_str();
}

// Checks a profile of the software HCA, and a list of changes to its model.
inline std::string model_error(const std::string& profile, const std::string& changes) {
    softhca_inspect_model model;
    char error[1024];
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
