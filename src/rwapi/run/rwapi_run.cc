// SPDX-License-Identifier: BSD-3-Clause
// The `rwapi-run` command: starts the processes of a job on this machine.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/command.h"
#include "rwapi/run/job.h"

namespace rwapi {
namespace {

void set_variable(const std::string& word) {
    const size_t end = word.find('=');
    if (end == 0) throw tools::UsageError("-x " + word + ": no name");
    // Users of mpirun write -x VAR for a variable to be passed on. Here all variables are
    // inherited.
    if (end == std::string::npos) return;
    ::setenv(word.substr(0, end).c_str(), word.substr(end + 1).c_str(), 1);
}

// Users write -np, but CLI11 has no options with several letters after one dash.
void allow_np(int argc, char** argv) {
    static char count[] = "-n";
    for (int i = 1; i < argc && argv[i][0] == '-'; ++i) {
        const std::string_view word = argv[i];
        if (word == "--") return;
        if (word == "-np") argv[i] = count;
        if (word == "-np" || word == "-n" || word == "-x") ++i;
    }
}

int main_of(int argc, char** argv) {
    uint32_t size = 1;
    bool keep_going = false;
    std::vector<std::string> variables;
    CLI::App app(
        "Start processes on this machine as one job of rwapi, or of another PMI-1 program.",
        "rwapi-run");
    app.add_option("-n", size, "(or -np) the number of processes; default 1")
        ->check(CLI::Range(1, 4096))
        ->option_text("N");
    app.add_option("-x", variables, "set a variable for the processes; may be repeated")
        ->option_text("VAR=value")
        ->allow_extra_args(false);
    app.add_flag("--keep-going", keep_going, "when a process fails, do not end the others");
    app.footer(
        "The first process inherits the standard input. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 "
        "and SIGUSR2\nare passed on. The exit status is the highest one of the processes, where a "
        "signal "
        "counts as 128 more than its\nnumber; processes that rwapi-run has ended do not count. All "
        "processes end with rwapi-run.");
    allow_np(argc, argv);
    return tools::run_command(&app, "[OPTION...] [--] PROGRAM [ARGUMENT...]", argc, argv,
                              [&](char** command) {
                                  if (command[0] == nullptr) {
                                      throw tools::UsageError("no program to run");
                                  }
                                  for (const std::string& word : variables) set_variable(word);
                                  return Job(size, keep_going).run(command);
                              });
}

}  // namespace
}  // namespace rwapi

int main(int argc, char** argv) {
    return rwapi::main_of(argc, argv);
}
