// SPDX-License-Identifier: BSD-3-Clause
#include "common/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tern_config.h"

namespace tools {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitCannotExecute = 126;

// CLI11 2.1 has no setting for the usage line, and puts a blank before "[=VALUE]".
class Help : public CLI::Formatter {
  public:
    explicit Help(std::string synopsis) : synopsis_(std::move(synopsis)) {}

    std::string make_usage(const CLI::App* app, std::string) const override {
        return "Usage: " + app->get_name() + " " + synopsis_ + "\n";
    }

    std::string make_option_opts(const CLI::Option* option) const override {
        const std::string& text = option->get_option_text();
        return text.starts_with('[') ? text : Formatter::make_option_opts(option);
    }

  private:
    std::string synopsis_;
};

// CLI11 2.1 would use the next word as the value of "--option=".
void refuse_empty_values(std::span<char*> words) {
    for (const std::string_view word : words) {
        if (word.starts_with("--") && word.ends_with('=')) {
            throw UsageError("no value after '" + std::string(word) + "'");
        }
    }
}

// What every command has.
void add_common(CLI::App* app) {
    app->get_help_ptr()->description("print this help");
    app->set_version_flag("-V,--version", app->get_name() + " " PACKAGE_VERSION,
                          "print the version");
}

// Returns the words after the options. They are counted from the end of `argv`, because CLI11 may
// split the words that it returns.
char** parse(CLI::App* app, int argc, char** argv) {
    app->prefix_command();
    app->parse(argc, argv);
    const std::vector<std::string> rest = app->remaining();
    if (!rest.empty() && rest[0] != "--" && rest[0].size() > 1 && rest[0][0] == '-') {
        throw UsageError("no such option '" + rest[0] + "'");
    }
    char** words = argv + argc - app->remaining_size();
    refuse_empty_values({argv + 1, words});
    return words;
}

int fail(const CLI::App& app, const char* reason, int status) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), reason);
    if (status == kExitUsage) {
        std::fprintf(stderr, "Try '%s --help'.\n", app.get_name().c_str());
    }
    return status;
}

// The exit status after the output is flushed. Lost output is an error, because other programs read
// it.
int flushed(const CLI::App& app, int status) {
    if (status != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return status;
    return fail(app, std::strerror(errno), kExitFailure);
}

// Calls `body`, and prints the help or the error that it throws. Returns the exit status.
template <typename Body>
int guarded(CLI::App* app, Body&& body) {
    try {
        return body();
    } catch (const CLI::Success& request) {  // --help or --version
        return app->exit(request);
    } catch (const CLI::ParseError& error) {
        return fail(*app, error.what(), kExitUsage);
    } catch (const UsageError& error) {
        return fail(*app, error.what(), kExitUsage);
    } catch (const std::exception& error) {
        return fail(*app, error.what(), kExitFailure);
    }
}

}  // namespace

int run_command(CLI::App* app, const std::string& synopsis, int argc, char** argv,
                const std::function<int(char** words)>& act) {
    app->formatter(std::make_shared<Help>(synopsis));
    add_common(app);
    return guarded(app, [&] { return flushed(*app, act(parse(app, argc, argv))); });
}

int run_command(CLI::App* app, int argc, char** argv, const std::function<int()>& act) {
    add_common(app);
    return guarded(app, [&] {
        refuse_empty_values({argv + 1, argv + argc});
        app->parse(argc, argv);
        return flushed(*app, act());
    });
}

int become(char** command, std::string* error) {
    ::execvp(command[0], command);
    const int code = errno;
    *error = std::string(command[0]) + ": " + std::strerror(code);
    return code == ENOENT ? kExitNotFound : kExitCannotExecute;
}

}  // namespace tools
