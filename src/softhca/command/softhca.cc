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
    void (*add)(CLI::App* app, Options* options);
    int (*run)(const Options& options, char** words);
};

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

int help(const Options&, char** words);

constexpr Command kCommands[] = {
    {"run", "[OPTION...] [--] COMMAND [ARGUMENT...]", "run a command on the software HCA",
     [](CLI::App* app, Options* options) {
         add_settings(app, &options->values);
         app->add_flag("--report", options->report,
                       "when the command has ended, print what 'softhca status' would");
         app->add_flag("-v,--verbose", options->verbose, "print what is set, and the model");
     },
     run},
    {"env", "[OPTION...]", "print the variables that 'softhca run' would set, as NAME=value",
     [](CLI::App* app, Options* options) { add_settings(app, &options->values); },
     [](const Options& options, char** words) {
         refuse_words(words);
         return print_environment(options.values);
     }},
    {"status", "[OPTION...]", "show a fabric: devices, processes, objects, counters, lateness",
     [](CLI::App* app, Options* options) {
         add_fabric(app, &options->fabric);
         app->add_flag("--json", options->json, "print JSON");
     },
     [](const Options& options, char** words) {
         refuse_words(words);
         return show_status(options.fabric, options.json);
     }},
    {"inject", "[OPTION...] FAULT[,FAULT...]", "inject faults into a running fabric",
     [](CLI::App* app, Options* options) {
         add_fabric(app, &options->fabric);
         app->footer("Faults:\n" + faults_help());
     },
     [](const Options& options, char** words) {
         if (words[0] == nullptr) throw tools::UsageError("no faults given");
         std::string list = words[0];
         while (*++words != nullptr) list.append(",").append(*words);
         return inject(options.fabric, list);
     }},
    {"clean", "[OPTION...]", "remove fabrics that only dead processes have used",
     [](CLI::App* app, Options* options) {
         add_value(app, "fabric", "NAME", "the fabric; otherwise all of this user",
                   &options->fabric);
     },
     [](const Options& options, char** words) {
         refuse_words(words);
         return clean(options.fabric);
     }},
    {"help", "[COMMAND | settings | personalities | faults]",
     "help on a command, on 'settings' or 'personalities' (tables in Markdown) or on 'faults'",
     [](CLI::App*, Options*) {}, help},
};

const Command& find_command(std::string_view name) {
    for (const Command& command : kCommands)
        if (name == command.name) return command;
    const std::string names = softhca::joined(kCommands, &Command::name);
    throw tools::UsageError(name.empty() ? "no command given; choose from " + names
                                         : "no such command '" + std::string(name) +
                                               "'; choose from " + names);
}

int main_of(const Command& command, int argc, char** argv) {
    CLI::App app(command.summary, std::string("softhca ") + command.name);
    Options options;
    command.add(&app, &options);
    return tools::run_command(&app, command.synopsis, argc, argv,
                              [&](char** words) { return command.run(options, words); });
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
        return main_of(find_command(words[0] != nullptr ? words[0] : ""),
                       static_cast<int>(argv + argc - words), words);
    });
}

std::optional<std::string> topic_text(std::string_view topic) {
    if (topic == "faults") return faults_help();
    if (topic == "settings") return settings_table();
    if (topic == "personalities") return personality_table();
    return std::nullopt;
}

int help(const Options&, char** words) {
    const std::string_view topic = words[0] != nullptr ? words[0] : "";
    if (const auto text = topic_text(topic)) {
        std::fputs(text->c_str(), stdout);
        return 0;
    }
    char name[] = "softhca", option[] = "--help";
    char* arguments[] = {name, option, nullptr};
    return topic.empty() ? main_of(2, arguments) : main_of(find_command(topic), 2, arguments);
}

}  // namespace
}  // namespace softhca

int main(int argc, char** argv) {
    return softhca::main_of(argc, argv);
}
