// SPDX-License-Identifier: BSD-3-Clause
// The settings of the device: every SOFTHCA_* variable of the environment, its default, its choices
// and its value.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/nic_model.h"
#include "fabric/layout.h"

namespace softhca {

enum class Executor { inline_, thread };

struct Settings {
    static constexpr size_t kMaxFabricName = 64;

    std::string fabric = "default";
    unsigned devices = 1;
    unsigned ports = 1;
    LinkLayer link_layer = LinkLayer::infiniband;
    Executor executor = Executor::inline_;
    std::string profile = "ideal";
    NicParameters nic = {};  ///< the profile with the overrides of SOFTHCA_MODEL applied
    std::string faults;      ///< checked; for apply_faults(); empty where the variable is not set
    bool shared = true;      ///< SOFTHCA_SHARED: copy directly where memory is shared already
};

/// One variable. The command's option is the name without its prefix, in small letters, '-' for
/// '_'.
struct Setting {
    const char* name;
    const char* fallback;
    const char* choices;
    const char* help;
    /// Sets the value. Returns why it cannot be, naming the choices.
    std::optional<std::string> (*set)(Settings& settings, std::string_view value);
};

/// In the order in which they must be set: the model refines the profile.
constexpr size_t kSettingCount = 9;
extern const std::array<Setting, kSettingCount> kSettings;

/// "--link-layer" for SOFTHCA_LINK_LAYER, without the dashes.
std::string option_name(const Setting& setting);
/// The table of the settings in Markdown.
std::string settings_table();

/// Fills `settings` from variables; an unset or empty variable means its default. Returns an error
/// text that names the variable, its value and the choices.
std::optional<std::string> parse_settings(
    Settings& settings, const std::function<const char*(const char*)>& get_variable);

/// What a process with these settings wants a new fabric to be.
FabricConfig fabric_config(const Settings& settings);

}  // namespace softhca
