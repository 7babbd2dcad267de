// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/handshake.h"

#include <algorithm>

namespace tern {
namespace {

// Saturates: an interval may be practically infinite.
uint64_t later(uint64_t now, uint64_t interval) {
    return interval > UINT64_MAX - now ? UINT64_MAX : now + interval;
}

bool newer(uint32_t token, uint32_t than) {
    return static_cast<int32_t>(token - than) > 0;
}

Packet answer_to(const Packet& packet, const PeerAddress& self, PacketType type) {
    Packet answer;
    answer.type = type;
    answer.peer_token = packet.token;
    answer.from = self.on_path(packet.from.path);
    answer.to = packet.from.interface;
    return answer;
}

}  // namespace

std::optional<Packet> answer_stray(const Packet& packet, const PeerAddress& self) {
    const bool asks = packet.type == PacketType::kConnect || packet.type == PacketType::kDisconnect;
    if (!asks || packet.peer_token == 0) return {};
    Packet gone = answer_to(packet, self, PacketType::kGone);
    gone.token = packet.peer_token;
    return gone;
}

Packet alive(const Packet& request, const PeerAddress& self) {
    return answer_to(request, self, PacketType::kAlive);
}

Packet refuse(const Packet& connect, const PeerAddress& self, Refusal why) {
    Packet gone = answer_to(connect, self, PacketType::kGone);
    gone.refusal = why;
    return gone;
}

uint32_t first_psn(uint32_t sender, uint32_t receiver) {
    return (sender * 0x85ebca6bu + receiver * 0x9e3779b1u) >> 8;
}

Handshake::Handshake(uint32_t token, const PeerAddress& self, const PeerAddress& peer,
                     const QpParameters& local, const HandshakeTimes& times)
    : token_(token),
      self_(self.on_path(peer.path)),
      peer_address_(peer),
      local_(local),
      times_(times) {}

Handshake::Actions Handshake::connect(uint64_t now) {
    Actions actions;
    if (state_ != State::kConnecting || deadline() != UINT64_MAX) return actions;
    start(now);
    prepare_packet(actions, PacketType::kConnect);
    return actions;
}

Handshake::Actions Handshake::receive(const Packet& packet, uint64_t now) {
    if (state_ == State::kClosed) return {};
    if (packet.type == PacketType::kConnect && peer_token_ != 0 &&
        newer(packet.token, peer_token_)) {
        // The peer has at most one connection to this side on each path, so the known one is over.
        Actions actions;
        actions.lost = state_ != State::kClosing;
        close(actions);
        return actions;
    }
    switch (packet.type) {
        case PacketType::kConnect:
            return receive_connect(packet, now);
        case PacketType::kDisconnect:
            return receive_disconnect(packet);
        case PacketType::kGone:
            return receive_gone(packet);
        case PacketType::kAlive:
            // The peer will handle the packet later: restart the limit.
            if (packet.peer_token == token_ && deadline() != UINT64_MAX)
                limit_at_ = later(now, limit());
            return {};
        default:
            return {};
    }
}

Handshake::Actions Handshake::receive_connect(const Packet& packet, uint64_t now) {
    Actions actions;
    const bool unknown = peer_token_ == 0;
    if ((packet.peer_token != 0 && packet.peer_token != token_) ||
        (packet.token != peer_token_ && !unknown)) {
        if (const auto answer = answer_stray(packet, self_)) {
            actions.send = true;
            actions.packet = *answer;
        }
        return actions;
    }
    if (state_ > State::kUp) return actions;

    if (unknown) {
        peer_token_ = packet.token;
        peer_qp_ = packet.qp;
        state_ = State::kReady;
        start(now);
        actions.connect_qp = true;
    }
    if (state_ == State::kReady && packet.ready) {
        state_ = State::kUp;
        actions.established = true;
    }
    if (!packet.knows_ready) prepare_packet(actions, PacketType::kConnect);
    return actions;
}

Handshake::Actions Handshake::receive_disconnect(const Packet& packet) {
    Actions actions;
    if (packet.token != peer_token_ || packet.peer_token != token_) {
        if (const auto answer = answer_stray(packet, self_)) {
            actions.send = true;
            actions.packet = *answer;
        }
        return actions;
    }
    peer_sent_ = packet.sent;
    if (state_ == State::kReady || state_ == State::kUp) {
        state_ = State::kDraining;
        actions.drain = true;
    } else if (state_ == State::kDraining) {
        // This side's operations are not over: the peer must wait.
        actions.send = true;
        actions.packet = alive(packet, self_);
    } else if (state_ == State::kClosing) {
        // Both sides disconnect: nothing is outstanding.
        prepare_packet(actions, PacketType::kGone);
        close(actions);
    }
    return actions;
}

Handshake::Actions Handshake::receive_gone(const Packet& packet) {
    Actions actions;
    // A peer that cannot connect may refuse before its token is known.
    if (packet.peer_token != token_ || (packet.token != peer_token_ && peer_token_ != 0))
        return actions;
    actions.lost = state_ != State::kClosing;
    actions.refusal = packet.refusal;
    if (packet.sent) peer_sent_ = packet.sent;
    close(actions);
    return actions;
}

Handshake::Actions Handshake::data_arrived(uint64_t) {
    Actions actions;
    if (state_ != State::kReady) return actions;
    state_ = State::kUp;
    actions.established = true;
    return actions;
}

Handshake::Actions Handshake::disconnect(uint64_t now, const SentFrames& sent) {
    Actions actions;
    if (state_ != State::kUp) return actions;
    sent_ = sent;
    state_ = State::kClosing;
    start(now);
    prepare_packet(actions, PacketType::kDisconnect);
    return actions;
}

Packet Handshake::spare() const {
    Actions actions;
    prepare_packet(actions, PacketType::kSpare);
    return actions.packet;
}

Handshake::Actions Handshake::drained(const SentFrames& sent) {
    if (state_ != State::kDraining) return {};
    sent_ = sent;
    return abandon();
}

Handshake::Actions Handshake::abandon(Refusal why) {
    Actions actions;
    if (state_ == State::kClosed) return actions;
    if (peer_token_ != 0) prepare_packet(actions, PacketType::kGone);
    actions.packet.refusal = why;
    close(actions);
    return actions;
}

Handshake::Actions Handshake::tick(uint64_t now) {
    Actions actions;
    if (now < deadline()) return actions;
    // The time by which this call is late does not count: this side sent nothing in it.
    if (now > retry_at_) limit_at_ = later(limit_at_, now - retry_at_);
    if (now >= limit_at_) {
        const bool disconnecting = state_ == State::kClosing;
        actions = abandon();
        actions.timed_out = !disconnecting;
        return actions;
    }
    interval_ = std::min(later(interval_, interval_), times_.retry_most);
    set_retry(now);
    prepare_packet(actions,
                   state_ == State::kClosing ? PacketType::kDisconnect : PacketType::kConnect);
    return actions;
}

uint64_t Handshake::deadline() const {
    const bool waiting =
        state_ == State::kConnecting || state_ == State::kReady || state_ == State::kClosing;
    return waiting ? std::min(retry_at_, limit_at_) : UINT64_MAX;
}

void Handshake::want(bool wanted, uint64_t now) {
    if (state_ > State::kReady || wanted == wanted_) return;
    wanted_ = wanted;
    if (deadline() != UINT64_MAX) limit_at_ = later(now, limit());
}

uint64_t Handshake::limit() const {
    const bool brief = state_ == State::kClosing ? !patient_ : !wanted_;
    return brief ? times_.disconnect_limit : times_.connect_limit;
}

// Packets that were lost because many came at once would be lost together again: the intervals are
// shorter by a share that depends on the connection.
void Handshake::set_retry(uint64_t now) {
    const uint64_t mixed =
        (self_.interface.instance ^ uint64_t{token_} << 32 ^ interval_) * 0x9e3779b97f4a7c15u;
    const double share = static_cast<double>(mixed >> 40) / (1 << 24) * times_.jitter / 100;
    const auto less = static_cast<uint64_t>(static_cast<double>(interval_) * share);
    retry_at_ = later(now, interval_ - std::min(less, interval_));
}

void Handshake::start(uint64_t now) {
    interval_ = times_.retry_first;
    set_retry(now);
    limit_at_ = later(now, limit());
}

void Handshake::close(Actions& actions) {
    state_ = State::kClosed;
    actions.closed = true;
}

void Handshake::prepare_packet(Actions& actions, PacketType type) const {
    Packet& packet = actions.packet;
    actions.send = true;
    packet.type = type;
    packet.token = token_;
    packet.peer_token = peer_token_;
    packet.from = self_;
    packet.to = peer_address_.interface;
    if (type == PacketType::kDisconnect || type == PacketType::kGone) packet.sent = sent_;
    if (type != PacketType::kConnect) return;
    packet.ready = state_ == State::kReady || state_ == State::kUp;
    packet.knows_ready = state_ == State::kUp;
    packet.qp = local_;
}

}  // namespace tern
