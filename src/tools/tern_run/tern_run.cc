// SPDX-License-Identifier: BSD-3-Clause
// The `tern-run` command: sets the environment that a program needs to run over Tern, and executes
// the program.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tools/common/command.h"
#include "tools/tern_run/environment.h"

namespace tern {
namespace {

constexpr const char* kWithoutValue = "true";  // the value that CLI11 gives an option without one

int run(const std::string& soft_hca, bool verbose, char** command) {
    if (command[0] == nullptr) throw tools::UsageError("no command to run");
    Environment environment;
    if (!soft_hca.empty()) {
        const std::string profile = soft_hca == kWithoutValue ? "" : soft_hca;
        if (const int status = set_up_soft_hca(&environment, profile); status != 0) return status;
    }
    set_up_tern(&environment);
    if (verbose) environment.print();
    std::string error;
    const int status = tools::become(command, &error);
    if (status == tools::kExitNotFound && !soft_hca.empty() && is_profile(command[0])) {
        error += std::string("; for the profile, write --soft-hca=") + command[0];
    }
    std::fprintf(stderr, "tern-run: %s\n", error.c_str());
    return status;
}

int main_of(int argc, char** argv) {
    std::string soft_hca;
    bool verbose = false;
    CLI::App app(
        "Run a command, a program that uses UCX or one that starts such programs, over the "
        "transport tern.",
        "tern-run");
    app.add_flag("--soft-hca", soft_hca,
                 "on the software HCA, with the timing of a profile;\nsee 'softhca help run'")
        ->option_text("[=PROFILE]");
    app.add_flag("-v,--verbose", verbose, "print what is set, as NAME=value");
    app.footer(
        "tern-run can start mpirun, or mpirun can start tern-run and the program; on several "
        "machines, only the\nlatter. Variables that are set already are not changed, for example "
        "UCX_TLS, whose default here leaves tern,\nself and the transports that know the memory of "
        "GPUs.");
    return tools::run_command(&app, "[OPTION...] [--] COMMAND [ARGUMENT...]", argc, argv,
                              [&](char** command) { return run(soft_hca, verbose, command); });
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
    return tern::main_of(argc, argv);
}
