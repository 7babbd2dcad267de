// SPDX-License-Identifier: BSD-3-Clause
// What commands that run others on the software HCA set.
#pragma once

#include <array>
#include <string>

#include "settings.h"

namespace softhca {

/// A value for every setting; null: none given, so that the environment decides.
using SettingValues = std::array<const char*, kSettingCount>;

/// Checks every setting, given or of the environment, as the library will. Returns an error text,
/// or nothing.
std::string check_settings(const SettingValues& values, Settings* settings);

/// Sets the variables of the values, and LD_PRELOAD. Returns an error text, or nothing.
std::string export_settings(const SettingValues& values);

/// Becomes the command. Returns, with the exit status to give and the reason in *error, only when
/// that is impossible.
int become(char** command, std::string* error);

}  // namespace softhca
