// SPDX-License-Identifier: BSD-3-Clause
// The command `tern-bench replay`.
#pragma once

namespace bench::replay {

constexpr const char* kCommand = "replay";

// Runs the command: argv[0] is the program, argv[1] kCommand. Returns the exit status.
int run_command(int argc, char** argv);

}  // namespace bench::replay
