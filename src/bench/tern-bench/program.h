// SPDX-License-Identifier: BSD-3-Clause
// The command of tern-bench that compares a program of the user over Tern and over stock UCX.
#pragma once

#include <optional>
#include <string>

namespace bench {

constexpr const char* kProgramCommand = "program";

// The command line from tern-bench on. Returns the exit status.
int run_program(int argc, char** argv);

// The number behind the last `text` of the output.
std::optional<double> number_behind(const std::string& output, const std::string& text);

}  // namespace bench
