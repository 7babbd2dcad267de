// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/run/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "common/command.h"

namespace rwapi {
namespace {

using std::chrono::steady_clock;

// The time between SIGTERM and SIGKILL.
constexpr std::chrono::seconds kGrace(2);
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
// Variables of other launchers, which would mislead the libraries of the processes.
constexpr const char* kOtherLaunchers[] = {"PMI_PORT", "PMI_ID", "PMIX_NAMESPACE", "PMIX_RANK"};

std::runtime_error call_failed(const char* call) {
    return std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

// Sorted.
std::vector<pid_t> children() {
    std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    std::vector<pid_t> pids;
    for (pid_t pid; list >> pid;) pids.push_back(pid);
    std::ranges::sort(pids);
    return pids;
}

}  // namespace

Job::Job(uint32_t size, bool keep_going)
    : keep_going_(keep_going), server_(size), processes_(size), earlier_children_(children()) {
    // If SIGCHLD is ignored, which a parent may have set, the kernel does not report ends.
    std::signal(SIGCHLD, SIG_DFL);
    // Each process of the job needs a descriptor.
    ::getrlimit(RLIMIT_NOFILE, &inherited_limit_);
    const rlimit limit{inherited_limit_.rlim_max, inherited_limit_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    sigset_t handled;
    ::sigemptyset(&handled);
    ::sigaddset(&handled, SIGCHLD);
    for (const int signal : kForwarded) ::sigaddset(&handled, signal);
    ::sigprocmask(SIG_BLOCK, &handled, &inherited_mask_);
    signals_ = Descriptor(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
    if (signals_.get() < 0) throw call_failed("signalfd");
    // Processes whose parent ends become children of this process, which can then end them.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int Job::run(char** command) {
    try {
        bool started = true;
        for (uint32_t rank = 0; started && rank < processes_.size(); ++rank) {
            started = start(rank, command);
        }
        if (!started) end_all();
        serve();
    } catch (const std::exception&) {
        signal_all(SIGKILL);
        end_orphans();
        throw;
    }
    end_orphans();
    return status_;
}

bool Job::start(uint32_t rank, char** command) {
    int sockets[2], report[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        throw call_failed("socketpair");
    }
    Descriptor mine(sockets[0]), theirs(sockets[1]);
    if (::pipe2(report, O_CLOEXEC) != 0) throw call_failed("pipe");
    Descriptor reads(report[0]), writes(report[1]);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw call_failed("fork");
    if (pid == 0) become(rank, parent, theirs.get(), writes.get(), command);
    processes_[rank].pid = pid;
    ::fcntl(mine.get(), F_SETFL, O_NONBLOCK);
    processes_[rank].socket = std::move(mine);
    writes = Descriptor();
    // It closes when the command is executed.
    int status = 0;
    if (::read(reads.get(), &status, sizeof status) <= 0) return true;
    status_ = status;
    return false;
}

void Job::become(uint32_t rank, pid_t parent, int socket, int report, char** command) {
    ::setrlimit(RLIMIT_NOFILE, &inherited_limit_);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::sigprocmask(SIG_SETMASK, &inherited_mask_, nullptr);
    ::fcntl(socket, F_SETFD, 0);
    for (const char* name : kOtherLaunchers) ::unsetenv(name);
    ::setenv("PMI_FD", std::to_string(socket).c_str(), 1);
    ::setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("PMI_SIZE", std::to_string(processes_.size()).c_str(), 1);
    if (rank != 0) {
        ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
        ::fcntl(STDIN_FILENO, F_SETFD, 0);  // open() itself returns it if it was closed
    }
    std::string error;
    const int status = tools::become(command, &error);
    std::fprintf(stderr, "rwapi-run: %s\n", error.c_str());
    [[maybe_unused]] const ssize_t written = ::write(report, &status, sizeof status);
    ::_exit(status);
}

void Job::serve() {
    const auto runs = [](const Process& process) { return process.pid != 0; };
    while (std::ranges::any_of(processes_, runs)) {
        std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}};
        for (const Process& process : processes_) {
            // A process that does not read its answers gets no new ones.
            const short events = process.unsent.empty() ? POLLIN : POLLOUT;
            polled.push_back({process.socket.get(), events, 0});
        }
        int timeout = -1;
        if (kill_at_) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - steady_clock::now());
            timeout = static_cast<int>(std::max<int64_t>(left.count(), 0));
        }
        if (::poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) {
            throw call_failed("poll");
        }
        if (kill_at_ && steady_clock::now() >= *kill_at_) {
            signal_all(SIGKILL);
            kill_at_.reset();
        }
        for (uint32_t rank = 0; rank < processes_.size(); ++rank) {
            const short events = polled[rank + 1].revents;
            if (events & POLLOUT) {
                send_unsent(&processes_[rank]);
            } else if (events != 0) {
                read_from(rank);
            }
        }
        if (polled[0].revents != 0) on_signal();
    }
}

