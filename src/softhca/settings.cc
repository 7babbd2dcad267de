// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/settings.h"

#include <cctype>
#include <filesystem>

#include "softhca/core/faults.h"
#include "softhca/core/nic_profiles.h"
#include "softhca/core/text.h"
#include "softhca/model_file.h"

namespace softhca {
namespace {

using Reason = std::optional<std::string>;

constexpr std::string_view kPrefix = "SOFTHCA_";

bool is_name_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

Reason set_name(std::string& target, std::string_view value) {
    bool good = !value.empty() && value.size() <= Settings::kMaxFabricName && value.front() != '.';
    for (const char c : value) good = good && is_name_character(c);
    if (!good) return "must be 1 to 64 letters, digits, '-', '_' or '.', and not begin with '.'";
    target = value;
    return std::nullopt;
}

Reason set_count(unsigned& target, std::string_view value, unsigned max) {
    const auto number = parse_number(value);
    if (!number || *number < 1 || *number > max)
        return "must be a number from 1 to " + std::to_string(max);
    target = static_cast<unsigned>(*number);
    return std::nullopt;
}

// Sets a setting with two choices.
template <typename Value>
Reason set_choice(Value& target, std::string_view value, std::string_view first, Value first_value,
                  std::string_view second, Value second_value) {
    if (value != first && value != second)
        return "choose from " + std::string(first) + ", " + std::string(second);
    target = value == first ? first_value : second_value;
    return std::nullopt;
}

Reason set_link_layer(Settings& settings, std::string_view value) {
    if (value == "auto") {
        settings.link_layer = settings.personality.ports.ethernet != 0 ? LinkLayer::kEthernet
                                                                       : LinkLayer::kInfiniband;
        return std::nullopt;
    }
    if (set_choice(settings.link_layer, value, "infiniband", LinkLayer::kInfiniband, "ethernet",
                   LinkLayer::kEthernet))
        return "choose from auto, infiniband, ethernet";
    return std::nullopt;
}

// Behind the profile and the model, which decide unless the user does.
Reason set_personality(Settings& settings, std::string_view value) {
    const bool is_auto = value == "auto";
    const std::string_view adapter = settings.adapter_personality;
    if (is_auto) value = adapter.substr(0, adapter.find(','));
    const auto personality = find_personality(value);
    if (!personality) return "choose from " + personality_names() + ", auto";
    settings.personality_name = value;
    settings.personality = *personality;
    if (!is_auto) return std::nullopt;
    return apply_rules(adapter.substr(value.size()), settings.personality);
}

Reason set_profile(Settings& settings, std::string_view value) {
    const Model* model = find_model(value);
    if (model == nullptr) return "choose from " + profile_names();
    settings.profile = value;
    settings.nic = model->nic;
    settings.adapter_personality = model->personality;
    return std::nullopt;
}

// Behind the profile.
Reason set_model(Settings& settings, std::string_view value) {
    if (auto reason = apply_model(value, settings.nic, settings.adapter_personality)) return reason;
    if (value.starts_with('@')) {
        const std::filesystem::path file = value.substr(1, value.find(',') - 1);
        settings.profile = "@" + file.stem().string();
    }
    return std::nullopt;
}

// Behind the profile and the model, which it slows down.
Reason set_slow(Settings& settings, std::string_view value) {
    constexpr unsigned kMaxSlow = 10'000;
    if (auto reason = set_count(settings.slow, value, kMaxSlow)) return reason;
    settings.nic = slowed(settings.nic, settings.slow);
    return std::nullopt;
}

Reason set_faults(Settings& settings, std::string_view value) {
    Faults scratch = {};
    if (auto reason = apply_faults(value, scratch)) return reason;
    settings.faults = value;
    return std::nullopt;
}

std::string code(std::string_view text) {
    return text.empty() ? "" : "`" + std::string(text) + "`";
}

}  // namespace

const std::array<Setting, kSettingCount> kSettings = {{
    {"SOFTHCA_FABRIC", "default", "a name",
     "processes of one user with the same name share a fabric",
     [](Settings& settings, std::string_view value) { return set_name(settings.fabric, value); }},
    {"SOFTHCA_DEVICES", "1", "1..16", "number of devices: softhca0, softhca1, ...",
     [](Settings& settings, std::string_view value) {
         return set_count(settings.devices, value, kMaxDevices);
     }},
    {"SOFTHCA_PORTS", "1", "1, 2", "ports of each device",
     [](Settings& settings, std::string_view value) {
         return set_count(settings.ports, value, kMaxPorts);
     }},
    {"SOFTHCA_PROFILE", "ideal",
     "ideal, graphene, infini, hdr200, muse, cx3-fdr, cx5-edr, cx6-hdr, cx7-ndr",
     "the NIC whose timing is modeled", set_profile},
    {"SOFTHCA_MODEL", "",
     "[@FILE,] comma list of PARAMETER=TIME (us; suffix ns, us, ms, s) and PARAMETER=GB/s",
     "a model file instead of the profile, and single parameters that differ", set_model},
    {"SOFTHCA_PERSONALITY", "auto", "default, mlx5, mlx4, irdma, bnxt_re, hns, rxe, strict, auto",
     "the device whose limits, features and refusals are imitated; auto: that "
     "of the adapter that is modeled",
     set_personality},
    {"SOFTHCA_RULES", "", "comma list RULE=NUMBER", "single rules that differ from the personality",
     [](Settings& settings, std::string_view value) {
         return apply_rules(value, settings.personality);
     }},
    {"SOFTHCA_LINK_LAYER", "auto", "auto, infiniband, ethernet",
     "addresses: LID, or GID as with RoCE; auto: as the personality has it", set_link_layer},
    {"SOFTHCA_ADDRESSES", "shared", "shared, per-process",
     "whether processes have the same LIDs and GIDs, or each its own",
     [](Settings& settings, std::string_view value) {
         return set_choice(settings.own_addresses, value, "shared", false, "per-process", true);
     }},
    {"SOFTHCA_SUBNETS", "one", "one, per-port",
     "whether ports 1 and ports 2 are in different subnets, and cannot reach each other",
     [](Settings& settings, std::string_view value) {
         return set_choice(settings.subnets, value, "one", false, "per-port", true);
     }},
    {"SOFTHCA_EXECUTOR", "inline", "inline, thread",
     "who moves the data: the caller, or a thread per process",
     [](Settings& settings, std::string_view value) {
         return set_choice(settings.executor, value, "inline", Executor::kInline, "thread",
                           Executor::kThread);
     }},
    {"SOFTHCA_NODE", "", "a name",
     "processes with the same name share their ports in the model; without one, each has its own",
     [](Settings& settings, std::string_view value) {
         return value.empty() ? std::nullopt : set_name(settings.node, value);
     }},
    {"SOFTHCA_SLOW", "1", "1..10000",
     "how many times as slow as modeled the network and registrations are", set_slow},
    {"SOFTHCA_FAULTS", "", "comma list of faults", "faults in force from the start of the fabric",
     set_faults},
    {"SOFTHCA_SHARED", "auto", "auto, off", "copy directly where memory is shared already",
     [](Settings& settings, std::string_view value) {
         return set_choice(settings.shared, value, "auto", true, "off", false);
     }},
    {"SOFTHCA_CLOCK", "real", "real, virtual",
     "whose time the device follows: the machine's, or that of a simulation in this process",
     [](Settings& settings, std::string_view value) {
         return set_choice(settings.virtual_time, value, "real", false, "virtual", true);
     }},
}};

std::string option_name(const Setting& setting) {
    std::string name(std::string_view(setting.name).substr(kPrefix.size()));
    for (char& c : name)
        c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
}

std::string settings_table() {
    std::string text =
        "| Variable | Option of `softhca run` | Default | Choices | Meaning "
        "|\n|---|---|---|---|---|\n";
    for (const Setting& setting : kSettings) {
        text += "| " + code(setting.name) + " | " + code("--" + option_name(setting)) + " | " +
                code(setting.fallback) + " | " + setting.choices + " | " + setting.help + " |\n";
    }
    return text;
}

std::optional<std::string> parse_settings(
    Settings& settings, const std::function<const char*(const char*)>& get_variable) {
    for (const Setting& setting : kSettings) {
        const char* variable = get_variable(setting.name);
        const std::string_view value =
            variable != nullptr && *variable != '\0' ? variable : setting.fallback;
        if (auto reason = setting.set(settings, value))
            return setting.name + ("=" + std::string(value)) + ": " + *reason;
    }
    return std::nullopt;
}

FabricConfig fabric_config(const Settings& settings) {
    FabricConfig config = {};
    config.devices = settings.devices;
    config.ports = settings.ports;
    config.link_layer = settings.link_layer;
    config.own_addresses = settings.own_addresses ? 1 : 0;
    config.subnets = settings.subnets ? 1 : 0;
    config.virtual_time = settings.virtual_time ? 1 : 0;
    config.nic = settings.nic;
    config.personality = settings.personality;
    settings.personality_name.copy(config.personality_name, sizeof config.personality_name - 1);
    settings.profile.copy(config.profile, sizeof config.profile - 1);
    return config;
}

}  // namespace softhca
