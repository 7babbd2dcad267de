// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rwapi/transport/resources.h"
#include "uct/put_am.h"

namespace rwapi {

// What UCT calls, within Transport::progress().
struct TransportEvents {
    void* argument;
    uct_am_callback_t on_message[32];  // by id; null: none
    uct_error_handler_t on_failure;    // of an endpoint
};

// How long transfers of each kind may be, in bytes; zcopy: what is posted at once.
struct Limits {
    size_t put_short;
    size_t put_bcopy;
    size_t put_zcopy;
    size_t get_bcopy;
    size_t get_zcopy_min;
    size_t get_zcopy;
    size_t am_short;  // without the header
    size_t am_bcopy;
};

// Where an interface is reached.
struct InterfaceAddress {
    std::vector<std::byte> device;
    std::vector<std::byte> interface;
};

// A UCT interface that has all that is needed, with its worker and memory domain. If it connects
// endpoint to endpoint, `wire` is another one, ud_verbs, whose messages carry their addresses.
class Transport {
  public:
    // Opens the first resource that fits RWAPI_TLS and RWAPI_DEVICE. 0 or an RWAPI_ERR_*.
    int open(const TransportEvents& events, uct_am_callback_t on_wire_message, int threads);

    const Limits& limits() const { return limits_; }
    const std::string& name() const { return name_; }
    const std::string& transport() const { return transport_; }
    bool needs_wire() const { return wire_ != nullptr; }

    InterfaceAddress address() const { return address_of(interface_.get()); }
    InterfaceAddress wire_address() const { return address_of(wire_.get()); }

    // Endpoints to an interface, and one that is to be connected to an endpoint. Null: no memory,
    // or the address makes no sense.
    Endpoint connect(const InterfaceAddress& peer) const { return create(interface_.get(), &peer); }
    Endpoint connect_wire(const InterfaceAddress& peer) const { return create(wire_.get(), &peer); }
    Endpoint create_unconnected() const { return create(interface_.get(), nullptr); }
    std::vector<std::byte> address_of(const Endpoint& endpoint) const;
    ucs_status_t connect_to(const Endpoint& endpoint, const InterfaceAddress& peer,
                            std::span<const std::byte> endpoint_address) const;

    unsigned progress() { return uct_worker_progress(worker_.get()); }
    bool can_check() const { return can_check_; }
    bool can_check_wire() const { return can_check_wire_; }
    // A put and its message in one call; null: the transport has no function for this.
    using PutAm = decltype(&tern_uct_ep_put_am_short);
    PutAm put_am() const { return put_am_; }

    // A descriptor that becomes readable after arm() has returned UCS_OK; negative: not possible.
    int event_fd();
    ucs_status_t arm();
    // Makes the descriptor readable. For any thread.
    void wake() const;

    uct_md_h domain() const { return domain_.get(); }
    uct_component_h component() const { return component_; }
    size_t rkey_length() const { return rkey_length_; }

    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    ~Transport();

  private:
    bool open_resource(const Resource& resource, const TransportEvents& events);
    bool open_wire(const std::vector<Resource>& all, const Resource& resource,
                   uct_am_callback_t on_message, const TransportEvents& events);
    Interface open_interface(uct_md_h md, const Resource& resource, const TransportEvents& events,
                             bool is_wire) const;
    static void on_wire_event(void* transport, unsigned);
    InterfaceAddress address_of(uct_iface_h iface) const;
    Endpoint create(uct_iface_h iface, const InterfaceAddress* peer) const;

    Async async_;
    Worker worker_;
    uct_component_h component_ = nullptr;
    Domain domain_;
    Interface interface_;
    Domain wire_domain_;
    Interface wire_;
    Limits limits_{};
    uint64_t max_transfer_ = UINT64_MAX;
    size_t rkey_length_ = 0;
    size_t endpoint_length_ = 0;
    bool connects_endpoints_ = false;
    bool can_check_ = false;
    bool can_check_wire_ = false;
    PutAm put_am_ = nullptr;
    int event_fd_ = -1;
    int wake_fd_ = -1;  // ud_verbs calls from UCX's thread, instead of having a descriptor
    std::string name_;
    std::string transport_;
};

}  // namespace rwapi
