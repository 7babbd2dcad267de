// SPDX-License-Identifier: BSD-3-Clause
// Runs other programs, and waits for them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tools {

// Calls `child` in a new process, which must not return but execute a program or exit. The process
// has no standard input and, if `quiet`, no error output. Returns its exit status, or -1 if it was
// ended by a signal; *output gets its standard output.
int capture(const std::function<void()>& child, bool quiet, std::string* output);
// Executes a command quietly. Returns its exit status, and its standard output in *output.
int capture(const std::vector<std::string>& command, std::string* output);

// Calls `child` in a new process, which must not return but execute a program or exit, and waits
// for its end. Signals that ask this process to end go to the child, which dies with this process.
// Returns the exit status, as a shell has it: 128 and more after a signal.
int run_and_wait(const std::function<void()>& child);

}  // namespace tools
