// SPDX-License-Identifier: BSD-3-Clause
// The subcommands of `softhca`.
#pragma once

#include <string>
#include <string_view>

namespace softhca {

constexpr int kExitUsage = 2;  ///< wrong option, setting or argument

/// A subcommand's main: argv[0] is its name. Returns the exit status.
using CommandMain = int (*)(int argc, char** argv);

int run_main(int argc, char** argv);
int status_main(int argc, char** argv);
int inject_main(int argc, char** argv);
int clean_main(int argc, char** argv);

/// Prints "softhca COMMAND: text" and how to get help; returns kExitUsage.
int usage_error(std::string_view command, std::string_view text);
/// What getopt_long() has just refused. `known` are the short options and the long ones'
/// characters.
std::string refused_option(char** argv, std::string_view known);
/// Prints "softhca COMMAND: text"; returns 1.
int failure(std::string_view command, std::string_view text);
/// Prints what --help of a subcommand says; returns 0.
int print_help(std::string_view command);

}  // namespace softhca
