// SPDX-License-Identifier: BSD-3-Clause
// The `tern-run` command: sets what a program needs to run over Tern, and becomes it.
#include <getopt.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "tern_config.h"
#include "tools/softhca_command/run_settings.h"
#include "tools/tern_run/environment.h"
#include "tools/tern_run/transport.h"

namespace tern {
namespace {

constexpr int kExitUsage = 2;

constexpr const char* kHelp =
    R"(Usage: tern-run [OPTION...] [--] COMMAND [ARGUMENT...]
Run a command, a program that uses UCX or one that starts such programs, over the transport tern.

  --soft-hca [PROFILE]  on the software HCA, with the timing of a profile; see 'softhca help run'
  -v, --verbose         print what is set, as NAME=value
  --version, --help

Works in front of mpirun, and behind it in front of the program; on several machines only behind it. What is
set already stays as it is: UCX_TLS, for example, which is tern,self otherwise.
)";

struct Request {
    bool soft_hca = false;
    softhca::SettingValues settings = {};
    bool verbose = false;
    bool help = false;
    bool version = false;
    char** command = nullptr;
};

size_t profile_index() {
    size_t index = 0;
    while (std::string_view(softhca::kSettings[index].name) != "SOFTHCA_PROFILE") ++index;
    return index;
}

std::optional<std::string> why_no_profile(const char* word) {
    softhca::Settings scratch;
    return softhca::kSettings[profile_index()].set(scratch, word);
}

/// Returns an error text, or nothing.
std::string parse_options(int argc, char** argv, Request* request) {
    const option options[] = {{"soft-hca", optional_argument, nullptr, 's'},
                              {"verbose", no_argument, nullptr, 'v'},
                              {"help", no_argument, nullptr, 'h'},
                              {"version", no_argument, nullptr, 'V'},
                              {}};
    opterr = 0;
    int choice;
    while ((choice = ::getopt_long(argc, argv, "+vhV", options, nullptr)) != -1) {
        switch (choice) {
            case 's':
                request->soft_hca = true;
                if (optarg != nullptr) {
                    if (const auto reason = why_no_profile(optarg)) {
                        return std::string("--soft-hca=") + optarg + ": " + *reason;
                    }
                } else if (optind < argc && !why_no_profile(argv[optind])) {
                    optarg = argv[optind++];  // a word behind it that is no profile is the command
                }
                request->settings[profile_index()] = optarg;
                break;
            case 'v':
                request->verbose = true;
                break;
            case 'h':
                request->help = true;
                break;
            case 'V':
                request->version = true;
                break;
            default:
                return std::string("no such option '") + argv[optind - 1] +
                       "'; choose from --soft-hca, --verbose, --version, --help";
        }
    }
    request->command = argv + optind;
    return {};
}

int failure(const std::string& text, int status) {
    std::fprintf(stderr, "tern-run: %s\n", text.c_str());
    if (status == kExitUsage) std::fputs("Try 'tern-run --help'.\n", stderr);
    return status;
}

int main_of(int argc, char** argv) {
    Request request;
    softhca::Settings settings;
    std::string error = parse_options(argc, argv, &request);
    if (error.empty() && request.soft_hca) {
        error = softhca::check_settings(request.settings, &settings);
    }
    if (!error.empty()) return failure(error, kExitUsage);
    if (request.help) {
        std::fputs(kHelp, stdout);
        return 0;
    }
    if (request.version) {
        std::printf("tern-run %s\n", PACKAGE_VERSION);
        return 0;
    }
    if (request.command[0] == nullptr) return failure("no command to run", kExitUsage);
    Transport transport;
    error = find_transport(&transport);
    if (error.empty() && request.soft_hca) error = softhca::export_settings(request.settings);
    if (!error.empty()) return failure(error, 1);
    Environment environment;
    if (request.soft_hca) set_up_one_machine(&environment);
    set_up_tern(&environment, transport.library, transport.plug_in);
    if (request.verbose) environment.print();
    const int status = softhca::become(request.command, &error);
    return failure(error, status);
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
    return tern::main_of(argc, argv);
}
