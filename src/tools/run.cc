// SPDX-License-Identifier: BSD-3-Clause
// `softhca run`: sets up the environment of the device and becomes the given command.
#include <getopt.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "command.h"
#include "library.h"
#include "run_report.h"
#include "settings.h"

namespace softhca {
namespace {

constexpr int kExitCannotExecute = 126;
constexpr int kExitNotFound = 127;

struct Request {
    std::array<const char*, kSettingCount> values = {};  ///< by setting; null: not given as option
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

/// Checks every setting, whether it comes from an option or from the environment, as the library
/// will.
std::string check(const Request& request, Settings* settings) {
    for (size_t i = 0; i < kSettingCount; ++i) {
        const char* given = request.values[i];
        const char* inherited = std::getenv(kSettings[i].name);
        const char* value = given != nullptr ? given : inherited;
        if (value == nullptr || *value == '\0') value = kSettings[i].fallback;
        if (const auto reason = kSettings[i].set(*settings, value)) {
            const std::string source = given != nullptr ? "--" + option_name(kSettings[i])
                                                        : std::string(kSettings[i].name);
            return source + "=" + value + ": " + *reason;
        }
    }
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
                 settings.nic.modelled() ? describe(settings.nic).c_str() : "none");
}

void set_environment(const Request& request, const std::string& library) {
    for (size_t i = 0; i < kSettingCount; ++i) {
        if (request.values[i] != nullptr) ::setenv(kSettings[i].name, request.values[i], 1);
    }
    const char* existing = std::getenv("LD_PRELOAD");
    ::setenv("LD_PRELOAD", prepend_preload(library, existing != nullptr ? existing : "").c_str(),
             1);
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
    if (const std::string error = check(request, &settings); !error.empty()) {
        return usage_error("run", error);
    }
    if (request.command[0] == nullptr) return usage_error("run", "no command to run");
    std::string error;
    const std::string library = find_library(&error);
    if (library.empty()) return failure("run", error);
    set_environment(request, library);
    if (request.verbose) print_environment(settings);
    return request.report ? run_with_report(settings, request.command) : become(request.command);
}

int become(char** command) {
    ::execvp(command[0], command);
    const int code = errno;
    failure("run", std::string(command[0]) + ": " + std::strerror(code));
    return code == ENOENT ? kExitNotFound : kExitCannotExecute;
}

}  // namespace softhca
