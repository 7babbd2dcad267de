// SPDX-License-Identifier: BSD-3-Clause
// Active messages over one UCT transport, through the public API alone.
#include <cstring>

#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"
#include "bench/tern-bench/uct_iface.h"

namespace bench {
namespace {

constexpr uint8_t kMessageId = 5;

class UctPort : public Port {
  public:
    UctPort(Peer& peer, const std::string& transport, const std::string& device)
        : peer_(peer), iface_(transport, device) {
        iface_.on_message(kMessageId, take, this);
        const IfaceAddress theirs = peer.exchange(iface_.address());
        endpoint_ = iface_.create_endpoint(theirs);
        if (iface_.connects_endpoints())
            UctIface::connect(endpoint_, peer.exchange(UctIface::address_of(endpoint_)), theirs);
        meet_in_progress(peer_, *this);
    }
    ~UctPort() override {
        try {
            iface_.flush();
            meet_in_progress(peer_, *this);
        } catch (const Failure&) {
            // The peer has ended already.
        }
    }

    Samples run(const Order& order) override {
        if (order.size > iface_.max_message()) return {};
        const Samples samples = order.kind == Order::Kind::kStream ? stream(peer_, *this, order)
                                                                   : ping_pong(peer_, *this, order);
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

    // The header, the first 8 bytes, numbers the messages.
    void send(uint32_t size) { iface_.send(endpoint_, kMessageId, sent_++, size); }

  private:
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
    uint64_t sent_ = 0;
    uint64_t awaited_ = 0;
    uint64_t received_ = 0;
    uint64_t out_of_order_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_uct_port(Peer& peer, const WorkerJob& job) {
    return std::make_unique<UctPort>(peer, job.what, job.device);
}

}  // namespace bench
