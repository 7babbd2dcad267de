// SPDX-License-Identifier: BSD-3-Clause
// What commands do alike: options in front of words, errors behind the command's name, and becoming
// another command.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}

namespace tools {

// A wrong option, setting or argument.
class UsageError : public std::runtime_error {
    using runtime_error::runtime_error;
};

// Reads the options up to the first word that is none, and has `act` do its work with the words
// from there on, which end with a null pointer. Prints help, and the errors that either throws.
// `synopsis` is what follows the name in the line of usage. Returns the exit status.
int run_command(CLI::App* app, const std::string& synopsis, int argc, char** argv,
                const std::function<int(char** words)>& act);

// Reads the options of a command that has no words behind them. Returns nothing if they are right;
// otherwise help or an error has been printed, and the exit status of the command is returned.
std::optional<int> parse_options(CLI::App* app, int argc, char** argv);

// Becomes the command. Returns, with the exit status to give and the reason in *error, only when
// that is impossible.
int become(char** command, std::string* error);

constexpr int kExitNotFound = 127;  // of become()

}  // namespace tools
