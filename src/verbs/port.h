// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "verbs/async_events.h"
#include "verbs/handles.h"
#include "verbs/link_speed.h"

namespace tern::verbs {

// Names of the devices that libibverbs knows, in its order.
std::vector<std::string> device_names();

// An open device and the protection domain that everything of one memory domain lives in.
struct Device {
    Context context;
    std::unique_ptr<AsyncEvents> events;
    ProtectionDomain pd;
    ibv_device_attr attributes{};

    std::string name() const { return ibv_get_device_name(context->device); }
    // Numbers of the ports that are active.
    std::vector<uint8_t> active_ports() const;
    // Why a port cannot be used; empty if it can.
    std::string unusable(uint8_t port) const;
};

// Where a device is on the machine's PCI buses, as "0000:3b:00.0", by its path in sysfs. Empty if it
// is on none, as software devices are, or sysfs does not tell.
std::string bus_address(const std::string& sysfs_path);

// Opens a device by name. Empty if there is none or it cannot be opened; errno says why.
std::optional<Device> open_device(const std::string& name);

// How a port is to be used: the user's settings, -1 where the port decides.
struct PortSettings {
    int gid_index = -1;
    int global = -1;  // 1: always send a GRH; 0: never
    int pkey = -1;    // value without the membership bit
    uint8_t traffic_class = 0;
    uint8_t service_level = 0;
    ibv_mtu path_mtu = static_cast<ibv_mtu>(0);  // 0: the port's active MTU
};

// A port of an open device with everything that connecting through it takes.
struct Port {
    ibv_context* context = nullptr;
    uint8_t number = 0;
    ibv_port_attr attributes{};
    uint8_t gid_index = 0;
    ibv_gid gid{};
    bool global = false;  // packets carry a GRH
    bool ethernet = false;
    bool atomics = false;  // fetch-and-add, compare-and-swap: 64 bits
    uint16_t pkey_index = 0;
    uint16_t pkey = 0;
    uint8_t traffic_class = 0;
    uint8_t service_level = 0;
    ibv_mtu mtu = IBV_MTU_1024;

    // Where packets to the port with this LID and GID go.
    ibv_ah_attr address_vector(uint16_t lid, const ibv_gid& to, bool to_has_gid) const;
    LinkSpeed speed() const;
    // Bytes per second of the link, less its encoding.
    double bandwidth() const { return speed().bandwidth; }
};

// Looks a port up. Empty if the settings do not fit it; `why` says what does not.
std::optional<Port> open_port(const Device& device, uint8_t number, const PortSettings& settings,
                              std::string& why);

}  // namespace tern::verbs
