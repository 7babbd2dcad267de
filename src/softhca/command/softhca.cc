// SPDX-License-Identifier: BSD-3-Clause
// The `softhca` command: its subcommands with their options, and its help.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <string_view>

#include "softhca/command/command.h"
#include "softhca/core/faults.h"
#include "softhca/core/text.h"

namespace softhca {
namespace {

struct Command {
    const char* name;
    const char* synopsis;
    const char* summary;
    int (*main)(const Command& self, int argc, char** argv);
};

CLI::App make_app(const Command& command) {
    return CLI::App(command.summary, std::string("softhca ") + command.name);
}

void add_value(CLI::App* app, const std::string& name, const char* type, const std::string& help,
               Value* value) {
    // A function option, because CLI11 would treat an empty value as a missing one.
    app->add_option_function<std::string>(
           "--" + name, [value](const std::string& text) { *value = text; }, help)
        ->take_last()
        ->type_name(type)
        ->option_text(type);
}

void add_settings(CLI::App* app, SettingValues* values) {
    for (size_t i = 0; i < kSettingCount; ++i) {
        const Setting& setting = kSettings[i];
        const std::string variable = std::string(setting.name) + "=" + setting.fallback;
        add_value(app, option_name(setting), "VALUE",
                  std::string(setting.help) + "\n" + setting.choices + " [" + variable + "]",
                  &(*values)[i]);
    }
    app->footer(
        "An option overrides its variable, which is in brackets with its default.\n"
        "See 'softhca help faults' for the faults, and 'softhca help personalities' for the "
        "rules.");
}

void add_fabric(CLI::App* app, Value* fabric) {
    add_value(app, "fabric", "NAME",
              "the fabric; otherwise that of SOFTHCA_FABRIC, otherwise 'default'", fabric);
}

void refuse_words(char** words) {
    if (words[0] != nullptr) throw tools::UsageError(std::string("unexpected '") + words[0] + "'");
}

int run_main(const Command& self, int argc, char** argv) {
    RunOptions options;
    CLI::App app = make_app(self);
    add_settings(&app, &options.values);
    app.add_flag("--report", options.report,
                 "when the command has ended, print what 'softhca status' would");
    app.add_flag("-v,--verbose", options.verbose, "print what is set, and the model");
    return tools::run_command(&app, self.synopsis, argc, argv,
                              [&](char** words) { return run(options, words); });
}

int env_main(const Command& self, int argc, char** argv) {
    SettingValues values;
    CLI::App app = make_app(self);
    add_settings(&app, &values);
    return tools::run_command(&app, self.synopsis, argc, argv, [&](char** words) {
        refuse_words(words);
        return print_environment(values);
    });
}

int status_main(const Command& self, int argc, char** argv) {
    Value fabric;
    bool json = false;
    CLI::App app = make_app(self);
    add_fabric(&app, &fabric);
    app.add_flag("--json", json, "print JSON");
    return tools::run_command(&app, self.synopsis, argc, argv, [&](char** words) {
        refuse_words(words);
        return show_status(fabric, json);
    });
}

int inject_main(const Command& self, int argc, char** argv) {
    Value fabric;
    CLI::App app = make_app(self);
    add_fabric(&app, &fabric);
    app.footer("Faults:\n" + faults_help());
    return tools::run_command(&app, self.synopsis, argc, argv, [&](char** words) {
        if (words[0] == nullptr) throw tools::UsageError("no faults given");
        std::string list = words[0];
        while (*++words != nullptr) list.append(",").append(*words);
        return inject(fabric, list);
    });
}

int clean_main(const Command& self, int argc, char** argv) {
    Value fabric;
    CLI::App app = make_app(self);
    add_value(&app, "fabric", "NAME", "the fabric; otherwise all of this user", &fabric);
    return tools::run_command(&app, self.synopsis, argc, argv, [&](char** words) {
        refuse_words(words);
        return clean(fabric);
    });
}

int help_main(const Command& self, int argc, char** argv);

constexpr Command kCommands[] = {
    {"run", "[OPTION...] [--] COMMAND [ARGUMENT...]", "run a command on the software HCA",
     run_main},
    {"env", "[OPTION...]", "print the variables that 'softhca run' would set, as NAME=value",
     env_main},
    {"status", "[OPTION...]", "show a fabric: devices, processes, objects, counters, lateness",
     status_main},
    {"inject", "[OPTION...] FAULT[,FAULT...]", "inject faults into a running fabric", inject_main},
    {"clean", "[OPTION...]", "remove fabrics that only dead processes have used", clean_main},
    {"help", "[COMMAND | settings | personalities | faults]",
     "help on a command, on 'settings' or 'personalities' (tables in Markdown) or on 'faults'",
     help_main},
};

const Command& find_command(std::string_view name) {
    for (const Command& command : kCommands)
        if (name == command.name) return command;
    const std::string names = softhca::joined(kCommands, &Command::name);
    throw tools::UsageError(name.empty() ? "no command given; choose from " + names
                                         : "no such command '" + std::string(name) +
                                               "'; choose from " + names);
}

int main_of(int argc, char** argv) {
    CLI::App app("Run programs on the software HCA, and inspect or change its fabrics.", "softhca");
    std::string commands = "Commands:";
    for (const Command& command : kCommands) {
        std::string name = command.name;
        name.resize(8, ' ');
        commands += "\n  " + name + " " + command.summary;
    }
    app.footer(commands);
    return tools::run_command(&app, "COMMAND [ARGUMENT...]", argc, argv, [&](char** words) {
        const Command& command = find_command(words[0] != nullptr ? words[0] : "");
        return command.main(command, static_cast<int>(argv + argc - words), words);
    });
}

std::optional<std::string> topic_text(std::string_view topic) {
    if (topic == "faults") return faults_help();
    if (topic == "settings") return settings_table();
    if (topic == "personalities") return personality_table();
    return std::nullopt;
}

int help_main(const Command& self, int argc, char** argv) {
    CLI::App app = make_app(self);
    return tools::run_command(&app, self.synopsis, argc, argv, [&](char** words) {
        const std::string_view topic = words[0] != nullptr ? words[0] : "";
        if (const auto text = topic_text(topic)) {
            std::fputs(text->c_str(), stdout);
            return 0;
        }
        char help[] = "--help";
        char* arguments[] = {argv[0], help, nullptr};
        if (topic.empty()) return main_of(2, arguments);
        const Command& command = find_command(topic);
        return command.main(command, 2, arguments);
    });
}

}  // namespace
}  // namespace softhca

int main(int argc, char** argv) {
    return softhca::main_of(argc, argv);
}
