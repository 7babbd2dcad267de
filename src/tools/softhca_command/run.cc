// SPDX-License-Identifier: BSD-3-Clause
// `softhca run`: sets up the environment of the device and becomes the given command.
#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "settings.h"
#include "tools/softhca_command/command.h"
#include "tools/softhca_command/run_report.h"
#include "tools/softhca_command/run_settings.h"

namespace softhca {
namespace {

struct Request {
    SettingValues values = {};
    bool verbose = false;
    bool report = false;
    bool help = false;
    char** command = nullptr;
};

std::string option_list() {
    std::string text;
    for (const Setting& setting : kSettings) text += "--" + option_name(setting) + ", ";
    return text + "--report, -v, --help";
}

/// Returns an error text, or nothing.
std::string parse_options(int argc, char** argv, Request* request) {
    std::vector<std::string> names;
    names.reserve(kSettingCount);
    for (const Setting& setting : kSettings) names.push_back(option_name(setting));
    // Options of settings return their index, all others a character.
    std::vector<option> options;
    for (size_t i = 0; i < names.size(); ++i) {
        options.push_back({names[i].c_str(), required_argument, nullptr, static_cast<int>(i)});
    }
    options.push_back({"verbose", no_argument, nullptr, 'v'});
    options.push_back({"report", no_argument, nullptr, 'r'});
    options.push_back({"help", no_argument, nullptr, 'h'});
    options.push_back({});
    opterr = 0;
    int choice;
    while ((choice = ::getopt_long(argc, argv, "+:vh", options.data(), nullptr)) != -1) {
        if (choice == 'v') {
            request->verbose = true;
        } else if (choice == 'r') {
            request->report = true;
        } else if (choice == 'h') {
            request->help = true;
        } else if (choice == ':') {
            return std::string("option '") + argv[optind - 1] + "' needs a value";
        } else if (choice == '?') {
            return "no such option '" + refused_option(argv, "vh") + "'; choose from " +
                   option_list();
        } else {
            request->values[static_cast<size_t>(choice)] = optarg;
        }
    }
    request->command = argv + optind;
    return {};
}

void print_environment(const Settings& settings) {
    for (const Setting& setting : kSettings) {
        const char* value = std::getenv(setting.name);
        const bool is_set = value != nullptr && *value != '\0';
        std::fprintf(stderr, "%s=%s\n", setting.name, is_set ? value : setting.fallback);
    }
    std::fprintf(stderr, "LD_PRELOAD=%s\n", std::getenv("LD_PRELOAD"));
    std::fprintf(stderr, "model: %s\n",
                 settings.nic.models_time() ? describe(settings.nic).c_str() : "none");
}

}  // namespace

int run_main(int argc, char** argv) {
    Request request;
    request.command = argv + argc;
    if (const std::string error = parse_options(argc, argv, &request); !error.empty()) {
        return usage_error("run", error);
    }
    if (request.help) return print_help("run");
    Settings settings;
    if (const std::string error = check_settings(request.values, &settings); !error.empty()) {
        return usage_error("run", error);
    }
    if (request.command[0] == nullptr) return usage_error("run", "no command to run");
    if (const std::string error = export_settings(request.values); !error.empty()) {
        return failure("run", error);
    }
    if (request.verbose) print_environment(settings);
    if (request.report) return run_with_report(settings, request.command);
    std::string error;
    const int status = become(request.command, &error);
    failure("run", error);
    return status;
}

}  // namespace softhca
