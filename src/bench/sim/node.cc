// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/node.h"

#include <array>
#include <cstring>
#include <new>

namespace bench::sim {
namespace {

constexpr uint8_t kMessageId = 5;

using Address = std::array<uint64_t, 32>;

struct Message {
    const char* payload;
    uint32_t size;
};

size_t pack(void* to, void* from) {
    const auto& message = *static_cast<Message*>(from);
    std::memcpy(to, message.payload, message.size);
    return message.size;
}

}  // namespace

Node::Node(Machine& machine, uint32_t rank, const TransportCosts& costs,
           const rwapi::Resource& resource, uint32_t ranks, uint64_t memory)
    : machine_(machine),
      rank_(rank),
      costs_(costs),
      component_(resource.component),
      // Pages that nobody writes to take no memory.
      buffer_bytes_(memory),
      buffer_(static_cast<char*>(std::calloc(memory + 1, 1)), &std::free) {
    if (!buffer_) throw std::bad_alloc();
    open(resource);
    peers_.resize(ranks);
}

void Node::open(const rwapi::Resource& resource) {
    if (const std::string reason = worker_progress_.misfit("tern-bench"); !reason.empty())
        throw Failure(reason);
    // No thread: it would act by the machine's time.
    async_ = created<rwapi::Async>("ucs_async_context_create", ucs_async_context_create,
                                   UCS_ASYNC_MODE_POLL);
    worker_ = created<rwapi::Worker>("uct_worker_create", uct_worker_create, async_.get(),
                                     UCS_THREAD_MODE_SINGLE);
    md_ = rwapi::open_domain(resource);
    if (!md_) throw Failure("UCX cannot open " + resource.domain);
    const auto config = created<Owner<uct_iface_config_t, uct_config_release>>(
        "uct_md_iface_config_read", uct_md_iface_config_read, md_.get(), resource.transport.c_str(),
        nullptr, nullptr);
    uct_iface_params_t parameters = {};
    parameters.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                            UCT_IFACE_PARAM_FIELD_STATS_ROOT | UCT_IFACE_PARAM_FIELD_RX_HEADROOM |
                            UCT_IFACE_PARAM_FIELD_CPU_MASK;
    parameters.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    parameters.mode.device.tl_name = resource.transport.c_str();
    parameters.mode.device.dev_name = resource.device.c_str();
    iface_ = created<rwapi::Interface>("uct_iface_open", uct_iface_open, md_.get(), worker_.get(),
                                       &parameters, config.get());
    check("uct_iface_query", uct_iface_query(iface_.get(), &attributes_));
    most_ = static_cast<uint32_t>(attributes_.cap.am.max_bcopy);
    payload_.resize(most_);
    const uint64_t sender = rank_;  // what a message begins with
    std::memcpy(payload_.data(), &sender, sizeof sender);
    check("uct_iface_set_am_handler",
          uct_iface_set_am_handler(iface_.get(), kMessageId, count, this, 0));
    uct_iface_progress_enable(iface_.get(), UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    completion_.func = [](uct_completion_t*) {};
    if (buffer_bytes_ == 0) return;
    check("uct_md_mem_reg",
          uct_md_mem_reg(md_.get(), buffer_.get(), buffer_bytes_, UCT_MD_MEM_ACCESS_ALL, &memory_));
}

void Node::make_endpoint(Node& peer) {
    Address device{}, iface{};
    auto* const device_address = reinterpret_cast<uct_device_addr_t*>(device.data());
    auto* const iface_address = reinterpret_cast<uct_iface_addr_t*>(iface.data());
    uct_ep_params_t parameters = {};
    parameters.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    parameters.iface = iface_.get();
    if ((attributes_.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) != 0) {
        check("uct_iface_get_device_address",
              uct_iface_get_device_address(peer.iface_.get(), device_address));
        check("uct_iface_get_address", uct_iface_get_address(peer.iface_.get(), iface_address));
        parameters.field_mask |= UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
        parameters.dev_addr = device_address;
        parameters.iface_addr = iface_address;
    }
    peers_[peer.rank_].endpoint =
        created<rwapi::Endpoint>("uct_ep_create", uct_ep_create, &parameters);
}

void Node::unpack_key(Node& peer) {
    if (buffer_bytes_ == 0) return;
    Address key{};
    check("uct_md_mkey_pack", uct_md_mkey_pack(peer.md_.get(), peer.memory_, key.data()));
    check("uct_rkey_unpack", uct_rkey_unpack(component_, key.data(), &peers_[peer.rank_].key));
    peers_[peer.rank_].memory = reinterpret_cast<uint64_t>(peer.buffer_.get());
}

void Node::connect(Node& one, Node& other) {
    for (Node* node : {&one, &other}) {
        Node& peer = node == &one ? other : one;
        node->make_endpoint(peer);
        node->unpack_key(peer);
    }
    if ((one.attributes_.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) != 0) return;
    for (Node* node : {&one, &other}) {
        Node& peer = node == &one ? other : one;
        Address device{}, endpoint{};
        auto* const device_address = reinterpret_cast<uct_device_addr_t*>(device.data());
        auto* const endpoint_address = reinterpret_cast<uct_ep_addr_t*>(endpoint.data());
        check("uct_iface_get_device_address",
              uct_iface_get_device_address(peer.iface_.get(), device_address));
        check("uct_ep_get_address",
              uct_ep_get_address(peer.peers_[node->rank_].endpoint.get(), endpoint_address));
        check("uct_ep_connect_to_ep", uct_ep_connect_to_ep(node->peers_[peer.rank_].endpoint.get(),
                                                           device_address, endpoint_address));
    }
}

bool Node::send(uint32_t peer, uint32_t size) {
    machine_.spend(ns_of(costs_.send));
    uct_ep_h endpoint = peers_[peer].endpoint.get();
    Message message{payload_.data(), size};
    const ssize_t sent =
        size <= attributes_.cap.am.max_short
            ? ssize_t{uct_ep_am_short(endpoint, kMessageId, rank_, payload_.data(), size - 8)}
            : uct_ep_am_bcopy(endpoint, kMessageId, pack, &message, 0);
    if (sent == UCS_ERR_NO_RESOURCE) return false;
    if (sent < 0) check("a message", static_cast<ucs_status_t>(sent));
    ++done_;
    return true;
}

bool Node::access(uint32_t peer, uint64_t size, Access* operation) {
    machine_.spend(ns_of(costs_.send));
    const uct_iov_t iov = {buffer_.get(), size, memory_, 0, 1};
    ++completion_.count;
    const ucs_status_t status = operation(peers_[peer].endpoint.get(), &iov, 1, peers_[peer].memory,
                                          peers_[peer].key.rkey, &completion_);
    if (status != UCS_INPROGRESS) --completion_.count;
    if (status == UCS_ERR_NO_RESOURCE) return false;
    if (status != UCS_OK && status != UCS_INPROGRESS) check("a put or get", status);
    ++done_;
    return true;
}

ucs_status_t Node::count(void* node, void* data, size_t size, unsigned) {
    auto& me = *static_cast<Node*>(node);
    uint64_t sender;
    std::memcpy(&sender, data, sizeof sender);
    ++me.received_;
    ++me.peers_[sender].received;
    if (me.copies_) me.machine_.spend(copy_ns(size));
    return UCS_OK;
}

std::suspend_always Node::step() {
    const uint64_t polls = machine_.polls();
    const uint64_t received = received_;
    machine_.spend(ns_of(costs_.poll));
    worker_progress_(worker_.get());
    if (machine_.polls() != polls) machine_.spend(ns_of(costs_.full_poll - costs_.poll));
    machine_.spend(ns_of(costs_.receive.of(received_ - received)));
    return {};
}

bool Node::flush() {
    const ucs_status_t status = uct_iface_flush(iface_.get(), 0, nullptr);
    if (status == UCS_INPROGRESS || status == UCS_ERR_NO_RESOURCE) return false;
    check("uct_iface_flush", status);
    ++done_;
    return true;
}

std::suspend_always Node::compute(uint64_t ns) {
    machine_.spend(ns);
    ++done_;
    return {};
}

}  // namespace bench::sim
