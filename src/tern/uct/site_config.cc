// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/site_config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tern/base/trace.h"
#include "tern/uct/compat.h"
#include "tern/verbs/memory.h"
#include "tern/verbs/port.h"

namespace tern {

namespace {

enum class Relax : uint8_t { kNever, kAlways, kIfPossible, kByProcessor };

// All spellings that UCX takes, in any of its versions.
constexpr const char* kRelaxNames[] = {"off", "on", "try", "auto", "n",     "no",
                                       "0",   "y",  "yes", "1",    "maybe", nullptr};
constexpr Relax kRelaxMeanings[] = {Relax::kNever,       Relax::kAlways,    Relax::kIfPossible,
                                    Relax::kByProcessor, Relax::kNever,     Relax::kNever,
                                    Relax::kNever,       Relax::kAlways,    Relax::kAlways,
                                    Relax::kAlways,      Relax::kIfPossible};
static_assert(std::size(kRelaxNames) == std::size(kRelaxMeanings) + 1);

const char* kMtuNames[] = {"default", "256", "512", "1024", "2048", "4096", nullptr};

constexpr uint16_t kAnyPartition = UCS_HEXUNITS_AUTO;

}  // namespace

ucs_config_field_t site_memory_config_table[] = {
#define SITE_MEMORY_SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    {#name, otherwise, meaning, offsetof(SiteMemoryConfig, member), UCS_CONFIG_TYPE_##ucx_type},
#include "tern/uct/settings.def"
    {nullptr, nullptr, nullptr, 0, {}},
};

ucs_config_field_t site_port_config_table[] = {
#define SITE_SETTING(type, member, name, ucx_type, otherwise, range, meaning) \
    {#name, otherwise, meaning, offsetof(SitePortConfig, member), UCS_CONFIG_TYPE_##ucx_type},
#include "tern/uct/settings.def"
    {nullptr, nullptr, nullptr, 0, {}},
};

bool relaxes_order(int setting, const verbs::Device& device) {
    const Relax wanted = kRelaxMeanings[setting];
    if (wanted == Relax::kNever ||
        (wanted == Relax::kByProcessor && !compat::prefers_relaxed_order()))
        return false;
    if (verbs::takes_relaxed_ordering(device.pd.get())) {
        TERN_DEBUG("%s: pins and receive buffers are registered with relaxed ordering",
                   device.name().c_str());
        return true;
    }
    const int error = errno;
    ucs_log(wanted == Relax::kAlways ? UCS_LOG_LEVEL_WARN : UCS_LOG_LEVEL_DEBUG,
            "tern: %s registers no memory with relaxed ordering: %s; the order of its writes stays "
            "strict",
            device.name().c_str(), strerror(error));
    return false;
}

verbs::PortSettings port_settings(const SitePortConfig& config) {
    const auto or_auto = [](unsigned long setting, unsigned long most) {
        return setting == UCS_ULUNITS_AUTO ? -1 : static_cast<int>(std::min(setting, most));
    };
    const auto partition = static_cast<uint16_t>(config.pkey);
    verbs::PortSettings port;
    port.gid_index = or_auto(config.gid_index, 65535);
    port.global = config.global == UCS_TRY ? -1 : config.global == UCS_YES ? 1 : 0;
    port.pkey = partition == 0 || partition == kAnyPartition ? -1 : partition & 0x7fff;
    port.traffic_class = or_auto(config.traffic_class, 255);
    port.service_level = static_cast<uint8_t>(std::max(or_auto(config.service_level, 15), 0));
    port.path_mtu = static_cast<ibv_mtu>(config.path_mtu);
    port.paths = std::max(or_auto(config.paths, verbs::kMostPaths), 0);
    port.local_subnet = config.local_subnet != 0;
    return port;
}

}  // namespace tern
