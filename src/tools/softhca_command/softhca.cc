// SPDX-License-Identifier: BSD-3-Clause
// The `softhca` command: runs programs on the software HCA and looks after its fabrics.
#include <getopt.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "core/faults.h"
#include "settings.h"
#include "tools/softhca_command/command.h"

#ifdef HAVE_CONFIG_H
#include "tern_config.h"
#endif
#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

namespace softhca {
namespace {

struct Command {
    const char* name;
    const char* synopsis;
    const char* summary;
    CommandMain main;
};

constexpr Command kCommands[] = {
    {"run", "[OPTION...] [--] COMMAND [ARGUMENT...]", "run a command on the software HCA",
     run_main},
    {"status", "[--fabric NAME] [--json]",
     "show a fabric: devices, processes, objects, counters, lateness", status_main},
    {"inject", "[--fabric NAME] FAULT[,FAULT...]", "make something go wrong in a running fabric",
     inject_main},
    {"clean", "[--fabric NAME]", "remove what dead processes left behind", clean_main},
};

const Command* find_command(std::string_view name) {
    for (const Command& command : kCommands) {
        if (name == command.name) return &command;
    }
    return nullptr;
}

std::string command_names() {
    std::string text;
    for (const Command& command : kCommands) text.append(command.name).append(", ");
    return text + "help";
}

void print_overview() {
    std::printf("Usage: softhca COMMAND [ARGUMENT...]\n\n");
    for (const Command& command : kCommands)
        std::printf("  %-8s %s\n", command.name, command.summary);
    std::printf("  %-8s help on a command, on 'settings' (a table in Markdown) or on 'faults'\n\n",
                "help");
    std::printf("  --version, --help\n");
}

void print_settings_options() {
    std::printf("\nOptions (each may also be set by its variable):\n");
    for (const Setting& setting : kSettings) {
        std::printf("  --%-12s %s\n", option_name(setting).c_str(), setting.help);
        std::printf("  %-14s %s [%s=%s]\n", "", setting.choices, setting.name, setting.fallback);
    }
    std::printf("  %-14s when the command has ended, print what `status` would\n", "--report");
    std::printf("  %-14s print what is set, and the model\n", "-v, --verbose");
    std::printf("\nSee 'softhca help faults' for the faults.\n");
}

void print_faults() {
    const std::string help = faults_help();
    for (size_t begin = 0; begin < help.size();) {
        const size_t tab = help.find('\t', begin);
        const size_t end = help.find('\n', tab);
        std::printf("  %-26s %s\n", help.substr(begin, tab - begin).c_str(),
                    help.substr(tab + 1, end - tab - 1).c_str());
        begin = end + 1;
    }
}

int help_main(std::string_view topic) {
    if (topic.empty()) {
        print_overview();
        return 0;
    }
    if (topic == "settings") {
        std::fputs(settings_table().c_str(), stdout);
        return 0;
    }
    if (topic == "faults") {
        print_faults();
        return 0;
    }
    if (find_command(topic) != nullptr) return print_help(topic);
    return usage_error("help", "no help on '" + std::string(topic) + "'; choose from " +
                                   command_names() + ", settings, faults");
}

int main_of(int argc, char** argv) {
    const std::string_view name = argc > 1 ? argv[1] : "";
    const char* topic = argc > 2 ? argv[2] : "";
    if (name == "--version" || name == "-V") {
        std::printf("softhca %s\n", PACKAGE_VERSION);
        return 0;
    }
    if (name == "help" || name == "--help" || name == "-h") return help_main(topic);
    if (name.empty()) return usage_error("", "no command given; choose from " + command_names());
    const Command* command = find_command(name);
    if (command != nullptr) return command->main(argc - 1, argv + 1);
    return usage_error(
        "", "no such command '" + std::string(name) + "'; choose from " + command_names());
}

void print_error(std::string_view command, std::string_view text) {
    std::fprintf(stderr, "softhca%s%.*s: %.*s\n", command.empty() ? "" : " ",
                 static_cast<int>(command.size()), command.data(), static_cast<int>(text.size()),
                 text.data());
}

}  // namespace

int usage_error(std::string_view command, std::string_view text) {
    print_error(command, text);
    std::fprintf(stderr, "Try 'softhca help%s%.*s'.\n",
                 command.empty() || command == "help" ? "" : " ",
                 command == "help" ? 0 : static_cast<int>(command.size()), command.data());
    return kExitUsage;
}

std::string refused_option(char** argv, std::string_view known) {
    // Only of an unknown letter among joined short options is argv[optind - 1] not the culprit.
    const bool letter =
        optopt > ' ' && known.find(static_cast<char>(optopt)) == std::string_view::npos;
    return letter ? std::string("-") + static_cast<char>(optopt) : argv[optind - 1];
}

int failure(std::string_view command, std::string_view text) {
    print_error(command, text);
    return 1;
}

int print_help(std::string_view name) {
    const Command* command = find_command(name);
    std::printf("Usage: softhca %s %s\n%s\n", command->name, command->synopsis, command->summary);
    if (name == "run") print_settings_options();
    if (name == "inject") {
        std::printf("\nFaults:\n");
        print_faults();
    }
    return 0;
}

}  // namespace softhca

int main(int argc, char** argv) {
    return softhca::main_of(argc, argv);
}
