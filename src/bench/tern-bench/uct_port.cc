// SPDX-License-Identifier: BSD-3-Clause
// Active messages over one UCT transport, by the public API alone.
#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#include <cstring>
#include <vector>

#include "bench/tern-bench/exchange.h"
#include "bench/tern-bench/port.h"
#include "bench/tern-bench/uct_iface.h"

namespace bench {
namespace {

constexpr uint8_t kMessageId = 5;
constexpr uint32_t kMaxSize = 64 << 10;

class UctPort : public Port {
  public:
    UctPort(Peer& peer, const std::string& transport, const std::string& device)
        : peer_(peer), iface_(transport, device), payload_(kMaxSize) {
        iface_.on_message(kMessageId, take, this);
        const IfaceAddress theirs = peer.exchange(iface_.address());
        endpoint_ = iface_.create_endpoint(theirs);
        if (endpoint_.needs_connecting())
            endpoint_.connect(peer.exchange(endpoint_.address()), theirs);
        meet_in_progress(peer_, *this);
    }
    ~UctPort() override {
        try {
            iface_.flush();
            meet_in_progress(peer_, *this);
        } catch (const Failure&) {
            // The peer has gone before; there is nobody to be considerate of.
        }
    }

    Samples run(const Order& order) override {
        if (order.size > iface_.max_message()) return {};
        const Samples samples =
            order.kind == Order::Kind::kStream
                ? stream(peer_, *this, order)
                : ping_pong(peer_, *this, Trips(order.count, order.size, order.per_sample));
        if (out_of_order_ != 0) throw Failure("messages came out of order or were damaged");
        return samples;
    }

    void progress() { iface_.progress(); }

    void receive(uint32_t) {
        ++awaited_;
        Patience patience("messages");
        while (received_ < awaited_) {
            progress();
            patience.spend();
        }
    }

    // The first 8 bytes count the messages.
    void send(uint32_t size) {
        Patience patience("room to send");
        if (size <= iface_.max_short()) {
            while (true) {
                const ucs_status_t status = uct_ep_am_short(endpoint_.handle(), kMessageId, sent_,
                                                            payload_.data(), size - 8);
                if (status == UCS_OK) break;
                make_room("uct_ep_am_short", status);
                patience.spend();
            }
        } else {
            size_to_pack_ = size;
            while (true) {
                const ssize_t packed =
                    uct_ep_am_bcopy(endpoint_.handle(), kMessageId, pack, this, 0);
                if (packed >= 0) break;
                make_room("uct_ep_am_bcopy", static_cast<ucs_status_t>(packed));
                patience.spend();
            }
        }
        ++sent_;
    }

  private:
    void make_room(const char* what, ucs_status_t status) {
        if (status != UCS_ERR_NO_RESOURCE) throw uct_failure(what, status);
        progress();
    }
    static size_t pack(void* to, void* self) {
        auto* const port = static_cast<UctPort*>(self);
        std::memcpy(to, &port->sent_, sizeof port->sent_);
        std::memcpy(static_cast<char*>(to) + 8, port->payload_.data(), port->size_to_pack_ - 8);
        return port->size_to_pack_;
    }
    static ucs_status_t take(void* self, void* data, size_t, unsigned) {
        auto* const port = static_cast<UctPort*>(self);
        uint64_t number;
        std::memcpy(&number, data, sizeof number);
        if (number != port->received_) ++port->out_of_order_;
        ++port->received_;
        return UCS_OK;
    }

    Peer& peer_;
    UctIface iface_;
    UctEndpoint endpoint_;
    std::vector<char> payload_;
    uint64_t sent_ = 0;
    uint64_t awaited_ = 0;
    uint64_t received_ = 0;
    uint64_t out_of_order_ = 0;
    uint32_t size_to_pack_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_uct_port(Peer& peer, const std::string& transport,
                                    const std::string& device) {
    return std::make_unique<UctPort>(peer, transport, device);
}

}  // namespace bench
