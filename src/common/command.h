// SPDX-License-Identifier: BSD-3-Clause
// What commands share: options come before words, errors begin with the command's name, and a
// command can execute another one.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}

namespace tools {

// An invalid option, setting or argument.
class UsageError : public std::runtime_error {
    using runtime_error::runtime_error;
};

// Adds --help and --version, parses the options, and calls `act` with the words after them, which
// end with a null pointer. Prints the help, and the errors that parsing or `act` throws. `synopsis`
// follows the name in the usage line. Returns the exit status.
int run_command(CLI::App* app, const std::string& synopsis, int argc, char** argv,
                const std::function<int(char** words)>& act);

// Adds --help and --version, parses the options of a command that takes no other words, and calls
// `act`.
int run_command(CLI::App* app, int argc, char** argv, const std::function<int()>& act);

// Replaces this process by the command. Returns only on failure: the exit status, with the reason
// in *error.
int become(char** command, std::string* error);

constexpr int kExitNotFound = 127;  // returned by become() if there is no such command

}  // namespace tools
