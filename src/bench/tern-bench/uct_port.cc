// SPDX-License-Identifier: BSD-3-Clause
// Active messages over one UCT transport, through the public API alone.
#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "bench/measure/link.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"
#include "bench/tern-bench/ucp_link.h"

namespace bench {
namespace {

constexpr uint8_t kMessageId = 5;

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

template <typename Config>
using UniqueConfig = std::unique_ptr<Config, tern::verbs::Destroyer<uct_config_release>>;

// The names of a component's memory domains.
std::vector<uct_md_resource_desc_t> domains_of(uct_component_h component) {
    uct_component_attr_t attributes = {};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    check("uct_component_query", uct_component_query(component, &attributes));
    std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attributes.md_resources = domains.data();
    check("uct_component_query", uct_component_query(component, &attributes));
    return domains;
}

bool offers(uct_md_h md, const std::string& transport, const std::string& device) {
    uct_tl_resource_desc_t* list = nullptr;
    unsigned count = 0;
    if (uct_md_query_tl_resources(md, &list, &count) != UCS_OK) return false;
    const std::unique_ptr<uct_tl_resource_desc_t,
                          tern::verbs::Destroyer<uct_release_tl_resource_list>>
        keeper(list);
    for (unsigned i = 0; i < count; ++i) {
        if (transport == list[i].tl_name && device == list[i].dev_name) return true;
    }
    return false;
}

// The memory domain in which the transport is offered on the device; null if there is none.
UniqueMd open_domain(const std::string& transport, const std::string& device) {
    uct_component_h* list = nullptr;
    unsigned count = 0;
    check("uct_query_components", uct_query_components(&list, &count));
    const std::unique_ptr<uct_component_h, tern::verbs::Destroyer<uct_release_component_list>>
        keeper(list);
    for (unsigned i = 0; i < count; ++i) {
        for (const uct_md_resource_desc_t& domain : domains_of(list[i])) {
            uct_md_config_t* config = nullptr;
            check("uct_md_config_read", uct_md_config_read(list[i], nullptr, nullptr, &config));
            const UniqueConfig<uct_md_config_t> config_keeper(config);
            uct_md_h opened = nullptr;
            if (uct_md_open(list[i], domain.md_name, config, &opened) != UCS_OK) continue;
            UniqueMd md(opened);
            if (offers(opened, transport, device)) return md;
        }
    }
    return nullptr;
}

// An interface of a transport on a device, with its own worker.
class UctIface {
  public:
    UctIface(const std::string& transport, const std::string& device);

