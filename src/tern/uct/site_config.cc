// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/site_config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tern/base/trace.h"
#include "tern/uct/compat.h"
#include "tern/verbs/memory.h"
#include "tern/verbs/port_paths.h"

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
    TERN_FIELD_OF(
        SiteMemoryConfig, "PCI_RELAXED_ORDERING", "auto",
        "Whether memory that is read only after a completion may be written in any order, which "
        "is\n"
        "faster on some processors: pinned memory of transfers, and receive buffers. Blocks, "
        "rings, "
        "words\n"
        "and open memory never are.\n"
        " on   - yes, with a warning if the device refuses (also y, yes, 1)\n"
        " try  - yes, if the device does not refuse (also maybe)\n"
        " auto - like try on the processors on which UCX does so, which are of AMD, and else no\n"
        " off  - no (also n, no, 0)",
        relaxed_ordering, UCS_CONFIG_TYPE_ENUM(kRelaxNames)),
    TERN_FIELD_OF(
        SiteMemoryConfig, "FORK_INIT", "try",
        "Whether libibverbs is made safe for programs that fork (ibv_fork_init), on kernels that "
        "do "
        "not copy\n"
        "pinned pages for the child by themselves. Other memory domains that were opened first may "
        "prevent it:\n"
        "yes then fails, try does not.",
        fork_init, UCS_CONFIG_TYPE_TERNARY),
    {nullptr, nullptr, nullptr, 0, {}},
};

ucs_config_field_t site_port_config_table[] = {
    TERN_FIELD_OF(
        SitePortConfig, "GID_INDEX", "auto",
        "Entry of the port's GID table to use. auto takes, on Ethernet, the first entry of each "
        "kind, IPv4, IPv6\n"
        "and link-local, and with each peer the first that both have, with RoCE v2 if possible.",
        gid_index, UCS_CONFIG_TYPE_ULUNITS),
    TERN_FIELD_OF(SitePortConfig, "IS_GLOBAL", "try",
                  "Whether packets carry a global routing header: yes, no, or try, which is yes "
                  "without a LID, and if\n"
                  "GID_INDEX is set. On Ethernet, and on ports that require it, they always do.",
                  global, UCS_CONFIG_TYPE_TERNARY),
    TERN_FIELD_OF(SitePortConfig, "PKEY", "auto",
                  "Partition to use, on InfiniBand. auto, or 0, takes the first with full "
                  "membership.",
                  pkey, UCS_CONFIG_TYPE_HEX),
    TERN_FIELD_OF(SitePortConfig, "TRAFFIC_CLASS", "auto",
                  "Traffic class of packets with a global routing header. auto: 106 for RoCE v2, "
                  "otherwise 0, as UCX's own\n"
                  "transports.",
                  traffic_class, UCS_CONFIG_TYPE_ULUNITS),
    TERN_FIELD_OF(SitePortConfig, "SL", "auto", "Service level; on Ethernet the priority. auto: 0.",
                  service_level, UCS_CONFIG_TYPE_ULUNITS),
    TERN_FIELD_OF(SitePortConfig, "PATH_MTU", "default",
                  "Largest packet. default takes the port's active MTU.", path_mtu,
                  UCS_CONFIG_TYPE_ENUM(kMtuNames)),
    TERN_FIELD_OF(
        SitePortConfig, "NUM_PATHS", "auto",
        "Connections to each peer over which UCX may spread long messages, each on another "
        "path: on Ethernet by the\n"
        "flow label, from which UDP source ports are derived; on InfiniBand by the path "
        "bits of LIDs, as far as the\n"
        "ports' LMC has them. More than 16 are 16. auto: the links of an Ethernet port's "
        "bond (802.3ad), or 1.",
        paths, UCS_CONFIG_TYPE_ULUNITS),
    TERN_FIELD_OF(SitePortConfig, "ROCE_LOCAL_SUBNET", "n",
                  "Whether, on Ethernet, only ports of the own subnet count as reachable: by the "
                  "interface's netmask for\n"
                  "IPv4, and by the first 64 bits for IPv6. If not, the kernel's routes decide.",
                  local_subnet, UCS_CONFIG_TYPE_BOOL),
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
