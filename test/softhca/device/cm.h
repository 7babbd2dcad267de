// SPDX-License-Identifier: BSD-3-Clause
// Objects of rdma_cm, and a connection that tests take apart.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fabric.h"

namespace conformance::softhca::cm {

struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
using EventChannel = std::unique_ptr<rdma_event_channel, DestroyChannel>;
EventChannel make_channel();

// With its queue pair, if it has one.
struct DestroyId {
    void operator()(rdma_cm_id* id) const;
};
using Id = std::unique_ptr<rdma_cm_id, DestroyId>;
Id make_id(const EventChannel& channel, rdma_port_space space = RDMA_PS_TCP);

// 127.0.0.1 unless another address is given; port in host byte order.
sockaddr_in ip(uint16_t port, const char* address = "127.0.0.1");
inline sockaddr* any(sockaddr_in& address) {
    return reinterpret_cast<sockaddr*>(&address);
}

// What an event said; it has been acknowledged.
struct Seen {
    rdma_cm_event event;
    std::string data;  // private, with the zeros behind it
};
// The next event, which must come before the deadline.
Seen next(const EventChannel& channel);
// The next event, which must be of this kind and of this identifier.
Seen expect(const EventChannel& channel, rdma_cm_event_type type, const rdma_cm_id* id,
            int status = 0);
// Whether no event waits now.
bool silent(const EventChannel& channel);

// A listening identifier on a free port.
struct Listener {
    explicit Listener(rdma_port_space space = RDMA_PS_TCP, int backlog = 8);
    EventChannel channel = make_channel();
    Id id;
    uint16_t port;
    // The identifier of the next request; the event goes to *seen.
    Id request(Seen* seen = nullptr);
    // Accepts the next request with parameters(). RDMA_CM_EVENT_ESTABLISHED follows when the
    // caller has read its own.
    Id accept();
};

// An identifier with a route to a port.
struct Caller {
    explicit Caller(uint16_t port, rdma_port_space space = RDMA_PS_TCP,
                    const char* address = "127.0.0.1");
    EventChannel channel = make_channel();
    Id id;
};

// A queue pair of an identifier, with room for a few messages of one element.
void make_queue_pair(rdma_cm_id* id);
// `data`, the private data, must outlive the result.
rdma_conn_param parameters(std::string_view data = {});
// Asks for a connection with parameters(). The caller has a queue pair then.
void begin_connect(const Caller& caller);
// Sends a message of 64 bytes between two identifiers' queue pairs, and checks it.
void talk(rdma_cm_id* from, rdma_cm_id* to);

// Two sides that are connected.
struct Connected {
    Connected();
    // Sends a message in each direction.
    void talk() const;
    Listener listener;
    Caller caller;
    Id accepted;
};

}  // namespace conformance::softhca::cm
