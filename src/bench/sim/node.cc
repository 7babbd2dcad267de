// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/node.h"

#include <cstring>
#include <new>

namespace bench::sim {
namespace {

constexpr uint8_t kMessageId = 5;

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

// UCT has no thread: it would act by the machine's time.
Node::Node(Machine& machine, uint32_t rank, const TransportCosts& costs,
           const std::vector<rwapi::Resource>& resources, uint32_t ranks, uint64_t memory)
    : machine_(machine),
      rank_(rank),
      costs_(costs),
      // Pages that nobody writes to take no memory.
      buffer_bytes_(memory),
      buffer_(static_cast<char*>(std::calloc(memory + 1, 1)), &std::free),
      interface_((own_timers(this), resources), UCS_ASYNC_MODE_POLL),
      most_(static_cast<uint32_t>(interface_.attributes().cap.am.max_bcopy)),
      payload_(most_),
      initiators_(costs.initiators) {
    if (!buffer_) throw std::bad_alloc();
    const uint64_t sender = rank_;  // what a message begins with
    std::memcpy(payload_.data(), &sender, sizeof sender);
    interface_.begin(kMessageId, count, this);
    completion_.func = [](uct_completion_t*) {};
    if (buffer_bytes_ != 0)
        check("uct_md_mem_reg", uct_md_mem_reg(interface_.domain(), buffer_.get(), buffer_bytes_,
                                               UCT_MD_MEM_ACCESS_ALL, &memory_));
    peers_.resize(ranks);
}

void Node::unpack_key(Node& peer) {
    if (buffer_bytes_ == 0) return;
    UctAddress key{};
    check("uct_md_mkey_pack", uct_md_mkey_pack(peer.interface_.domain(), peer.memory_, key.data()));
    check("uct_rkey_unpack",
          uct_rkey_unpack(interface_.component(), key.data(), &peers_[peer.rank_].key));
    peers_[peer.rank_].memory = reinterpret_cast<uint64_t>(peer.buffer_.get());
}

void Node::connect(Node& one, Node& other) {
    const auto both = [&](auto&& act) {
        act(one, other);
        act(other, one);
    };
    both([](Node& node, Node& peer) {
        node.peers_[peer.rank_].endpoint =
            node.interface_.make_endpoint(peer.interface_.addresses());
        node.unpack_key(peer);
    });
    if (!one.interface_.connects_endpoints()) return;
    both([](Node& node, Node& peer) {
        UctInterface::connect(node.peers_[peer.rank_].endpoint, peer.interface_.addresses(),
                              UctInterface::address_of(peer.peers_[node.rank_].endpoint));
    });
}

bool Node::send(uint32_t peer, uint32_t size) {
    const bool is_short = size <= interface_.attributes().cap.am.max_short;
    const uint64_t usual = ns_of(is_short ? costs_.send : costs_.copy);
    machine_.spend(usual);
    uct_ep_h endpoint = peers_[peer].endpoint.get();
    Message message{payload_.data(), size};
    const SendAppended appended(machine_);
    const ssize_t sent =
        is_short ? ssize_t{uct_ep_am_short(endpoint, kMessageId, rank_, payload_.data(), size - 8)}
                 : uct_ep_am_bcopy(endpoint, kMessageId, pack, &message, 0);
    if (sent == UCS_ERR_NO_RESOURCE) return false;
    if (sent < 0) check("a message", static_cast<ucs_status_t>(sent));
    // Nothing has happened at the time until which the costs of a usual send were counted.
    if (appended) machine_.set(machine_.now() - usual + costs_.append_ns(size, is_short));
    accepted(peer);
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
    accepted(peer);
    return true;
}

// The device cannot delay a single message, so the processor takes the time of connecting.
void Node::accepted(uint32_t peer) {
    if (initiators_.connects(peer)) machine_.spend(costs_.connect_ns);
    ++done_;
}

ucs_status_t Node::count(void* node, void* data, size_t size, unsigned) {
    auto& me = *static_cast<Node*>(node);
    uint64_t sender;
    std::memcpy(&sender, data, sizeof sender);
    ++me.received_;
    ++me.peers_[sender].received;
    if (me.copies_) me.machine_.copy(size);
    return UCS_OK;
}

std::suspend_always Node::step() {
    const uint64_t polls = machine_.polls();
    const uint64_t received = received_;
    machine_.spend(ns_of(costs_.poll));
    interface_.progress();
    if (machine_.polls() != polls) machine_.spend(ns_of(costs_.full_poll - costs_.poll));
    machine_.spend(ns_of(costs_.receive.of(received_ - received)));
    return {};
}

bool Node::flush() {
    if (!interface_.flush()) return false;
    ++done_;
    return true;
}

std::suspend_always Node::compute(uint64_t ns) {
    machine_.compute(this, ns);
    ++done_;
    return {};
}

}  // namespace bench::sim