    void on_message(uct_am_callback_t take, void* argument);
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
    void send(const UctEndpoint& endpoint, uint64_t header, uint32_t size);
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

UctIface::UctIface(const std::string& transport, const std::string& device)
    : md_(open_domain(transport, device)) {
    if (md_ == nullptr) throw Failure("UCX has no transport " + transport + " on " + device);
    ucs_async_context_t* async = nullptr;
    check("ucs_async_context_create",
          ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async));
    async_.reset(async);
    uct_worker_h worker = nullptr;
    check("uct_worker_create", uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker));
    worker_.reset(worker);
    uct_iface_config_t* config = nullptr;
    check("uct_md_iface_config_read",
          uct_md_iface_config_read(md_.get(), transport.c_str(), nullptr, nullptr, &config));
    const UniqueConfig<uct_iface_config_t> keeper(config);
    uct_iface_params_t parameters = {};
    parameters.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                            UCT_IFACE_PARAM_FIELD_STATS_ROOT | UCT_IFACE_PARAM_FIELD_RX_HEADROOM |
                            UCT_IFACE_PARAM_FIELD_CPU_MASK;
    parameters.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    parameters.mode.device.tl_name = transport.c_str();
    parameters.mode.device.dev_name = device.c_str();
    uct_iface_h iface = nullptr;
    check("uct_iface_open " + transport,
          uct_iface_open(md_.get(), worker, &parameters, config, &iface));
    iface_.reset(iface);
    check("uct_iface_query", uct_iface_query(iface, &attributes_));
    const IfaceAddress room = {};
    if (attributes_.device_addr_len > room.device.size() ||
        attributes_.iface_addr_len > room.iface.size() ||
        attributes_.ep_addr_len > sizeof(EndpointAddress)) {
        throw Failure("addresses of " + transport + " are too long");
    }
    payload_.resize(std::max(attributes_.cap.am.max_short, attributes_.cap.am.max_bcopy));
    uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

void UctIface::on_message(uct_am_callback_t take, void* argument) {
    check("uct_iface_set_am_handler",
          uct_iface_set_am_handler(iface_.get(), kMessageId, take, argument, 0));
}

IfaceAddress UctIface::address() const {
    IfaceAddress address = {};
    check("uct_iface_get_device_address",
          uct_iface_get_device_address(
              iface_.get(), reinterpret_cast<uct_device_addr_t*>(address.device.data())));
    if (!connects_endpoints()) {
        check("uct_iface_get_address",
              uct_iface_get_address(iface_.get(),
                                    reinterpret_cast<uct_iface_addr_t*>(address.iface.data())));
    }
    return address;
}

UctEndpoint UctIface::create_endpoint(const IfaceAddress& peer) const {
    uct_ep_params_t parameters = {};
    parameters.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    parameters.iface = iface_.get();
    if (!connects_endpoints()) {
        parameters.field_mask |= UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
        parameters.dev_addr = reinterpret_cast<const uct_device_addr_t*>(peer.device.data());
        parameters.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(peer.iface.data());
    }
    uct_ep_h ep = nullptr;
    check("uct_ep_create", uct_ep_create(&parameters, &ep));
    return UctEndpoint(ep);
}

EndpointAddress UctIface::address_of(const UctEndpoint& endpoint) {
    EndpointAddress address = {};
    check(
        "uct_ep_get_address",
        uct_ep_get_address(endpoint.get(), reinterpret_cast<uct_ep_addr_t*>(address.bytes.data())));
    return address;
}

void UctIface::connect(const UctEndpoint& endpoint, const EndpointAddress& theirs,
                       const IfaceAddress& their_iface) {
    check("uct_ep_connect_to_ep",
          uct_ep_connect_to_ep(
              endpoint.get(), reinterpret_cast<const uct_device_addr_t*>(their_iface.device.data()),
              reinterpret_cast<const uct_ep_addr_t*>(theirs.bytes.data())));
}

void UctIface::send(const UctEndpoint& endpoint, uint64_t header, uint32_t size) {
    struct Message {
        uint64_t header;
        uint32_t size;
        const char* payload;
    } message{header, size, payload_.data()};
    const auto pack = [](void* to, void* from) -> size_t {
        const auto* const packed = static_cast<Message*>(from);
        std::memcpy(to, &packed->header, sizeof packed->header);
        std::memcpy(static_cast<char*>(to) + 8, packed->payload, packed->size - 8);
        return packed->size;
    };
    const bool is_short = size <= attributes_.cap.am.max_short;
    Patience patience("room to send");
    while (true) {
        ssize_t sent;
        if (is_short) {
            sent = uct_ep_am_short(endpoint.get(), kMessageId, header, payload_.data(), size - 8);
        } else {
            sent = uct_ep_am_bcopy(endpoint.get(), kMessageId, pack, &message, 0);
        }
        if (sent >= 0) return;
        const auto status = static_cast<ucs_status_t>(sent);
        if (status != UCS_ERR_NO_RESOURCE) check("sending", status);
        progress();
        patience.spend();
    }
}

void UctIface::flush() {
    Patience patience("what was sent");
    for (;;) {
        const ucs_status_t status = uct_iface_flush(iface_.get(), 0, nullptr);
        if (status == UCS_OK) return;
        if (status != UCS_INPROGRESS && status != UCS_ERR_NO_RESOURCE) {
            check("uct_iface_flush", status);
        }
        progress();
        patience.spend();
    }
}

class UctPort : public Port {
  public:
    UctPort(Peer& peer, const std::string& transport, const std::string& device)
        : iface_(transport, device) {
        iface_.on_message(take, this);
        connect(peer);
    }
    ~UctPort() override {
        try {
            iface_.flush();
            // The peers that end later do not have to wait for each other.
            for (const Connection& connection : connections_) connection.peer->channel().put('.');
            for (const Connection& connection : connections_)
                await_in_progress(*connection.peer, *this);
        } catch (const Failure&) {
            // The peer has ended already.
        }
    }

    Samples run(const Order& order) override {
        if (order.size > iface_.max_message()) return {};
        now_ = &connections_[std::min<size_t>(order.peer, connections_.size() - 1)];
        const Samples samples = order.kind == Order::Kind::kStream
                                    ? stream(*now_->peer, *this, order)
                                    : ping_pong(*now_->peer, *this, order);
        iface_.flush();
        if (out_of_order_ != 0) throw Failure("messages came out of order or were damaged");
        return samples;
    }
    void add_peer(Peer& peer) override { connect(peer); }

    void progress() { iface_.progress(); }

    void receive(uint32_t) {
        ++now_->awaited;
        Patience patience("messages");
        while (now_->received < now_->awaited) {
            progress();
            patience.spend();
        }
    }

    // The header, the first 8 bytes, numbers the messages.
    void send(uint32_t size) { iface_.send(now_->endpoint, now_->sent++, size); }

  private:
    struct Connection {
        Peer* peer;
        UctEndpoint endpoint;
        uint64_t sent = 0;
        uint64_t awaited = 0;
        uint64_t received = 0;
    };

    void connect(Peer& peer) {
        const IfaceAddress theirs = peer.exchange(iface_.address());
        now_ = &connections_.emplace_back(Connection{&peer, iface_.create_endpoint(theirs)});
        if (iface_.connects_endpoints()) {
            const EndpointAddress mine = UctIface::address_of(now_->endpoint);
            UctIface::connect(now_->endpoint, peer.exchange(mine), theirs);
        }
        meet_in_progress(peer, *this);
    }
    static ucs_status_t take(void* self, void* data, size_t, unsigned) {
        auto* const port = static_cast<UctPort*>(self);
        uint64_t number;
        std::memcpy(&number, data, sizeof number);
        if (number != port->now_->received) ++port->out_of_order_;
        ++port->now_->received;
        return UCS_OK;
    }

    UctIface iface_;
    std::deque<Connection> connections_;
    Connection* now_ = nullptr;  // that of the order
    uint64_t out_of_order_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_uct_port(Peer& peer, const WorkerJob& job) {
    return std::make_unique<UctPort>(peer, job.what, job.device);
}

}  // namespace bench
