// SPDX-License-Identifier: BSD-3-Clause
// RAII for the part of the public UCT API that active messages need.
#pragma once

#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/link.h"

namespace bench {

// Addresses, which workers exchange. Plain data.
struct IfaceAddress {
    std::array<unsigned char, 128> device;
    std::array<unsigned char, 128> iface;
};
struct EndpointAddress {
    std::array<unsigned char, 128> bytes;
};

using UctEndpoint = std::unique_ptr<uct_ep, tern::verbs::Destroyer<uct_ep_destroy>>;
using UniqueMd = std::unique_ptr<uct_md, tern::verbs::Destroyer<uct_md_close>>;

// An interface of a transport on a device, with its own worker.
class UctIface {
  public:
    UctIface(const std::string& transport, const std::string& device);

    void on_message(uint8_t id, uct_am_callback_t take, void* argument);
    IfaceAddress address() const;
    UctEndpoint create_endpoint(const IfaceAddress& peer) const;
    // Whether each endpoint must be connected to an endpoint of the peer.
    bool connects_endpoints() const {
        return (attributes_.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) == 0;
    }
    static EndpointAddress address_of(const UctEndpoint& endpoint);
    static void connect(const UctEndpoint& endpoint, const EndpointAddress& theirs,
                        const IfaceAddress& their_iface);

    uint32_t max_message() const { return static_cast<uint32_t>(attributes_.cap.am.max_bcopy); }
    void progress() { uct_worker_progress(worker_.get()); }
    // Sends a message of `size` bytes that begins with `header`; the rest is arbitrary. Waits for
    // room.
    void send(const UctEndpoint& endpoint, uint8_t id, uint64_t header, uint32_t size);
    // Waits until all messages have reached their peers.
    void flush();

  private:
    std::unique_ptr<ucs_async_context_t, tern::verbs::Destroyer<ucs_async_context_destroy>> async_;
    std::unique_ptr<uct_worker, tern::verbs::Destroyer<uct_worker_destroy>> worker_;
    UniqueMd md_;
    std::unique_ptr<uct_iface, tern::verbs::Destroyer<uct_iface_close>> iface_;
    uct_iface_attr_t attributes_ = {};
    std::vector<char> payload_;
};

}  // namespace bench
