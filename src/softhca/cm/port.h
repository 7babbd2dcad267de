// SPDX-License-Identifier: BSD-3-Clause
// A port of rdma_cm is a socket of the machine, named by the user, the fabric, the port space and
// the port's number. The name goes with its process, and the kernel tells each side of a connection
// that the other has gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "softhca/cm/message.h"

namespace softhca::cm {

struct PortName {
    std::string fabric;
    uint32_t port_space;
    uint16_t port;  // in host byte order
};

// A socket with this name; with port 0, with one that is free, which it sets. -1 with errno set, as
// EADDRINUSE.
int bind_port(PortName& name);
// 0, or -1 with errno set.
int listen_port(int fd);
// 0, or an errno: ECONNREFUSED if nobody listens.
int connect_port(int fd, const PortName& name);
// A connection to a listening socket; -1 if there is none, or if it is another user's.
int accept_port(int fd);

// Does not wait. False if the peer has gone, or takes nothing.
bool send_message(int fd, const Message& message);
enum class Received { kMessage, kNothing, kHangUp };
Received receive_message(int fd, Message& message, size_t& size);

}  // namespace softhca::cm
