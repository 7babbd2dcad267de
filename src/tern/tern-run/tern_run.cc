// SPDX-License-Identifier: BSD-3-Clause
// The `tern-run` command: sets the environment that a program needs to run over Tern, and executes
// the program.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/command.h"
#include "common/library.h"
#include "common/process.h"
#include "tern/tern-run/environment.h"
#include "tern/tern-run/explain.h"

namespace tern {
namespace {

constexpr const char* kWithoutValue = "true";  // the value that CLI11 gives an option without one

std::string profile_of(const std::string& option) {
    return option == kWithoutValue ? "" : option;
}

struct Options {
    std::string soft_hca;
    std::string explain;
    bool check = false;
    bool only = false;
    bool verbose = false;
};

// Executes the command. Returns its status only if it cannot be executed.
int execute(const Options& options, char** command) {
    std::string error;
    const int status = tools::become(command, &error);
    if (status == tools::kExitNotFound && !options.soft_hca.empty() && is_profile(command[0])) {
        error += std::string("; for the profile, write --soft-hca=") + command[0];
    }
    std::fprintf(stderr, "tern-run: %s\n", error.c_str());
    return status;
}

// All processes of --soft-hca are on one machine, where shared memory would leave Tern nothing.
bool leaves_out_shared_memory(const Options& options) {
    return options.only || !options.soft_hca.empty();
}

// The user has not asked for what --soft-hca does to UCX_TLS. Of the ranks of a job, one says it.
void say_what_is_left_out() {
    if (!is_first_rank()) return;
    std::fprintf(stderr,
                 "tern-run: --soft-hca: all ranks are on this machine, and use Tern in place of "
                 "shared memory: UCX_TLS=%s\n",
                 std::getenv("UCX_TLS"));
}

// The devices of --soft-hca are preloaded, so this program begins anew in that environment.
int run_check(const Options& options, char** words) {
    if (!options.soft_hca.empty()) {
        Environment environment;
        if (const int status = set_up_soft_hca(&environment, profile_of(options.soft_hca));
            status != 0)
            return status;
        std::string self = tools::program_path();
        std::string option = "--check";
        std::string only = "--only";
        char* command[] = {self.data(), option.data(), only.data(), words[0], nullptr};
        return execute({}, command);
    }
    return check(words[0] != nullptr ? words[0] : "", options.only);
}

int run_explained(const Options& options, bool plug_in, char** command) {
    const RecordFolder folder(options.explain == kWithoutValue ? "" : options.explain);
    ::setenv("TERN_EXPLAIN", folder.path().c_str(), 1);
    const int status = tools::run_and_wait([&] { ::_exit(execute(options, command)); });
    // Of the ranks of a job, the first one explains itself, and those that have not used Tern.
    bool first = true;
    const bool rank = is_rank(&first);
    if (rank && options.explain != kWithoutValue) return status;  // see run_report()
    report_job(read_records(folder.path()), plug_in, status,
               first ? Extent::kAll : Extent::kUnused);
    return status;
}

// Of a job whose ranks have left their records in a folder.
int run_report(const Options& options) {
    report_job(read_records(options.explain), Transport::load().plug_in, 0, Extent::kAll);
    return 0;
}

int run(const Options& options, char** command) {
    if (options.check) return run_check(options, command);
    const bool explains = !options.explain.empty();
    if (command[0] == nullptr) {
        if (explains && options.explain != kWithoutValue) return run_report(options);
        throw tools::UsageError("no command to run");
    }
    Environment environment;
    if (!options.soft_hca.empty()) {
        if (const int status = set_up_soft_hca(&environment, profile_of(options.soft_hca));
            status != 0)
            return status;
    }
    const bool says =
        !options.soft_hca.empty() && !options.only && std::getenv("UCX_TLS") == nullptr;
    const bool plug_in = set_up_tern(&environment, leaves_out_shared_memory(options));
    if (says) say_what_is_left_out();
    if (options.verbose) environment.print();
    // Within another --explain, that one reports.
    if (explains && std::getenv("TERN_EXPLAIN") == nullptr)
        return run_explained(options, plug_in, command);
    return execute(options, command);
}

int main_of(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Run a command, a program that uses UCX or one that starts such programs, over the "
        "transport tern.",
        "tern-run");
    app.add_flag("--soft-hca", options.soft_hca,
                 "on the software HCA, with the timing of a profile;\nsee 'softhca help run'")
        ->option_text("[=PROFILE]");
    app.add_flag("--only", options.only,
                 "without shared memory: Tern also carries the messages between\nprocesses of a "
                 "machine, as with --soft-hca");
    app.add_flag("--check", options.check,
                 "run nothing, but say whether Tern can be used here, and what\nto do if not; "
                 "COMMAND may name a program that is to be run");
    app.add_flag("--explain", options.explain,
                 "say at the end what Tern did, and where it was not used;\nFOLDER, on a file "
                 "system that all machines share, keeps the\nrecords of all ranks: "
                 "'tern-run --explain=FOLDER' reports then")
        ->option_text("[=FOLDER]");
    app.add_flag("-v,--verbose", options.verbose, "print what is set, as NAME=value");
    app.footer(
        "tern-run can start mpirun, or mpirun can start tern-run and the program; on several "
        "machines, only the\nlatter. Each program gets the transport for the release of its UCX; "
        "--check names the releases that there are.\nVariables that are set already are not "
        "changed, for example "
        "UCX_TLS, whose default here leaves tern,\nshared memory, self and the transports that "
        "know the memory of GPUs.");
    return tools::run_command(&app, "[OPTION...] [--] COMMAND [ARGUMENT...]", argc, argv,
                              [&](char** command) { return run(options, command); });
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
    return tern::main_of(argc, argv);
}