void Job::on_signal() {
    bool ended = false;
    for (signalfd_siginfo signal; ::read(signals_.get(), &signal, sizeof signal) > 0;) {
        if (signal.ssi_signo == SIGCHLD) {
            ended = true;
        } else if (signal.ssi_code != SI_KERNEL) {
            // A terminal sends its signals to all processes of the group itself.
            signal_all(static_cast<int>(signal.ssi_signo));
        }
    }
    if (ended) reap();
}

void Job::reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        const auto found = std::ranges::find(processes_, pid, &Process::pid);
        if (found == processes_.end()) continue;  // an orphan
        on_end(static_cast<uint32_t>(found - processes_.begin()), status);
    }
}

void Job::on_end(uint32_t rank, int wait_status) {
    processes_[rank].pid = 0;
    read_from(rank);  // it may have left the job before it ended
    processes_[rank].socket = Descriptor();
    if (WIFSIGNALED(wait_status)) {
        const int signal = WTERMSIG(wait_status);
        fail(rank, 128 + signal, std::string("was ended by a signal: ") + ::strsignal(signal));
    } else if (const int status = WEXITSTATUS(wait_status); status != 0) {
        fail(rank, status, "has ended with status " + std::to_string(status));
    } else if (server_.is_in_job(rank)) {
        fail(rank, 1, "has ended without leaving the job (rwapi_finalize, MPI_Finalize)");
    }
    apply(rank, server_.end(rank));
}

void Job::read_from(uint32_t rank) {
    Process& process = processes_[rank];
    char some[4096];
    while (process.socket.get() >= 0 && process.unsent.empty()) {
        const ssize_t n = ::read(process.socket.get(), some, sizeof some);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        const bool too_long = n > 0 && !process.received.append({some, static_cast<size_t>(n)});
        if (too_long)
            std::fprintf(stderr, "rwapi-run: process %u sent a line that is too long\n", rank);
        if (n <= 0 || too_long) {
            process.socket = Descriptor();
            return;
        }
        for (std::optional<std::string> line;
             process.socket.get() >= 0 && (line = process.received.next());) {
            apply(rank, server_.take(rank, *line));
        }
    }
}

void Job::apply(uint32_t rank, const PmiServer::Replies& replies) {
    for (const auto& [to, line] : replies.lines) {
        processes_[to].unsent += line + "\n";
        send_unsent(&processes_[to]);
    }
    if (!replies.error.empty()) {
        std::fprintf(stderr, "rwapi-run: process %u: %s\n", rank, replies.error.c_str());
        processes_[rank].socket = Descriptor();  // the end of the connection is its error
    }
    if (replies.abort) fail(rank, *replies.abort, "has aborted the job");
}

void Job::send_unsent(Process* process) {
    std::string& bytes = process->unsent;
    while (!bytes.empty()) {
        const ssize_t n = ::send(process->socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        bytes.erase(0, n < 0 ? bytes.size() : static_cast<size_t>(n));
    }
}

void Job::fail(uint32_t rank, int status, const std::string& how) {
    if (ending_) return;  // rwapi-run itself has ended the process
    std::fprintf(stderr, "rwapi-run: process %u %s\n", rank, how.c_str());
    status_ = std::max(status_, status);
    if (!keep_going_) end_all();
}

void Job::end_all() {
    ending_ = true;
    signal_all(SIGTERM);
    signal_all(SIGCONT);
    kill_at_ = steady_clock::now() + kGrace;
}

void Job::signal_all(int signal) {
    for (const Process& process : processes_) {
        if (process.pid != 0) ::kill(process.pid, signal);
    }
}

void Job::end_orphans() {
    // The end of a process may leave others.
    const auto orphans = [this] {
        std::vector<pid_t> pids;
        std::ranges::set_difference(children(), earlier_children_, std::back_inserter(pids));
        return pids;
    };
    for (auto pids = orphans(); !pids.empty(); pids = orphans()) {
        for (const pid_t pid : pids) {
            ::kill(pid, SIGKILL);
            while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
            }
        }
    }
}

}  // namespace rwapi
