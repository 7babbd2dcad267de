// SPDX-License-Identifier: BSD-3-Clause
// Processes that a benchmark starts, and software HCAs that it starts for itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using Environment = std::vector<std::pair<std::string, std::string>>;
using Words = std::vector<std::string>;

// A program in another process. It receives SIGTERM if this object or this process ends first, and
// is killed if that does not end it in some seconds.
class Process {
  public:
    // Runs the command. `environment` holds changes to the environment of this process; a variable
    // with an empty value is removed. Output and errors go to the descriptor `output`; -1: to the
    // streams of this process. No signal is blocked in the program, and it has no input.
    explicit Process(Words command, const Environment& environment = {}, int output = -1);
    ~Process();
    Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
    Process& operator=(Process&&) = delete;

    pid_t pid() const { return pid_; }
    // Waits for the end of the process. Returns the exit status, 1 after a signal, or nothing if it
    // still runs after the time.
    std::optional<int> wait_for(uint64_t ns);
    // Waits without a time limit.
    int wait();

  private:
    pid_t pid_ = 0;
};

// The name of a fabric of the software HCA that only this benchmark uses. The destructor removes
// the files of the fabric.
class OwnFabric {
  public:
    // The name begins with `program`. Throws Failure if there is no `softhca` command.
    explicit OwnFabric(const std::string& program);
    ~OwnFabric();
    OwnFabric(const OwnFabric&) = delete;
    OwnFabric& operator=(const OwnFabric&) = delete;

    const std::string& name() const { return name_; }
    // The words to put before a command that is to run on this fabric. `settings` holds options of
    // `softhca run`; the environment decides about all other settings.
    Words launcher(const Words& settings) const;

  private:
    std::string name_;
    std::string tool_;
};

// Call if there is no device. Throws Failure if the benchmark must not start a software HCA: the
// user named a device, or a software HCA is preloaded already.
void may_make_device(const std::string& asked_for);

}  // namespace bench
