// SPDX-License-Identifier: BSD-3-Clause
#include "nic_parameters.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

namespace softhca {
namespace {

static_assert(std::is_trivially_copyable_v<NicParameters>);

template <auto... path>
auto& parameter_at(NicParameters& nic) {
    return (nic.*....*path);
}

// A parameter is a time or a bandwidth; the other one is null. Not all are of a group.
struct Parameter {
    std::string_view name, group;
    uint64_t& (*time)(NicParameters&);
    double& (*bandwidth)(NicParameters&) = nullptr;
};

constexpr Parameter kParameters[] = {
    {"latency", "latency", parameter_at<&NicParameters::latency_ns>},
    {"bandwidth", "", nullptr, parameter_at<&NicParameters::bandwidth>},
    {"gap", "", parameter_at<&NicParameters::gap_ns>},
    {"interval", "port", parameter_at<&NicParameters::interval_ns>},
    {"completion", "", parameter_at<&NicParameters::completion_ns>},
    {"reg-latency", "", parameter_at<&NicParameters::registration, &MemoryCosts::fixed_ns>},
    {"reg-bandwidth", "", nullptr,
     parameter_at<&NicParameters::registration, &MemoryCosts::bandwidth>},
    {"dereg-latency", "", parameter_at<&NicParameters::deregistration, &MemoryCosts::fixed_ns>},
    {"dereg-bandwidth", "", nullptr,
     parameter_at<&NicParameters::deregistration, &MemoryCosts::bandwidth>},
    {"send", "latency", parameter_at<&NicParameters::send_ns>},
    {"read", "latency", parameter_at<&NicParameters::read_ns>},
    {"atomic", "latency", parameter_at<&NicParameters::atomic_ns>},
    {"gather", "data", parameter_at<&NicParameters::gather_ns>},
    {"inline-bandwidth", "data", nullptr, parameter_at<&NicParameters::inline_bandwidth>},
    {"packet-bandwidth", "", nullptr, parameter_at<&NicParameters::packet_bandwidth>},
    {"qp-gap", "queue-pair", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::gap_ns>},
    {"qp-write", "queue-pair",
     parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::write_ns>},
    {"qp-send", "queue-pair", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::send_ns>},
    {"qp-read", "queue-pair", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::read_ns>},
    {"qp-inline", "queue-pair",
     parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::inline_ns>},
    {"read-interval", "port", parameter_at<&NicParameters::read_interval_ns>},
    {"atomic-interval", "port", parameter_at<&NicParameters::atomic_interval_ns>},
    {"receive-interval", "", parameter_at<&NicParameters::receive_interval_ns>},
};
constexpr size_t kAlwaysShown = 7;

std::optional<std::string> set_value(const ListEntry& entry, const Parameter& parameter,
                                     NicParameters& nic) {
    if (parameter.time != nullptr) {
        const auto ns = parse_time_ns(entry.value);
        if (!ns) {
            return std::string(entry.key) +
                   " wants a time in us, or with suffix ns, us, ms or s (such as 2.3 or 500ns), "
                   "not '" +
                   std::string(entry.value) + "'";
        }
        parameter.time(nic) = *ns;
        return std::nullopt;
    }
    const auto value = parse_decimal(entry.value);
    if (!value) {
        return std::string(entry.key) +
               " wants a number of GB/s (such as 2.0; 0 is infinite), not '" +
               std::string(entry.value) + "'";
    }
    parameter.bandwidth(nic) = *value;
    return std::nullopt;
}

bool is_set(NicParameters nic, const Parameter& parameter) {
    return parameter.time != nullptr ? parameter.time(nic) != 0 : parameter.bandwidth(nic) != 0;
}

}  // namespace

bool NicParameters::models_time() const {
    return std::ranges::any_of(
        kParameters, [this](const Parameter& parameter) { return is_set(*this, parameter); });
}

std::string describe(const NicParameters& nic) {
    NicParameters shown = nic;
    std::string text;
    for (size_t i = 0; i < std::size(kParameters); ++i) {
        const Parameter& parameter = kParameters[i];
        if (i >= kAlwaysShown && !is_set(nic, parameter)) continue;
        if (i != 0) text += ',';
        text += parameter.name;
        text += '=';
        text += parameter.time != nullptr ? time_text(parameter.time(shown))
                                          : decimal_text(parameter.bandwidth(shown));
    }
    return text;
}

std::string parameter_names() {
    return joined(kParameters, &Parameter::name);
}

std::vector<ParameterValue> parameter_values(const NicParameters& nic) {
    NicParameters shown = nic;
    std::vector<ParameterValue> values;
    for (const Parameter& parameter : kParameters) {
        const bool is_time = parameter.time != nullptr;
        std::string name(parameter.name);
        std::ranges::replace(name, '-', '_');
        values.push_back(
            {name + (is_time ? "_ns" : "_gb_per_s"),
             is_time ? static_cast<double>(parameter.time(shown)) : parameter.bandwidth(shown),
             is_time});
    }
    return values;
}

std::string_view group_of(std::string_view parameter) {
    const Parameter* known = std::ranges::find(kParameters, parameter, &Parameter::name);
    return known != std::end(kParameters) ? known->group : std::string_view();
}

std::optional<std::string> set_parameter(const ListEntry& entry, NicParameters& nic) {
    const Parameter* known = std::ranges::find(kParameters, entry.key, &Parameter::name);
    if (known != std::end(kParameters)) return set_value(entry, *known, nic);
    return "unknown parameter '" + std::string(entry.key) + "'; choose from " + parameter_names();
}

std::optional<std::string> apply_model_overrides(std::string_view list, NicParameters& nic) {
    NicParameters changed = nic;
    auto error =
        for_each_entry(list, [&](const ListEntry& entry) { return set_parameter(entry, changed); });
    if (!error) nic = changed;
    return error;
}

NicParameters slowed(const NicParameters& nic, uint64_t factor) {
    NicParameters slow = nic;
    for (const Parameter& parameter : kParameters) {
        if (parameter.time != nullptr)
            parameter.time(slow) *= factor;
        else
            parameter.bandwidth(slow) /= static_cast<double>(factor);
    }
    return slow;
}

}  // namespace softhca
