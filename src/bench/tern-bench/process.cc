// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "bench/measure/clock.h"
#include "bench/measure/failure.h"
#include "bench/measure/program.h"

namespace bench {
namespace {

constexpr uint64_t kEndNs = 10'000'000'000;

std::vector<std::string> changed_environment(const Environment& changes) {
    std::vector<std::string> result;
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

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

}  // namespace

Descriptor::~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
}

std::pair<Descriptor, Descriptor> socket_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        throw call_failed("socketpair");
    }
    return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Process::Process(const std::vector<std::string>& words, const Environment& environment,
                 const std::vector<int>& descriptors) {
    std::vector<std::string> line = {program_path()};
    line.insert(line.end(), words.begin(), words.end());
    std::vector<std::string> variables = changed_environment(environment);
    const std::vector<char*> arguments = pointers(line);
    const std::vector<char*> environs = pointers(variables);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw call_failed("fork");
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    for (const int fd : descriptors) ::fcntl(fd, F_SETFD, 0);
    ::execve(arguments[0], arguments.data(), environs.data());
    ::_exit(127);
}

Process::~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

bool Process::finish() {
    const uint64_t end = now_ns() + kEndNs;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
        if (now_ns() > end) return false;
        ::usleep(1000);
    }
    pid_ = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace bench
