// SPDX-License-Identifier: BSD-3-Clause
// The processes of a job on this machine.
#pragma once

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/descriptor.h"
#include "rwapi/bootstrap/pmi1_message.h"
#include "rwapi/run/pmi_server.h"

namespace rwapi {

using tools::Descriptor;

class Job {
  public:
    // keep_going: the end of a process does not end the others.
    Job(uint32_t size, bool keep_going);

    // Starts the processes, serves them until they have ended, and ends processes that they have
    // left. Returns the exit status of rwapi-run. Before it throws std::runtime_error, it ends all
    // processes.
    int run(char** command);

  private:
    struct Process {
        pid_t pid = 0;  // 0: not started, or it has ended
        Descriptor socket;
        LineBuffer received;
        std::string unsent;
    };

    // False: the command cannot be executed, and status_ is the exit status.
    bool start(uint32_t rank, char** command);
    [[noreturn]] void become(uint32_t rank, pid_t parent, int socket, int report, char** command);
    void serve();
    void on_signal();
    void reap();
    void on_end(uint32_t rank, int wait_status);
    void read_from(uint32_t rank);
    void apply(uint32_t rank, const PmiServer::Replies& replies);
    void send_unsent(Process* process);
    // Handles the failure of a process, which ends the others unless keep_going_ is set.
    void fail(uint32_t rank, int status, const std::string& how);
    void end_all();
    void signal_all(int signal);
    // Ends processes that the job's processes have started and not ended.
    void end_orphans();

    const bool keep_going_;
    PmiServer server_;
    std::vector<Process> processes_;
    Descriptor signals_;
    sigset_t inherited_mask_;
    rlimit inherited_limit_;
    const std::vector<pid_t> earlier_children_;  // of this process, before the job; sorted
    int status_ = 0;                             // the highest exit status so far
    std::optional<std::chrono::steady_clock::time_point> kill_at_;
    bool ending_ = false;
};

}  // namespace rwapi
