// SPDX-License-Identifier: BSD-3-Clause
// The settings of the device: each SOFTHCA_* variable of the environment, its default, choices and
// value.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "softhca/core/nic_parameters.h"
#include "softhca/core/personality.h"
#include "softhca/fabric/layout.h"

namespace softhca {

enum class Executor { kInline, kThread };

struct Settings {
    static constexpr size_t kMaxFabricName = 64;
    static_assert(kMaxFabricName < NodePorts::kNameBytes);

    std::string fabric = "default";
    unsigned devices = 1;
    unsigned ports = 1;
    std::string personality_name = "default";
    Personality personality = {};  // the named one, with the changes of SOFTHCA_RULES
    LinkLayer link_layer = LinkLayer::kInfiniband;
    bool own_addresses = false;
    bool subnets = false;  // port 1 and port 2 are in different ones
    Executor executor = Executor::kInline;
    std::string profile = "ideal";
    NicParameters nic = {};  // the profile, with the changes of SOFTHCA_MODEL, slowed
    std::string adapter_personality = "default";  // of the adapter that is modeled, and its rules
    std::string node;   // whose processes share ports in the model; empty: none do
    unsigned slow = 1;  // how many times as slow
    bool virtual_time = false;
    std::string faults;  // in the syntax of apply_faults(), checked; empty: none
    bool shared = true;  // copy directly where memory is shared already
};

// One variable. The command's option is the name without its prefix, in lower case, with '-' for
// '_'.
struct Setting {
    const char* name;
    const char* fallback;
    const char* choices;
    const char* help;
    // Sets the value. If the value is wrong, returns a text that names the choices.
    std::optional<std::string> (*set)(Settings& settings, std::string_view value);
};

// In the order in which they are set: SOFTHCA_MODEL changes the profile, both decide the
// personality unless that is set, SOFTHCA_RULES changes the personality, which decides the link
// layer unless that is set, and SOFTHCA_SLOW slows the model.
constexpr size_t kSettingCount = 16;
extern const std::array<Setting, kSettingCount> kSettings;

// The option without its dashes: "link-layer" for SOFTHCA_LINK_LAYER.
std::string option_name(const Setting& setting);
// The table of the settings in Markdown.
std::string settings_table();

// Sets `settings` from variables; an unset or empty variable means its default. On error, returns
// a text that names the variable, its value and the choices.
std::optional<std::string> parse_settings(
    Settings& settings, const std::function<const char*(const char*)>& get_variable);

// The configuration that a process with these settings gives to a new fabric.
FabricConfig fabric_config(const Settings& settings);

}  // namespace softhca
