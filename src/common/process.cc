// SPDX-License-Identifier: BSD-3-Clause
#include "common/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "common/command.h"

namespace tools {
namespace {

std::runtime_error fork_failed() {
    return std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
}

}  // namespace

int capture(const std::function<void()>& child, bool quiet, std::string* output) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw fork_failed();
    const pid_t pid = ::fork();
    if (pid < 0) throw fork_failed();
    if (pid == 0) {
        const int nothing = ::open("/dev/null", O_RDWR);
        ::dup2(nothing, STDIN_FILENO);
        if (quiet) ::dup2(nothing, STDERR_FILENO);
        ::dup2(ends[1], STDOUT_FILENO);
        ::fcntl(STDOUT_FILENO, F_SETFD, 0);  // dup2() does not clear it if both are the same
        child();
        ::_exit(kExitNotFound);
    }
    ::close(ends[1]);
    char some[4096];
    for (ssize_t n; (n = ::read(ends[0], some, sizeof some)) > 0;)
        output->append(some, static_cast<size_t>(n));
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int capture(const std::vector<std::string>& command, std::string* output) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    return capture([&] { ::execvp(words[0], words.data()); }, true, output);
}

int run_and_wait(const std::function<void()>& child) {
    sigset_t awaited;
    sigset_t before;
    sigemptyset(&awaited);
    for (const int signal : {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2})
        sigaddset(&awaited, signal);
    ::sigprocmask(SIG_BLOCK, &awaited, &before);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw fork_failed();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(128 + SIGKILL);
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        child();
        ::_exit(kExitNotFound);
    }
    for (;;) {
        siginfo_t signal{};
        if (::sigwaitinfo(&awaited, &signal) < 0) continue;
        // A terminal sends its signals to all processes of the group itself.
        if (signal.si_signo != SIGCHLD && signal.si_code != SI_KERNEL) ::kill(pid, signal.si_signo);
        int status = 0;
        if (::waitpid(pid, &status, WNOHANG) != pid) continue;
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

}  // namespace tools
