// SPDX-License-Identifier: BSD-3-Clause
#include "bench/softhca-bench/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "bench/measure/clock.h"
#include "bench/measure/program.h"
#include "fabric/segment.h"

namespace softhca::bench {
namespace {

std::string fabric_name() {
    return "bench-" + std::to_string(::getpid());
}

std::vector<std::string> command_line(const Job& job, const Options& options, int row_fd) {
    std::vector<std::string> words;
    if (job.own_device) {
        words = {find_tool(), "run",     "--fabric", fabric_name(), "--profile",
                 job.profile, "--model", job.model,  "--"};
    }
    for (const std::string& word :
         {program_path(), std::string("--section"), job.section, std::string("--title"), job.title,
          std::string("--rounds"), std::to_string(options.rounds), std::string("--iterations"),
          std::to_string(options.iterations), std::string("--gid-index"),
          std::to_string(options.gid_index), std::string("--device"),
          job.own_device ? std::string() : options.device, std::string("--only"), options.only,
          std::string("--row-fd"), std::to_string(row_fd)}) {
        words.push_back(word);
    }
    return words;
}

/// A started command and the pipe that its rows come through. Ends with this object.
class Worker {
  public:
    Worker(const Job& job, const Options& options) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw call_failed("pipe");
        fd_ = ends[0];
        std::vector<std::string> words = command_line(job, options, ends[1]);
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        const pid_t parent = ::getpid();
        pid_ = ::fork();
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != parent) ::_exit(1);
            ::fcntl(ends[1], F_SETFD, 0);
            ::execv(arguments[0], arguments.data());
            ::_exit(127);
        }
        ::close(ends[1]);
        if (pid_ < 0) throw call_failed("fork");
    }
    ~Worker() {
        ::close(fd_);
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// The next row. False at the end.
    bool read(Row* row, uint64_t end) {
        for (;;) {
            pollfd ready{fd_, POLLIN, 0};
            const uint64_t now = now_ns();
            if (now >= end) throw Failure("took too long");
            const int got = ::poll(&ready, 1, static_cast<int>((end - now) / 1'000'000) + 1);
            if (got > 0) break;
            if (got < 0 && errno != EINTR) throw call_failed("poll");
        }
        // Rows are written at once and are shorter than what a pipe takes at once.
        const ssize_t got = ::read(fd_, row, sizeof *row);
        if (got != 0 && got != static_cast<ssize_t>(sizeof *row)) throw Failure("half a row");
        return got != 0;
    }
    /// After the last row. Whether it ended well.
    bool finish() {
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = 0;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }

  private:
    int fd_;
    pid_t pid_;
};
static_assert(sizeof(Row) <= PIPE_BUF);

/// Removes what the fabric of an own device leaves.
struct FabricCleaner {
    ~FabricCleaner() {
        std::string error;
        Segment::remove_if_unused(fabric_name(), &error);
    }
};

uint64_t time_limit_ns(const Options& options) {
    constexpr uint64_t kSecond = 1'000'000'000;
    return (60 + 20 * static_cast<uint64_t>(options.rounds)) * kSecond;
}

}  // namespace

std::string find_tool() {
    return program_beside("softhca");
}

std::vector<Row> run_job(const Job& job, const Options& options) {
    const FabricCleaner cleaner;
    Worker worker(job, options);
    const uint64_t end = now_ns() + time_limit_ns(options);
    std::vector<Row> rows;
    for (Row row; worker.read(&row, end);) rows.push_back(row);
    if (!worker.finish()) throw Failure(job.title + " could not be measured");
    return rows;
}

}  // namespace softhca::bench
