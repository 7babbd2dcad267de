// SPDX-License-Identifier: BSD-3-Clause
// RAII over the public UCT API, as far as a benchmark of active messages needs it.
#pragma once

#include <uct/api/uct.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/clock.h"

namespace bench {

// Addresses, as they go from worker to worker. Plain data.
struct IfaceAddress {
    std::array<unsigned char, 128> device;
    std::array<unsigned char, 128> iface;
};
struct EndpointAddress {
    std::array<unsigned char, 128> bytes;
};

class UctEndpoint {
  public:
    UctEndpoint() = default;
    // `needs_connecting`: it is one of a transport that connects endpoint to endpoint.
    UctEndpoint(uct_ep_h ep, bool needs_connecting)
        : ep_(ep), needs_connecting_(needs_connecting) {}
    ~UctEndpoint() { reset(); }
    UctEndpoint(UctEndpoint&& other) noexcept
        : ep_(std::exchange(other.ep_, nullptr)), needs_connecting_(other.needs_connecting_) {}
    UctEndpoint& operator=(UctEndpoint&& other) noexcept {
        reset();
        ep_ = std::exchange(other.ep_, nullptr);
        needs_connecting_ = other.needs_connecting_;
        return *this;
    }

    uct_ep_h handle() const { return ep_; }
    bool needs_connecting() const { return needs_connecting_; }
    EndpointAddress address() const;
    void connect(const EndpointAddress& theirs, const IfaceAddress& their_iface);

  private:
    void reset() {
        if (ep_ != nullptr) uct_ep_destroy(ep_);
    }

    uct_ep_h ep_ = nullptr;
    bool needs_connecting_ = false;
};

// An interface of a transport on a device, with a worker of its own.
class UctIface {
  public:
    UctIface(const std::string& transport, const std::string& device);
    ~UctIface();
    UctIface(const UctIface&) = delete;
    UctIface& operator=(const UctIface&) = delete;

    void on_message(uint8_t id, uct_am_callback_t take, void* argument);
    IfaceAddress address() const;
    UctEndpoint create_endpoint(const IfaceAddress& peer) const;

    uint32_t max_message() const { return static_cast<uint32_t>(attributes_.cap.am.max_bcopy); }
    void progress() { uct_worker_progress(worker_); }
    // A message that begins with `header`; its other bytes mean nothing. Waits for room.
    void send(const UctEndpoint& endpoint, uint8_t id, uint64_t header, uint32_t size);
    // Until all that was sent has reached its peers.
    void flush();

  private:
    void open(const std::string& transport, const std::string& device);
    void close();

    ucs_async_context_t* async_ = nullptr;
    uct_worker_h worker_ = nullptr;
    uct_md_h md_ = nullptr;
    uct_iface_h iface_ = nullptr;
    uct_iface_attr_t attributes_ = {};
    std::vector<char> payload_;
};

}  // namespace bench
