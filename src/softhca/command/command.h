// SPDX-License-Identifier: BSD-3-Clause
// The subcommands of `softhca` after their options are parsed. Each returns the exit status, and
// throws on failure.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "common/command.h"
#include "softhca/inspect/fabric_view.h"
#include "softhca/settings.h"

namespace softhca {

// The value of an option. Nothing: the variable of the environment is used, or the default.
using Value = std::optional<std::string>;
using SettingValues = std::array<Value, kSettingCount>;

// Sets a setting as the library does. Throws UsageError.
void choose(const Setting& setting, const Value& value, Settings* settings);

// Those of all subcommands.
struct Options {
    SettingValues values;
    Value fabric;
    bool verbose = false;
    bool report = false;
    bool json = false;
};

int run(const Options& options, char** command);
int print_environment(const SettingValues& values);

// What `softhca status` prints of a fabric.
std::string status_text(const std::string& name, FabricView& fabric);
std::string status_json(const std::string& name, FabricView& fabric);

int show_status(const Value& fabric, bool json);
int inject(const Value& fabric, const std::string& faults);
int clean(const Value& fabric);

}  // namespace softhca
