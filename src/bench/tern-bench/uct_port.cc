// SPDX-License-Identifier: BSD-3-Clause
// Active messages over one UCT transport, through the public API alone.
#include <uct/api/uct.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "bench/measure/exchange.h"
#include "bench/tern-bench/ports.h"
#include "common/ucx/resources.h"
#include "common/ucx/worker_progress.h"

namespace bench {
namespace {

constexpr uint8_t kMessageId = 5;

// Of a device, an interface or an endpoint. Plain data, which workers exchange.
using UctAddress = std::array<unsigned char, 128>;
struct UctAddresses {
    UctAddress device;
    UctAddress iface;
};
template <typename Form>
Form* as(UctAddress& address) {
    return reinterpret_cast<Form*>(address.data());
}

// The memory domain in which the transport is offered on the device.
rwapi::Domain open_domain(const WorkerJob& job) {
    for (const rwapi::Resource& resource :
         rwapi::choose_resources(rwapi::list_resources(), job.what, job.device)) {
        if (rwapi::Domain domain = rwapi::open_domain(resource)) return domain;
    }
    throw Failure(std::string("UCX has no transport ") + job.what + " on " + job.device);
}

class UctPort : public Port {
  public:
    UctPort(Peer& peer, const WorkerJob& job)
        : peer_(peer),
          async_(created<decltype(async_)>("ucs_async_context_create", ucs_async_context_create,
                                           UCS_ASYNC_MODE_THREAD_SPINLOCK)),
          worker_(created<decltype(worker_)>("uct_worker_create", uct_worker_create, async_.get(),
                                             UCS_THREAD_MODE_SINGLE)),
          md_(open_domain(job)),
          iface_(open_iface(job)) {
        if (const std::string reason = worker_progress_.misfit("tern-bench"); !reason.empty())
            throw Failure(reason);
        check("uct_iface_query", uct_iface_query(iface_.get(), &attributes_));
        if (std::max({attributes_.device_addr_len, attributes_.iface_addr_len,
                      attributes_.ep_addr_len}) > sizeof(UctAddress)) {
            throw Failure(std::string("addresses of ") + job.what + " are too long");
        }
        payload_.resize(std::max(attributes_.cap.am.max_short, attributes_.cap.am.max_bcopy));
        uct_iface_progress_enable(iface_.get(), UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        check("uct_iface_set_am_handler",
              uct_iface_set_am_handler(iface_.get(), kMessageId, take, this, 0));
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
        if (order.size > attributes_.cap.am.max_bcopy) return {};
        Samples samples = run_messages(peer_, *this, order);
        flush();
        if (out_of_order_ != 0) throw Failure("messages came out of order or were damaged");
        return samples;
    }

    void progress() { worker_progress_(worker_.get()); }

    void receive(uint32_t) {
        ++awaited_;
        wait_until(
            "messages", [&] { return received_ >= awaited_; }, [&] { progress(); });
    }

    // The header, the first 8 bytes, numbers the messages; the rest is arbitrary. Waits for room.
    void send(uint32_t size) {
        Message message{sent_++, size, payload_.data()};
        uct_ep_h endpoint = endpoint_.get();
        const bool is_short = size <= attributes_.cap.am.max_short;
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

    rwapi::Interface open_iface(const WorkerJob& job) {
        const auto config = created<Owner<uct_iface_config_t, uct_config_release>>(
            "uct_md_iface_config_read", uct_md_iface_config_read, md_.get(), job.what, nullptr,
            nullptr);
        uct_iface_params_t parameters = {};
        parameters.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                                UCT_IFACE_PARAM_FIELD_STATS_ROOT |
                                UCT_IFACE_PARAM_FIELD_RX_HEADROOM | UCT_IFACE_PARAM_FIELD_CPU_MASK;
        parameters.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        parameters.mode.device.tl_name = job.what;
        parameters.mode.device.dev_name = job.device;
        return created<rwapi::Interface>(std::string("uct_iface_open ") + job.what, uct_iface_open,
                                         md_.get(), worker_.get(), &parameters, config.get());
    }
    // Whether each endpoint must be connected to an endpoint of the peer.
    bool connects_endpoints() const {
        return (attributes_.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) == 0;
    }
    UctAddresses addresses() const {
        UctAddresses mine = {};
        check("uct_iface_get_device_address",
              uct_iface_get_device_address(iface_.get(), as<uct_device_addr_t>(mine.device)));
        if (!connects_endpoints()) {
            check("uct_iface_get_address",
                  uct_iface_get_address(iface_.get(), as<uct_iface_addr_t>(mine.iface)));
        }
        return mine;
    }
    rwapi::Endpoint make_endpoint(UctAddresses& theirs) const {
        uct_ep_params_t parameters = {};
        parameters.field_mask = UCT_EP_PARAM_FIELD_IFACE;
        parameters.iface = iface_.get();
        if (!connects_endpoints()) {
            parameters.field_mask |= UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
            parameters.dev_addr = as<uct_device_addr_t>(theirs.device);
            parameters.iface_addr = as<uct_iface_addr_t>(theirs.iface);
        }
        return created<rwapi::Endpoint>("uct_ep_create", uct_ep_create, &parameters);
    }
    void connect() {
        UctAddresses theirs = peer_.exchange(addresses());
        endpoint_ = make_endpoint(theirs);
        if (connects_endpoints()) {
            UctAddress mine = {};
            uct_ep_h endpoint = endpoint_.get();
            check("uct_ep_get_address", uct_ep_get_address(endpoint, as<uct_ep_addr_t>(mine)));
            UctAddress other = peer_.exchange(mine);
            check("uct_ep_connect_to_ep",
                  uct_ep_connect_to_ep(endpoint, as<uct_device_addr_t>(theirs.device),
                                       as<uct_ep_addr_t>(other)));
        }
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
        const auto is_flushed = [&] {
            const ucs_status_t status = uct_iface_flush(iface_.get(), 0, nullptr);
            if (status == UCS_INPROGRESS || status == UCS_ERR_NO_RESOURCE) return false;
            check("uct_iface_flush", status);
            return true;
        };
        wait_until("what was sent", is_flushed, [&] { progress(); });
    }

    Peer& peer_;
    rwapi::Async async_;
    rwapi::Worker worker_;
    rwapi::WorkerProgress worker_progress_;
    rwapi::Domain md_;
    rwapi::Interface iface_;
    uct_iface_attr_t attributes_ = {};
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
