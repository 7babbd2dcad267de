// SPDX-License-Identifier: BSD-3-Clause
// The commands of tern-bench that read results: compare and report.
#pragma once

namespace bench {

constexpr const char* kCompareCommand = "compare";
constexpr const char* kReportCommand = "report";

// Their command lines, from tern-bench on. Return the exit status.
int run_compare(int argc, char** argv);
int run_report(int argc, char** argv);

}  // namespace bench
