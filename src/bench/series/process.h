// SPDX-License-Identifier: BSD-3-Clause
// The processes that a benchmark starts, and software HCAs of its own.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace bench {

using Environment = std::vector<std::pair<std::string, std::string>>;
using Words = std::vector<std::string>;

// A program in another process; never outlives this object, nor this process.
class Process {
  public:
    // Runs the command in this environment changed by `environment`, in which a variable without a
    // value is not set. The descriptors stay open in it under the same numbers. `at_end` is the
    // signal that it gets when this process ends before it.
    explicit Process(Words command, const Environment& environment = {},
                     const std::vector<int>& descriptors = {}, int at_end = SIGKILL);
    ~Process();
    Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
    Process& operator=(Process&&) = delete;

    pid_t pid() const { return pid_; }
    // Waits for its end, but not for ever. Whether it ended well.
    bool finish();
    // Waits for its end. Its exit status, or 1 if a signal ended it.
    int wait();

  private:
    pid_t pid_ = 0;
};

// A fabric of the software HCA for this process and those that it starts, which nobody else is on;
// removed with this object.
class OwnFabric {
  public:
    // `program` is for its name. Throws Failure if there is no `softhca` command.
    explicit OwnFabric(const std::string& program);
    ~OwnFabric();
    OwnFabric(const OwnFabric&) = delete;
    OwnFabric& operator=(const OwnFabric&) = delete;

    const std::string& name() const { return name_; }
    // What stands before a command that is to run on it. Empty: as the environment has it.
    Words launcher(const std::string& profile, const std::string& model) const;

  private:
    std::string name_;
    std::string tool_;
};

// Throws Failure where there ought to be a device without one of our own: the user asked for a
// certain one, or the software HCA is preloaded.
void may_make_device(const std::string& asked_for);

}  // namespace bench
