// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bench/measure/clock.h"
#include "softhca/inspect/inspect.h"
#include "tools/common/library.h"

namespace bench {
namespace {

constexpr uint64_t kEndNs = 10'000'000'000;
constexpr uint64_t kGraceNs = 5'000'000'000;  // between a signal and SIGKILL

// Of a process that has ended, by its status for waitpid().
int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

Words changed_environment(const Environment& changes) {
    Words result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const std::string name = text.substr(0, text.find('='));
        const bool kept =
            std::ranges::none_of(changes, [&](const auto& change) { return change.first == name; });
        if (kept) result.push_back(text);
    }
    for (const auto& [name, value] : changes) {
        if (!value.empty()) result.push_back(name + "=" + value);
    }
    return result;
}

std::vector<char*> pointers(Words& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

// In the new process.
void connect(const Streams& streams) {
    if (streams.input >= 0) ::dup2(streams.input, STDIN_FILENO);
    if (streams.output < 0) return;
    ::dup2(streams.output, STDOUT_FILENO);
    ::dup2(streams.output, STDERR_FILENO);
}

}  // namespace

Process::Process(Words command, const Environment& environment, const std::vector<int>& descriptors,
                 int at_end, const Streams& streams)
    : at_end_(at_end) {
    Words variables = changed_environment(environment);
    const std::vector<char*> arguments = pointers(command);
    const std::vector<char*> environs = pointers(variables);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw call_failed("fork");
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, at_end);
    if (::getppid() != parent) ::_exit(1);
    for (const int fd : descriptors) ::fcntl(fd, F_SETFD, 0);
    connect(streams);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(arguments[0], arguments.data(), environs.data());
    ::_exit(127);
}

Process::~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, at_end_);
    if (at_end_ != SIGKILL && wait_for(kGraceNs)) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

bool Process::finish() {
    return wait_for(kEndNs) == 0;
}

std::optional<int> Process::wait_for(uint64_t ns) {
    const uint64_t end = now_ns() + ns;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
        if (now_ns() > end) return std::nullopt;
        ::usleep(1000);
    }
    pid_ = 0;
    return exit_status(status);
}

int Process::wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return exit_status(status);
}

OwnFabric::OwnFabric(const std::string& program)
    : name_(program + "-" + std::to_string(::getpid())),
      tool_(tools::program_folder() + "/softhca") {
    if (::access(tool_.c_str(), X_OK) != 0) {
        throw Failure("there is no HCA, and no softhca command beside this program to make one");
    }
}

OwnFabric::~OwnFabric() {
    softhca_inspect_remove(name_.c_str(), nullptr, 0);
}

Words OwnFabric::launcher(const Words& settings) const {
    Words words = {tool_, "run", "--fabric", name_};
    words.insert(words.end(), settings.begin(), settings.end());
    words.emplace_back("--");
    return words;
}

void may_make_device(const std::string& asked_for) {
    if (!asked_for.empty()) throw Failure("no such device: " + asked_for);
    const char* preloads = std::getenv("LD_PRELOAD");
    if (preloads != nullptr && std::strstr(preloads, "libsofthca") != nullptr) {
        throw Failure("there is no device, though the software HCA is preloaded");
    }
}

}  // namespace bench
