// SPDX-License-Identifier: BSD-3-Clause
// The variables and faults of the software HCA: refused with a text, or taken; and what is shown of
// them is taken again.
#include <map>

#include "fuzz.h"
#include "softhca/core/faults.h"
#include "softhca/core/text.h"
#include "softhca/settings.h"

using namespace softhca;
using tern::fuzz::require;

namespace {

void faults(const std::string& text) {
    Faults set{};
    const std::string before = describe(set);
    const auto error = apply_faults(text, set);
    require(!error || !error->empty(), "an error has no text");
    require(!error || describe(set) == before, "a refused list of faults has an effect");
    if (error) return;
    Faults again{};
    const std::string shown = describe(set);
    if (shown == "none") return;
    require(!apply_faults(shown, again), "the faults in force are refused");
    require(describe(again) == shown, "faults change when they are shown");
}

void numbers(const std::string& text) {
    if (const auto ns = parse_time_ns(text)) {
        require(*ns <= 1'000'000'000'000, "a time is too long");
        require(parse_time_ns(time_text(*ns)) == ns, "a time changes when it is shown");
    }
    if (const auto value = parse_decimal(text)) {
        require(*value >= 0 && *value <= 1e12, "a number out of its bounds");
        require(parse_decimal(decimal_text(*value)) == value, "a number changes when it is shown");
    }
    (void)parse_number(text);
    (void)parse_bytes(text);
}

void variables(tern::fuzz::Input& input) {
    std::map<std::string, std::string> environment;
    while (!input.empty()) {
        const auto& setting = kSettings[input.below(kSettingCount)];
        const auto bytes = input.take_bytes(input.below(64));
        environment[setting.name] = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    Settings settings;
    const auto error = parse_settings(settings, [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
    });
    require(!error || !error->empty(), "an error has no text");
    if (error) return;
    require(settings.devices >= 1 && settings.devices <= kMaxDevices && settings.ports >= 1 &&
                settings.ports <= kMaxPorts,
            "a number out of its bounds");
    (void)fabric_config(settings);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    tern::fuzz::Input input(data, size);
    switch (input.below(3)) {
        case 0:
            faults(std::string(input.text()));
            break;
        case 1:
            numbers(std::string(input.text()));
            break;
        default:
            variables(input);
    }
    return 0;
}
