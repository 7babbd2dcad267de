// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

namespace tern {

verbs::QueuePair QueuePairs::create(uint32_t sends, const char*& what) const {
    ibv_qp_cap capacity{};
    verbs::QueueSizes wanted = sizes;
    wanted.sends = sends;
    auto qp = verbs::create_queue_pair(pd, IBV_QPT_RC, cq, srq, wanted, capacity);
    if (!qp) {
        what = "cannot create a queue pair";
        return qp;
    }
    const int error = verbs::init_reliable(qp.get(), port);
    if (error == 0) return qp;
    what = "cannot initialise a queue pair";
    qp.reset();
    errno = error;
    return qp;
}

QpParameters QueuePairs::parameters(const ibv_qp& qp) const {
    return {.qp_num = qp.qp_num,
            .mtu = static_cast<uint8_t>(port.mtu),
            .version = QpParameters::kVersion,
            .reads = port.reads,
            .lmc = port.attributes.lmc};
}

int QueuePairs::connect(ibv_qp* qp, const PeerAddress& peer, const Handshake& handshake) const {
    const QpParameters& there = handshake.peer();
    const uint32_t own_token = handshake.token();
    const uint32_t peer_token = handshake.peer_token();
    return verbs::connect_reliable(qp, port, retry, address_vector(port, own, peer, there.lmc),
                                   there.qp_num, first_psn(peer_token, own_token),
                                   first_psn(own_token, peer_token),
                                   static_cast<ibv_mtu>(there.mtu), there.reads);
}

Acceptor::Acceptor(const QueuePairs& queue_pairs, const PeerAddress& self,
                   const HandshakeTimes& times)
    : queue_pairs_(queue_pairs), self_(self), times_(times), token_(std::random_device{}()) {}

uint32_t Acceptor::next_token() {
    const uint32_t token = token_.fetch_add(1, std::memory_order_relaxed);
    return token != 0 ? token : next_token();
}

bool Acceptor::opens(const Packet& packet) {
    return packet.type == PacketType::kConnect && packet.peer_token == 0 && !packet.ready &&
           packet.qp.version == QpParameters::kVersion;
}

bool Acceptor::accept(const Packet& packet, uint64_t now, Packet& reply) {
    if (!opens(packet) || packet.from.has_interface_of(self_)) return false;
    uint32_t sends = queue_pairs_.later_sends;
    {
        const std::lock_guard lock(mutex_);
        const auto known = find(packet.from);
        if (known != accepted_.end()) {
            if (packet.token != known->peer_token) return false;
            reply = known->handshake.receive(packet, now).packet;
            return true;
        }
        if (claimed_.contains(packet.from) || accepted_.size() == kMost ||
            !allowed_.load(std::memory_order_relaxed))
            return false;
        making_ = packet.from;
        if (accepted_.size() < long_queues_.load(std::memory_order_relaxed))
            sends = queue_pairs_.sizes.sends;
    }
    std::optional<Accepted> made = make(packet, sends, now, reply);
    const std::lock_guard lock(mutex_);
    const bool wanted = std::exchange(making_, std::nullopt).has_value();
    if (!made || !wanted) return false;
    accepted_.push_back(std::move(*made));
    count_.store(static_cast<uint32_t>(accepted_.size()), std::memory_order_release);
    return true;
}

std::optional<Acceptor::Accepted> Acceptor::make(const Packet& packet, uint32_t sends, uint64_t now,
                                                 Packet& reply) {
    const char* what = nullptr;  // unused: the owner fails likewise, and reports it
    auto qp = queue_pairs_.create(sends, what);
    if (!qp) return {};
    const uint32_t token = next_token();
    Handshake handshake(token, self_, packet.from, queue_pairs_.parameters(*qp), times_);
    const auto actions = handshake.receive(packet, now);
    if (queue_pairs_.connect(qp.get(), packet.from, handshake) != 0) return {};
    reply = actions.packet;
    return Accepted{packet.from, std::move(qp), handshake, packet.token, sends};
}

bool Acceptor::claim(const PeerAddress& peer) {
    const std::lock_guard lock(mutex_);
    if (find(peer) != accepted_.end()) return false;
    if (making_ == peer) making_.reset();
    claimed_.insert(peer);
    return true;
}

void Acceptor::release(const PeerAddress& peer) {
    const std::lock_guard lock(mutex_);
    claimed_.erase(peer);
}

std::vector<Acceptor::Accepted> Acceptor::take() {
    std::vector<Accepted> taken;
    const std::lock_guard lock(mutex_);
    taken.swap(accepted_);
    for (const Accepted& accepted : taken) claimed_.insert(accepted.peer);
    count_.store(0, std::memory_order_relaxed);
    return taken;
}

std::vector<Acceptor::Accepted>::iterator Acceptor::find(const PeerAddress& peer) {
    return std::find_if(accepted_.begin(), accepted_.end(),
                        [&](const Accepted& accepted) { return accepted.peer == peer; });
}

}  // namespace tern
