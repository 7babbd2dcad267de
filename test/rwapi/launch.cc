// SPDX-License-Identifier: BSD-3-Clause
// Starts the processes of a job on this machine, and serves them what rwapi needs of PMI-1. For
// tests: after a death, other launchers end the survivors. Like MPICH's, it refuses a process that
// breaks the protocol or does not leave the job. Exits with the worst status of a process, where a
// signal counts as 128 more than its number.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rwapi/bootstrap/pmi1_message.h"

namespace {

struct Process {
    pid_t pid = 0;
    int socket = -1;
    rwapi::LineBuffer received;
    bool entered = false, in_barrier = false, ended = false;
};

class Job {
  public:
    Job(size_t size, bool keep_going) : keep_going_(keep_going), processes_(size) {}

    int run(char** command) {
        for (size_t rank = 0; rank < processes_.size(); ++rank) start(rank, command);
        while (std::ranges::any_of(processes_, [](const Process& each) { return !each.ended; }))
            serve();
        return status_;
    }

  private:
    void start(size_t rank, char** command) {
        int sockets[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) std::abort();
        const pid_t pid = ::fork();
        if (pid < 0) std::abort();
        if (pid == 0) become(rank, sockets[1], command);
        ::close(sockets[1]);
        processes_[rank].pid = pid;
        processes_[rank].socket = sockets[0];
    }

    [[noreturn]] void become(size_t rank, int socket, char** command) const {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::fcntl(socket, F_SETFD, 0);
        ::setenv("PMI_FD", std::to_string(socket).c_str(), 1);
        ::setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
        ::setenv("PMI_SIZE", std::to_string(processes_.size()).c_str(), 1);
        ::execvp(command[0], command);
        std::perror(command[0]);
        ::_exit(127);
    }

    void serve() {
        std::vector<pollfd> polled;
        for (const Process& each : processes_) polled.push_back({each.socket, POLLIN, 0});
        if (::poll(polled.data(), polled.size(), -1) < 0) std::abort();
        for (size_t rank = 0; rank < processes_.size(); ++rank)
            if (polled[rank].revents != 0) read_from(rank);
    }

    void read_from(size_t rank) {
        char some[4096];
        const ssize_t n = ::read(processes_[rank].socket, some, sizeof some);
        if (n <= 0) return on_end(rank);
        processes_[rank].received.append({some, static_cast<size_t>(n)});
        while (const auto line = processes_[rank].received.next()) take(rank, *line);
    }

    void take(size_t rank, const std::string& line) {
        const auto message = rwapi::Pmi1Message::parse(line);
        const std::string command(message ? message->command() : "");
        const std::string key(message ? message->text("key").value_or("") : "");
        if (command == "init") {
            processes_[rank].entered = true;
            answer(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
        } else if (command == "get_maxes") {
            answer(rank, "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024");
        } else if (command == "get_my_kvsname") {
            answer(rank, "cmd=my_kvsname kvsname=job");
        } else if (command == "put") {
            const std::string value(message->text("value").value_or(""));
            const bool is_new = values_.emplace(key, value).second;
            answer(rank, std::string("cmd=put_result rc=") + (is_new ? "0" : "-1"));
        } else if (command == "get") {
            const auto found = values_.find(key);
            answer(rank, found != values_.end() ? "cmd=get_result rc=0 value=" + found->second
                                                : "cmd=get_result rc=-1 value=unknown");
        } else if (command == "barrier_in") {
            processes_[rank].in_barrier = true;
            end_barrier_if_over();
        } else if (command == "finalize") {
            processes_[rank].entered = false;
            answer(rank, "cmd=finalize_ack rc=0");
        } else {
            fail(rank, 1, "sent what is not PMI-1: " + line);
        }
    }

    void answer(size_t rank, const std::string& text) const {
        const std::string line = text + "\n";
        (void)!::send(processes_[rank].socket, line.data(), line.size(), MSG_NOSIGNAL);
    }

    // It ends when all that live are in it, and fails if any has ended.
    void end_barrier_if_over() {
        const bool over = std::ranges::all_of(
            processes_, [](const Process& each) { return each.in_barrier || each.ended; });
        if (!over) return;
        const bool whole = std::ranges::none_of(processes_, &Process::ended);
        for (size_t rank = 0; rank < processes_.size(); ++rank) {
            if (processes_[rank].ended) continue;
            processes_[rank].in_barrier = false;
            answer(rank, whole ? "cmd=barrier_out rc=0" : "cmd=barrier_out rc=-1");
        }
    }

    // The end of the connection is that of the process.
    void on_end(size_t rank) {
        Process& process = processes_[rank];
        ::close(process.socket);
        process.socket = -1;
        process.ended = true;
        int status = 0;
        ::waitpid(process.pid, &status, 0);
        if (WIFSIGNALED(status)) {
            const int signal = WTERMSIG(status);
            fail(rank, 128 + signal, std::string("was ended by a signal: ") + ::strsignal(signal));
        } else if (WEXITSTATUS(status) != 0) {
            fail(rank, WEXITSTATUS(status),
                 "has ended with status " + std::to_string(WEXITSTATUS(status)));
        } else if (process.entered) {
            fail(rank, 1, "has ended without leaving the job");
        }
        end_barrier_if_over();
    }

    void fail(size_t rank, int status, const std::string& how) {
        if (ending_) return;
        std::fprintf(stderr, "rwapi-launch: process %zu %s\n", rank, how.c_str());
        status_ = std::max(status_, status);
        if (keep_going_) return;
        ending_ = true;
        for (const Process& each : processes_)
            if (!each.ended) ::kill(each.pid, SIGKILL);
    }

    const bool keep_going_;
    bool ending_ = false;
    int status_ = 0;
    std::vector<Process> processes_;
    std::map<std::string, std::string> values_;
};

}  // namespace

// rwapi-launch [--keep-going] -np N PROGRAM...
int main(int argc, char** argv) {
    int next = 1;
    const bool keep_going = next < argc && std::strcmp(argv[next], "--keep-going") == 0;
    if (keep_going) ++next;
    const bool valid = argc > next + 2 && std::strcmp(argv[next], "-np") == 0;
    const int size = valid ? std::atoi(argv[next + 1]) : 0;
    if (size < 1) {
        std::fprintf(stderr, "Usage: rwapi-launch [--keep-going] -np N PROGRAM...\n");
        return 2;
    }
    return Job(static_cast<size_t>(size), keep_going).run(argv + next + 2);
}
