// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "bench/measure/clock.h"
#include "common/library.h"
#include "softhca/inspect/inspect.h"

namespace bench {
namespace {

constexpr uint64_t kGraceNs = 5'000'000'000;  // between SIGTERM and SIGKILL

std::atomic<uint32_t> fabrics = 0;  // that this process has made

// Of a process that has ended, by its status for waitpid().
int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// In the new process.
void connect(int output) {
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    if (output < 0) return;
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
}

}  // namespace

Process::Process(Words command, const Environment& environment, int output) {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw call_failed("fork");
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    connect(output);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const auto& [name, value] : environment)
        value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(words[0], words.data());
    ::_exit(127);
}

Process::~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    if (wait_for(kGraceNs)) return;
    ::kill(pid_, SIGKILL);
    wait();
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
    : name_(program + "-" + std::to_string(::getpid()) + "." + std::to_string(++fabrics)),
      tool_(tools::program_folder() + "/softhca") {
    if (::access(tool_.c_str(), X_OK) != 0)
        throw Failure("there is no HCA, and no softhca command beside this program to make one");
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
    if (preloads != nullptr && std::strstr(preloads, "libsofthca") != nullptr)
        throw Failure("there is no device, though the software HCA is preloaded");
}

}  // namespace bench
