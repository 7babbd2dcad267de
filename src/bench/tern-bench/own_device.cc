// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/own_device.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/measure/failure.h"
#include "bench/measure/program.h"
#include "fabric/segment.h"

namespace bench {
namespace {

bool preloaded() {
    const char* list = std::getenv("LD_PRELOAD");
    return list != nullptr && std::strstr(list, "libsofthca") != nullptr;
}

}  // namespace

int run_on_own_device(const std::string& asked_for, const std::string& profile, char** argv) {
    if (!asked_for.empty()) throw Failure("no such device: " + asked_for);
    if (preloaded()) throw Failure("there is no device, though the software HCA is preloaded");
    const std::string tool = program_beside("softhca");
    if (tool.empty()) {
        throw Failure("there is no HCA, and no softhca command beside this program to make one");
    }
    const std::string fabric = "tern-bench-" + std::to_string(::getpid());
    std::vector<std::string> words = {tool, "run", "--fabric", fabric};
    if (!profile.empty()) words.insert(words.end(), {"--profile", profile});
    words.insert(words.end(), {"--", program_path()});
    for (char** word = argv + 1; *word != nullptr; ++word) words.emplace_back(*word);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw call_failed("fork");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (::getppid() != parent) ::_exit(1);
        ::execv(arguments[0], arguments.data());
        ::_exit(127);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    std::string ignored;
    softhca::Segment::remove_if_unused(fabric, &ignored);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace bench
