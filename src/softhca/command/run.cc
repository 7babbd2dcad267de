// SPDX-License-Identifier: BSD-3-Clause
// `softhca run` and `softhca env`: the environment of a command on the software HCA.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/library.h"
#include "softhca/command/command.h"
#include "softhca/fabric/segment.h"

namespace softhca {
namespace {

constexpr tools::Library kLibrary = {"libsofthca.so", "../softhca/.libs", SOFTHCA_LIBDIR};
constexpr const char* kPreload = "LD_PRELOAD";

using Variable = std::pair<const char*, std::string>;

// The variables for a command: settings that an option or the environment gives, LD_PRELOAD, and
// what lets programs with the address sanitizer start so.
std::vector<Variable> environment(const SettingValues& values) {
    std::vector<Variable> variables;
    for (size_t i = 0; i < kSettingCount; ++i) {
        const char* inherited = std::getenv(kSettings[i].name);
        if (values[i]) {
            variables.emplace_back(kSettings[i].name, *values[i]);
        } else if (inherited != nullptr && *inherited != '\0') {
            variables.emplace_back(kSettings[i].name, inherited);
        }
    }
    std::string error;
    const std::string library = tools::find_library(kLibrary, &error);
    if (library.empty()) throw std::runtime_error(error);
    const char* list = std::getenv(kPreload);
    variables.emplace_back(kPreload, tools::prepend_path(library, list != nullptr ? list : ""));
    const char* options = std::getenv(tools::kSanitizerOptions);
    variables.emplace_back(tools::kSanitizerOptions,
                           tools::allow_preloads(options != nullptr ? options : ""));
    return variables;
}

Settings choose_all(const SettingValues& values) {
    Settings settings;
    for (size_t i = 0; i < kSettingCount; ++i) choose(kSettings[i], values[i], &settings);
    return settings;
}

void print_settings(const Settings& settings) {
    for (const Setting& setting : kSettings) {
        const char* value = std::getenv(setting.name);
        const bool is_set = value != nullptr && *value != '\0';
        std::fprintf(stderr, "%s=%s\n", setting.name, is_set ? value : setting.fallback);
    }
    std::fprintf(stderr, "%s=%s\n", kPreload, std::getenv(kPreload));
    std::fprintf(stderr, "model: %s\n",
                 settings.nic.models_time() ? describe(settings.nic).c_str() : "none");
}

int become(char** command) {
    std::string error;
    const int status = tools::become(command, &error);
    std::fprintf(stderr, "softhca run: %s\n", error.c_str());
    return status;
}

volatile sig_atomic_t child_pid = 0;

void pass_on(int signal) {
    if (child_pid != 0) ::kill(static_cast<pid_t>(child_pid), signal);
}

int wait_for_child(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Runs the command while this process is in the fabric, and then prints a report.
int run_with_report(const Settings& settings, char** command) {
    std::string error;
    // While this process is a member, the fabric and the counters of ended processes remain.
    const auto segment = Segment::open(settings.fabric, fabric_config(settings), &error);
    if (segment == nullptr) throw std::runtime_error(error);
    if (segment->created() && !settings.faults.empty()) {
        apply_faults(settings.faults, segment->header().faults);
    }
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot start a process");
    if (pid == 0) ::_exit(become(command));
    child_pid = pid;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, pass_on);
    const int status = wait_for_child(pid);
    if (const auto view = FabricView::open(settings.fabric, &error)) {
        std::fputs(status_text(settings.fabric, *view).c_str(), stderr);
    }
    segment->leave();
    return status;
}

}  // namespace

void choose(const Setting& setting, const Value& value, Settings* settings) {
    const char* inherited = std::getenv(setting.name);
    const char* text = value ? value->c_str() : inherited;
    if (text == nullptr || *text == '\0') text = setting.fallback;
    if (const auto reason = setting.set(*settings, text)) {
        const std::string source = value ? "--" + option_name(setting) : setting.name;
        throw tools::UsageError(source + "=" + text + ": " + *reason);
    }
}

int run(const Options& options, char** command) {
    const Settings settings = choose_all(options.values);
    if (command[0] == nullptr) throw tools::UsageError("no command to run");
    for (const auto& [name, value] : environment(options.values)) {
        ::setenv(name, value.c_str(), 1);
    }
    if (options.verbose) print_settings(settings);
    return options.report ? run_with_report(settings, command) : become(command);
}

int print_environment(const SettingValues& values) {
    choose_all(values);
    for (auto& [name, value] : environment(values)) {
        // A shell would split words at blanks. No setting needs blanks, and LD_PRELOAD and
        // ASAN_OPTIONS may have colons instead.
        if (name == kPreload || name == tools::kSanitizerOptions)
            std::ranges::replace(value, ' ', ':');
        std::erase_if(value, [](unsigned char c) { return std::isspace(c); });
        std::printf("%s=%s\n", name, value.c_str());
    }
    return 0;
}

}  // namespace softhca
