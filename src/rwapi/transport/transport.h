// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/ucx/resources.h"
#include "common/ucx/shared_domain.h"
#include "common/ucx/worker_progress.h"
#include "rwapi/base/log.h"
#include "tern/uct/put_am.h"

namespace rwapi {

// A function for the messages of one id. UCT calls it with `argument` first.
struct MessageHandler {
    uct_am_callback_t function = nullptr;  // null: there are no such messages
    void* argument = nullptr;
};

inline void log_lost_message(const std::exception& error) {
    log_error("a message is lost: %s", error.what());
}

// Makes a member function `void Object::handler(std::span<const std::byte> message)` UCT's callback
// for messages. No exception leaves it. The function may also return UCT's status, if it throws
// nothing.
template <auto Handler, class Object>
MessageHandler handler_of(Object& object) {
    const auto call = [](void* argument, void* data, size_t length, unsigned) {
        auto& receiver = *static_cast<Object*>(argument);
        const std::span message(static_cast<const std::byte*>(data), length);
        if constexpr (noexcept((receiver.*Handler)(message))) {
            return (receiver.*Handler)(message);
        } else {
            try {
                (receiver.*Handler)(message);
            } catch (const std::exception& error) {
                log_lost_message(error);
            }
            return UCS_OK;
        }
    };
    return {call, &object};
}

// What UCT calls within Transport::progress().
struct TransportEvents {
    MessageHandler on_message[32];  // by id
    MessageHandler on_wireup;       // of the wireup interface
    uct_error_handler_t on_error;   // of an endpoint
    void* on_error_argument;
};

// The lengths of transfers of each kind, in bytes (longer ones are posted in pieces), and whether
// there are the atomic operations of rwapi.
struct Limits {
    size_t put_short;
    size_t put_bcopy;
    size_t put_zcopy;
    size_t get_bcopy;
    size_t get_zcopy_min;
    size_t get_zcopy;
    size_t am_bcopy;
    bool atomics;
};

// Functions that post a put and a message, or a put and a word, in one call. Null, all of them: the
// transport has no such functions.
struct PutFunctions {
    decltype(&tern_uct_ep_put_am_short) put_am = nullptr;
    decltype(&tern_uct_ep_put_am_bcopy) put_am_copy = nullptr;
    decltype(&tern_uct_ep_put_am_zcopy) put_am_in_place = nullptr;
    decltype(&tern_uct_ep_put_word_short) put_word = nullptr;
    decltype(&tern_uct_ep_put_word_bcopy) put_word_copy = nullptr;
    decltype(&tern_uct_ep_put_word_zcopy) put_word_in_place = nullptr;
};

// Where an interface is reached.
struct InterfaceAddress {
    std::vector<std::byte> device;
    std::vector<std::byte> interface;
};

// A UCT interface with its worker, and a memory domain that other contexts may share. If the
// interface connects endpoint to endpoint, a second one (ud_verbs) carries the wireup messages,
// which exchange the endpoints' addresses.
class Transport {
  public:
    // Opens the first resource that fits RWAPI_TLS and RWAPI_DEVICE. 0 or an RWAPI_ERR_*.
    int open(const TransportEvents& events, int threads);

    const Limits& limits() const { return limits_; }
    const std::string& transport() const { return transport_; }
    bool needs_wireup() const { return wireup_ != nullptr; }

    InterfaceAddress address() const { return address_of(interface_.get()); }
    InterfaceAddress wireup_address() const { return address_of(wireup_.get()); }

    // An endpoint that is connected to an interface, or is to be connected to an endpoint. Null: no
    // memory, or an invalid address.
    Endpoint connect(const InterfaceAddress& peer) const { return create(interface_.get(), &peer); }
    Endpoint connect_wireup(const InterfaceAddress& peer) const {
        return create(wireup_.get(), &peer);
    }
    Endpoint create_unconnected() const { return create(interface_.get(), nullptr); }
    std::vector<std::byte> address_of(const Endpoint& endpoint) const;
    ucs_status_t connect_to(const Endpoint& endpoint, const InterfaceAddress& peer,
                            std::span<const std::byte> endpoint_address) const;

    unsigned progress() { return worker_progress_(worker_.get()); }
    bool can_check() const { return can_check_; }
    bool can_check_wireup() const { return can_check_wireup_; }
    const PutFunctions& put_functions() const { return put_functions_; }

    // A descriptor that becomes readable at the first event after arm() has returned UCS_OK.
    // Negative: the transport has none.
    int event_fd();
    ucs_status_t arm();
    // Makes the descriptor readable. For any thread.
    void wake() const;

    uct_md_h domain() const { return domain_->get(); }
    SharedDomain& shared_domain() const { return *domain_; }
    uct_component_h component() const { return component_; }
    size_t rkey_length() const { return rkey_length_; }

    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    ~Transport();

  private:
    bool open_resource(const Resource& resource, const TransportEvents& events);
    bool open_wireup(const std::vector<Resource>& all, const Resource& resource,
                     const TransportEvents& events);
    Interface open_interface(uct_md_h md, const Resource& resource, const TransportEvents& events,
                             bool is_wireup) const;
    static void on_wireup_event(void* transport, unsigned);
    InterfaceAddress address_of(uct_iface_h iface) const;
    Endpoint create(uct_iface_h iface, const InterfaceAddress* peer) const;

    Async async_;
    Worker worker_;
    WorkerProgress worker_progress_;
    uct_component_h component_ = nullptr;
    std::shared_ptr<SharedDomain> domain_;
    Interface interface_;
    std::shared_ptr<SharedDomain> wireup_domain_;
    Interface wireup_;
    Limits limits_{};
    uint64_t max_transfer_ = UINT64_MAX;
    size_t rkey_length_ = 0;
    size_t endpoint_length_ = 0;
    bool connects_endpoints_ = false;
    bool can_check_ = false;
    bool can_check_wireup_ = false;
    PutFunctions put_functions_;
    int event_fd_ = -1;
    int wake_fd_ = -1;  // an eventfd for ud_verbs, which has a callback in UCX's thread instead of
                        // a descriptor
    std::string transport_;
};

}  // namespace rwapi
