// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/verbs/async_events.h"
#include "tern/verbs/gid.h"
#include "tern/verbs/handles.h"

namespace tern::verbs {

// The speed and width of a link, decoded. Pure.
struct LinkSpeed {
    double bandwidth = 0;  // bytes per second, net of the link's encoding
    bool known = true;     // false: a code is unknown, and `bandwidth` is a guess
};

// The code of a port's speed, as in ibv_port_attr::active_speed. Codes that do not fit into its 8
// bits (XDR is 256) are in active_speed_ex, which rdma-core has from version 57 on, and which is 0
// for all other speeds.
template <typename Attributes>
uint32_t speed_code(const Attributes& attributes) {
    if constexpr (requires { attributes.active_speed_ex; })
        if (attributes.active_speed_ex != 0) return attributes.active_speed_ex;
    return attributes.active_speed;
}

// `speed`: of a lane, from speed_code(); `width`: from ibv_port_attr::active_width. An unknown
// speed counts as the fastest known one below it, a speed of 0 as EDR, an unknown width as one
// lane.
LinkSpeed link_speed(uint32_t speed, uint32_t width);

// The names of all devices, in the order of libibverbs.
std::vector<std::string> device_names();

// What a user can do about a port.
enum class Remedy : uint8_t { kNone, kCable, kSubnetManager, kOtherDevice, kGid, kPartition };

// Why a port cannot be used.
struct PortTrouble {
    std::string why;  // empty: it can
    Remedy remedy = Remedy::kNone;
};

// An open device, and the protection domain of all objects of one memory domain.
struct Device {
    Context context;
    std::unique_ptr<AsyncEvents> events;
    ProtectionDomain pd;
    ibv_device_attr attributes{};

    std::string name() const { return ibv_get_device_name(context->device); }
    // The numbers of the ports that can be used.
    std::vector<uint8_t> active_ports() const;
    PortTrouble unusable(uint8_t port) const;
};

// A device's PCI address, such as "0000:3b:00.0", from its path in sysfs. Empty if the device has
// none, as software devices, or sysfs does not have it.
std::string bus_address(const std::string& sysfs_path);

// Opens a device by name. Empty on failure; errno says why.
std::optional<Device> open_device(const std::string& name);

// The user's settings for a port. -1: open_port() chooses.
struct PortSettings {
    int gid_index = -1;
    int global = -1;  // 1: always send a GRH; 0: only if the port requires it
    int pkey = -1;    // value without the membership bit
    int traffic_class = -1;
    uint8_t service_level = 0;
    ibv_mtu path_mtu = static_cast<ibv_mtu>(0);  // 0: the port's active MTU
    int paths = 0;                               // at most kMostPaths; 0: one for each link
    bool local_subnet = false;                   // on Ethernet, ports of others are not reachable
};

// Reads and atomics that a connection may have outstanding, at most: more of them fill no link that
// fewer do not, and occupy the device.
constexpr uint8_t kMostReads = 16;

// A port of an open device, with the parameters of connections through it.
struct Port {
    ibv_context* context = nullptr;
    uint8_t number = 0;
    ibv_port_attr attributes{};
    uint8_t gid_index = 0;  // on Ethernet of the first family of `roce`
    ibv_gid gid{};
    GidChoice roce;       // on Ethernet
    bool global = false;  // packets carry a GRH
    bool ethernet = false;
    // RDMA reads and atomics that a queue pair may have outstanding, and its peer likewise.
    uint8_t reads = 1;
    bool atomics = false;  // the device has 64-bit fetch-and-add and compare-and-swap
    uint16_t pkey_index = 0;
    uint16_t pkey = 0;
    int traffic_class = -1;  // -1: as the version of RoCE has it
    uint8_t service_level = 0;
    ibv_mtu mtu = IBV_MTU_1024;
    uint8_t paths = 1;   // that two interfaces may use at a time
    uint8_t bonded = 1;  // the links below the port, if it is on a bond
    bool local_subnet = false;

    // The address vector of the remote port with this LID; if `with_grh`, packets carry a GRH from
    // `gid` to this GID, as they always do on Ethernet.
    ibv_ah_attr address_vector(uint16_t lid, const ibv_gid& to, bool with_grh) const;
    // The address vector of the remote port of Ethernet with this GID, by the own GID of `family`.
    ibv_ah_attr address_vector(GidFamily family, const ibv_gid& to) const;
    LinkSpeed speed() const;
    // Bytes per second, net of the link's encoding.
    double bandwidth() const { return speed().bandwidth; }
};

// Queries a port and applies the settings. Empty on failure; `trouble` says why.
std::optional<Port> open_port(const Device& device, uint8_t number, const PortSettings& settings,
                              PortTrouble& trouble);

// The paths between two ports, which several connections of one pair of interfaces take, at most:
// an endpoint of UCP has no more lanes, so it could not use more paths.
constexpr unsigned kMostPaths = 16;

// The flow label of a path of RoCE, from which the kernel and the device derive the UDP source port
// of its packets. Bonds and switches choose a link by that port. `pair`: a random number for each
// pair of interfaces, so that pairs with one path each are on different links, too.
//
// The ports of the paths of a pair follow one another, as those of UCX's own transports: what
// chooses links by the remainder of the port puts them on different ones. The label is not 0, which
// would leave the choice of the port to the kernel.
constexpr uint32_t flow_label(uint64_t pair, unsigned path) {
    constexpr uint32_t kNotZero = 1u << 14;
    constexpr uint32_t kPortBits = kNotZero - 1;
    static_assert(kMostPaths <= 16);
    return kNotZero | (static_cast<uint32_t>(pair) * kMostPaths & kPortBits) | path;
}

// The UDP source port of RoCE v2 for a flow label, as Linux and rdma-core derive it.
constexpr uint16_t udp_source_port(uint32_t label) {
    return static_cast<uint16_t>(0xc000 | ((label & 0x3fff) ^ (label >> 14 & 0x3f)));
}

// Has the packets to this address take a path. A path of InfiniBand is one of the 2^lmc LIDs of
// each port: `lmc` is the peer's, and both sides must take the same. A connection that is the only
// one of its pair gets no flow label: then the kernel derives the port from its queue pairs.
void take_path(ibv_ah_attr& address, const Port& port, unsigned path, uint8_t lmc, uint64_t pair);

// How many links an Ethernet port sends over: those of a bond in mode 802.3ad that carries its
// network interface. 1 if there is no bond, or sysfs does not tell. `device`: the device's folder
// in sysfs; `net`: that of all network interfaces.
uint8_t bonded_ports(const std::filesystem::path& device, uint8_t port, unsigned gid_index,
                     const std::filesystem::path& net = "/sys/class/net");

}  // namespace tern::verbs
