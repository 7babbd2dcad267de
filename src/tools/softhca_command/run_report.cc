// SPDX-License-Identifier: BSD-3-Clause
#include "tools/softhca_command/run_report.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "fabric/segment.h"
#include "tools/softhca_command/command.h"
#include "tools/softhca_command/report.h"
#include "tools/softhca_command/run_settings.h"

namespace softhca {

namespace {

volatile sig_atomic_t child_pid = 0;

void pass_on(int signal) {
    if (child_pid != 0) {
        ::kill(static_cast<pid_t>(child_pid), signal);
    }
}

int wait_for_child(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int run_with_report(const Settings& settings, char** command) {
    std::string error;
    // Being in it keeps the fabric, and with it the counters of processes that have ended.
    const auto segment = Segment::open(settings.fabric, Segment::Mode::join_or_create,
                                       fabric_config(settings), &error);
    if (segment == nullptr) return failure("run", error);
    if (segment->created() && !settings.faults.empty()) {
        apply_faults(settings.faults, segment->header().faults);
    }
    const pid_t pid = ::fork();
    if (pid < 0) return failure("run", "cannot start a process");
    if (pid == 0) {
        const int status = become(command, &error);
        failure("run", error);
        ::_exit(status);
    }
    child_pid = pid;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, pass_on);
    const int status = wait_for_child(pid);
    if (const auto view = FabricView::open(settings.fabric, &error)) {
        std::fputs(as_text(make_report(settings.fabric, view.get())).c_str(), stderr);
    }
    segment->leave();
    return status;
}

}  // namespace softhca
