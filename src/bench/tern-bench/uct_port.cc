// SPDX-License-Identifier: BSD-3-Clause
// Active messages over one UCT transport, through the public API alone.
#include <algorithm>
#include <cstring>

#include "bench/measure/exchange.h"
#include "bench/measure/uct.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

constexpr uint8_t kMessageId = 5;

class UctPort : public Port {
  public:
    UctPort(Peer& peer, const WorkerJob& job)
        : peer_(peer),
          interface_(resources_of(job.what, job.device), UCS_ASYNC_MODE_THREAD_SPINLOCK) {
        payload_.resize(std::max(attributes().cap.am.max_short, attributes().cap.am.max_bcopy));
        interface_.begin(kMessageId, take, this);
        connect();
    }
    ~UctPort() override {
        try {
            flush();
            peer_.channel().put('.');
            await_in_progress(peer_, *this);
        } catch (const Failure&) {
            // The peer has ended already.
        }
    }

    Samples run(const Order& order) override {
        if (order.size > attributes().cap.am.max_bcopy) return {};
        Samples samples = run_messages(peer_, *this, order);
        flush();
        if (out_of_order_ != 0) throw Failure("messages came out of order or were damaged");
        return samples;
    }

    void progress() { interface_.progress(); }

    void receive(uint32_t) {
        ++awaited_;
        wait_until(
            "messages", [&] { return received_ >= awaited_; }, [&] { progress(); });
    }

    // The header, the first 8 bytes, numbers the messages; the rest is arbitrary. Waits for room.
    void send(uint32_t size) {
        Message message{sent_++, size, payload_.data()};
        uct_ep_h endpoint = endpoint_.get();
        const bool is_short = size <= attributes().cap.am.max_short;
        const auto is_sent = [&] {
            const ssize_t sent = is_short
                                     ? ssize_t{uct_ep_am_short(endpoint, kMessageId, message.number,
                                                               message.payload, size - 8)}
                                     : uct_ep_am_bcopy(endpoint, kMessageId, pack, &message, 0);
            if (sent == UCS_ERR_NO_RESOURCE) return false;
            if (sent < 0) check("sending", static_cast<ucs_status_t>(sent));
            return true;
        };
        wait_until("room to send", is_sent, [&] { progress(); });
    }

  private:
    struct Message {
        uint64_t number;
        uint32_t size;
        const char* payload;
    };

    const uct_iface_attr_t& attributes() const { return interface_.attributes(); }
    void connect() {
        const UctInterface::Addresses theirs = peer_.exchange(interface_.addresses());
        endpoint_ = interface_.make_endpoint(theirs);
        if (interface_.connects_endpoints())
            UctInterface::connect(endpoint_, theirs,
                                  peer_.exchange(UctInterface::address_of(endpoint_)));
        meet_in_progress(peer_, *this);
    }
    static size_t pack(void* to, void* from) {
        const auto* const message = static_cast<Message*>(from);
        std::memcpy(to, &message->number, sizeof message->number);
        std::memcpy(static_cast<char*>(to) + 8, message->payload, message->size - 8);
        return message->size;
    }
    static ucs_status_t take(void* self, void* data, size_t, unsigned) {
        auto* const port = static_cast<UctPort*>(self);
        uint64_t number;
        std::memcpy(&number, data, sizeof number);
        if (number != port->received_) ++port->out_of_order_;
        ++port->received_;
        return UCS_OK;
    }
    // Waits until all messages have reached the peer.
    void flush() {
        wait_until(
            "what was sent", [&] { return interface_.flush(); }, [&] { progress(); });
    }

    Peer& peer_;
    UctInterface interface_;
    std::vector<char> payload_;
    rwapi::Endpoint endpoint_;
    uint64_t sent_ = 0;
    uint64_t awaited_ = 0;
    uint64_t received_ = 0;
    uint64_t out_of_order_ = 0;
};

}  // namespace

const PortKind kUctPort = {"uct", open<UctPort>};

}  // namespace bench
