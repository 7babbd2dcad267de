// SPDX-License-Identifier: BSD-3-Clause
// The IP addresses of a fabric. All its processes are on one machine: they have the machine's
// addresses, and one for each port of a device. The address of a port chooses the port, any other
// the first port of the first device.
#pragma once

#include <string>

#include "softhca/cm/message.h"
#include "softhca/cm/objects.h"

namespace softhca::cm {

struct DevicePort {
    uint32_t device = 0;
    uint8_t port = 1;
};

enum class Whose {
    kAny,     // the wildcard
    kGroup,   // multicast: only its device can be found
    kHost,    // the machine's own
    kOwn,     // of a port that this process has
    kMember,  // of a port of another process
    kNobody,  // not of this machine
};

struct Location {
    Whose whose = Whose::kNobody;
    DevicePort port;
};

std::string fabric_name();
bool is_ip(const sockaddr* address);
Location locate(const SocketAddress& address);
// Copies an IPv4 or IPv6 address.
SocketAddress copy_address(const sockaddr* address);
uint16_t port_number(const SocketAddress& address);
void set_port_number(SocketAddress& address, uint16_t port);
// The address, without a port number, from which a destination is reached.
SocketAddress source_for(const SocketAddress& destination, const Location& location);

// What peers need to reach the identifier's port.
PortAddress port_address(const Id& id);
// The address vector to a peer.
ibv_ah_attr address_vector(const Id& id, const PortAddress& peer);
// Fills in what the path to the peer is, for programs that read it.
void describe_path(Id& id, const PortAddress& peer);

// Binds the identifier to a port of a device. False with errno set if that cannot be opened.
bool use_device(Id& id, const DevicePort& port);

// Devices stay open, as they do with librdmacm. nullptr with errno set on failure.
ibv_context* open_device(uint32_t device);
ibv_pd* default_pd(uint32_t device);
ibv_xrcd* default_xrcd(ibv_context* context);
// In a child after a fork: opens devices anew.
void forget_devices();

}  // namespace softhca::cm
