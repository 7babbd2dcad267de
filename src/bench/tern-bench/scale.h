// SPDX-License-Identifier: BSD-3-Clause
// `tern-bench scale`: connections and blocks of a process with many peers, simulated.
#pragma once

namespace bench::scale {

constexpr const char* kCommand = "scale";

int run_command(int argc, char** argv);

}  // namespace bench::scale
