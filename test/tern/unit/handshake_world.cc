// SPDX-License-Identifier: BSD-3-Clause
#include "handshake_world.h"

#include <algorithm>

namespace tern {

HandshakeWorld::HandshakeWorld(Random random, bool alone) : random_(random) {
    times_.retry_first = random_.between(1, 20);
    times_.retry_most = times_.retry_first * random_.between(1, 16);
    times_.connect_limit = times_.retry_most * random_.between(2, 40);
    times_.disconnect_limit = times_.retry_most * random_.between(2, 40);
    loss_ = static_cast<unsigned>(random_.below(60));
    duplicate_ = static_cast<unsigned>(random_.below(60));
    prompt_ = random_.chance(50);
    sides_.resize(alone ? 1 : 2);
    for (Side& side : sides_) {
        side.address.port.has_lid = true;
        side.address.port.lid = 1;
        side.address.interface = {static_cast<uint32_t>(random_.below(1 << 24)),
                                  random_.below(uint64_t{1} << 40)};
        // Sometimes close to the point where tokens wrap around.
        side.last_token = random_.chance(30) ? UINT32_MAX - 3 : static_cast<uint32_t>(random_());
    }
}

void HandshakeWorld::broken(const std::string& rule) {
    if (wrong_.empty()) wrong_ = rule;
}

void HandshakeWorld::chaos(unsigned steps) {
    while (steps-- > 0 && wrong_.empty()) chaos_step();
    loss_ = duplicate_ = 0;
}

void HandshakeWorld::chaos_step() {
    const auto side = static_cast<int>(random_.below(sides_.size()));
    switch (random_.below(8)) {
        case 0:
        case 1:
        case 2: {
            if (network_.empty()) break;
            // Any datagram may be next, so they overtake each other. A datagram that stays comes
            // again.
            const size_t index = random_.below(network_.size());
            const Datagram datagram = network_[index];
            if (random_.chance(10)) {
                answer_aside(datagram);
                break;
            }
            if (!random_.chance(duplicate_)) {
                network_[index] = network_.back();
                network_.pop_back();
            }
            if (!random_.chance(loss_)) receive(datagram);
            break;
        }
        case 3:
            now_ += random_.chance(5) ? random_.below(times_.connect_limit * 2)
                                      : random_.below(times_.retry_first * 2);
            break;
        case 4:
            tick(side);
            break;
        case 5:
            if (!qps_.empty()) {
                // Mostly one of the latest queue pairs, because older ones are rarely alive.
                const size_t back = random_.below(std::min<size_t>(qps_.size(), 4));
                deliver_data(static_cast<uint32_t>(qps_.size() - back));
            }
            break;
        case 6:
            read_arrived(side);
            break;
        case 7:
            owner_step(side);
            break;
    }
}

void HandshakeWorld::owner_step(int side) {
    switch (random_.below(12)) {
        case 0:
        case 1:
        case 2:
        case 3:
            send(side);
            break;
        case 4:
        case 5:
            disconnect(side);
            break;
        case 6:
            if (random_.chance(30)) abandon(side);
            break;
        default:
            drain(side);
            start_anew(side);
            break;
    }
}

// The user sends a message.
void HandshakeWorld::send(int side) {
    ++sides_[side].waiting;
    start_anew(side);
    post_waiting(side);
}

void HandshakeWorld::open(int side, const Packet* packet) {
    Side& self = sides_[side];
    if (++self.last_token == 0) ++self.last_token;
    qps_.push_back({.side = side, .number = free_number(side), .token = self.last_token});
    self.connection =
        std::make_unique<Connection>(self.last_token, self.address, sides_[other(side)].address,
                                     static_cast<uint32_t>(qps_.size()), times_);
    Handshake& handshake = self.connection->handshake;
    act(side, packet != nullptr ? handshake.receive(*packet, now_) : handshake.connect(now_));
}

void HandshakeWorld::receive(const Datagram& datagram) {
    const auto packet = Packet::unpack(datagram.packet());
    if (!packet) return broken("a packet is not understood");
    Side& self = sides_[datagram.to];
    if (packet->to != self.address.interface || packet->from != sides_[other(datagram.to)].address)
        return broken("a packet is addressed wrongly");
    const size_t before = network_.size();
    if (packet->type == PacketType::kAlive && self.connection) ++self.connection->alive;
    if (!self.connection) {
        stray(datagram.to, *packet);
    } else {
        const auto actions = self.connection->handshake.receive(*packet, now_);
        act(datagram.to, actions);
        if (actions.closed && packet->type == PacketType::kConnect) stray(datagram.to, *packet);
    }
    if (prompt_) start_anew(datagram.to);
    if (network_.size() > before + 2) broken("a packet makes more than two");
}

// The interface computes. The background answers for it, and keeps the packet.
void HandshakeWorld::answer_aside(const Datagram& datagram) {
    const auto packet = Packet::unpack(datagram.packet());
    if (!packet || packet->type == PacketType::kGone || packet->type == PacketType::kAlive) return;
    Packet alive;
    alive.type = PacketType::kAlive;
    alive.peer_token = packet->token;
    alive.from = sides_[datagram.to].address;
    alive.to = packet->from.interface;
    put_on_wire(datagram.to, alive);
}

// A packet without a connection.
void HandshakeWorld::stray(int side, const Packet& packet) {
    if (packet.type == PacketType::kConnect && packet.peer_token == 0) {
        open(side, &packet);
    } else if (const auto answer = answer_stray(packet, sides_[side].address)) {
        put_on_wire(side, *answer);
    }
}

// Opens another connection if messages wait.
void HandshakeWorld::start_anew(int side) {
    if (!sides_[side].connection && sides_[side].waiting > 0) open(side, nullptr);
}

void HandshakeWorld::act(int side, const Handshake::Actions& actions, bool gave_up) {
    Side& self = sides_[side];
    Connection& connection = *self.connection;
    if (actions.connect_qp) {
        Qp& own = qp(connection.qp);
        if (own.connected_to != 0) broken("a queue pair is connected twice");
        own.connected_to = connection.handshake.peer().qp_num;
        own.peer_token = connection.handshake.peer_token();
    }
    if (actions.send) put_on_wire(side, actions.packet);
    if (actions.established) {
        const uint32_t peer = connection.handshake.peer().qp_num;
        if (connection.established) broken("a connection is established twice");
        if (qp(peer).connected_to != connection.qp || qp(connection.qp).connected_to != peer)
            broken("a side is up though the queue pairs are not connected to each other");
        connection.established = true;
        post_waiting(side);
    }
    if (actions.drain) connection.draining = true;
    if (actions.closed) closed(side, actions, gave_up);
}

void HandshakeWorld::closed(int side, const Handshake::Actions& actions, bool gave_up) {
    Side& self = sides_[side];
    read_arrived(side);
    const std::unique_ptr<Connection> connection = std::move(self.connection);
    Qp& own = qp(connection->qp);
    own.alive = false;
    own.aborted = gave_up || actions.lost || actions.timed_out;
    if (connection->ticks > most_ticks(connection->alive))
        broken("more retransmissions than there is time for");
    if (const uint32_t peer = own.connected_to) {
        // The peer's end of the same connection, unless the peer never heard of the connection.
        const Qp& end = qp(peer);
        if (actions.lost && end.alive)
            broken("a connection is called lost that the peer still has");
        if (!own.aborted) {
            if (own.acked != own.posted) broken("an orderly end with messages outstanding");
            if (!end.aborted && end.posted != own.read)
                broken("an orderly end lost messages of the peer");
        }
    }
    // If the attempt timed out, or a connection in use was aborted, waiting messages are given up.
    // Otherwise they wait for another connection.
    if (actions.timed_out || (own.aborted && connection->established)) self.waiting = 0;
}

void HandshakeWorld::put_on_wire(int side, const Packet& packet) {
    network_.push_back({other(side), {}, 0});
    network_.back().size = packet.pack(network_.back().bytes);
}

void HandshakeWorld::post_waiting(int side) {
    Side& self = sides_[side];
    if (!self.connection || self.connection->handshake.state() != Handshake::State::kUp) return;
    Qp& own = qp(self.connection->qp);
    own.posted += self.waiting;
    own.on_wire += self.waiting;
    self.waiting = 0;
}

void HandshakeWorld::read_arrived(int side) {
    Side& self = sides_[side];
    if (!self.connection) return;
    Qp& own = qp(self.connection->qp);
    if (own.read == own.arrived) return;
    sides_[other(side)].delivered += own.arrived - own.read;
    own.read = own.arrived;
    act(side, self.connection->handshake.data_arrived(now_));
}

void HandshakeWorld::tick(int side) {
    Side& self = sides_[side];
    if (!self.connection || self.connection->handshake.deadline() > now_) return;
    ++self.connection->ticks;
    const bool closing = self.connection->handshake.state() == Handshake::State::kClosing;
    const auto actions = self.connection->handshake.tick(now_);
    act(side, actions, actions.closed && closing);
}

void HandshakeWorld::deliver_data(uint32_t number) {
    Qp& from = qp(number);
    if (!from.alive || from.on_wire == 0) return;
    Qp& to = qp(from.connected_to);
    if (!to.alive || to.connected_to != number) {
        deliver_late(from, to);
        return abandon(from.side);
    }
    --from.on_wire;
    ++from.acked;
    ++to.arrived;
}

// A packet for a queue pair that is gone comes to the next one with its number.
void HandshakeWorld::deliver_late(const Qp& from, const Qp& meant) {
    const uint32_t psn = first_psn(from.token, from.peer_token) + from.acked;
    for (const Qp& to : qps_) {
        if (!to.alive || to.side != meant.side || to.number != meant.number) continue;
        if (to.connected_to == 0 || &to == &meant) continue;
        const uint32_t expected = first_psn(to.peer_token, to.token) + to.arrived;
        if (((psn ^ expected) & 0xffffff) == 0) broken("data reaches another queue pair");
    }
}

uint32_t HandshakeWorld::free_number(int side) const {
    const auto taken = [&](uint32_t number) {
        return std::ranges::any_of(
            qps_, [&](const Qp& qp) { return qp.alive && qp.side == side && qp.number == number; });
    };
    uint32_t number = 1;
    while (taken(number)) ++number;
    return number;
}

// The queue pair has failed.
void HandshakeWorld::abandon(int side) {
    if (!sides_[side].connection) return;
    act(side, sides_[side].connection->handshake.abandon(), true);
    if (prompt_) start_anew(side);
}

void HandshakeWorld::disconnect(int side) {
    Side& self = sides_[side];
    if (!self.connection || self.connection->handshake.state() != Handshake::State::kUp) return;
    const Qp& own = qp(self.connection->qp);
    if (own.acked == own.posted) act(side, self.connection->handshake.disconnect(now_, {}));
}

void HandshakeWorld::drain(int side) {
    Side& self = sides_[side];
    if (!self.connection || !self.connection->draining) return;
    const Qp& own = qp(self.connection->qp);
    if (own.acked == own.posted) act(side, self.connection->handshake.drained({}));
    if (prompt_) start_anew(side);
}

unsigned HandshakeWorld::most_ticks(unsigned alive) const {
    const uint64_t longest = std::max(times_.connect_limit, times_.disconnect_limit);
    // In kConnecting, kReady and kClosing, and the last tick of each; and for every sign of life.
    return static_cast<unsigned>((3 + alive) * (longest / times_.retry_first + 2));
}

bool HandshakeWorld::progress() {
    if (!network_.empty()) {
        const Datagram first = network_.front();
        network_.erase(network_.begin());
        receive(first);
        return true;
    }
    for (uint32_t number = 1; number <= qps_.size(); ++number) {
        if (!qp(number).alive || qp(number).on_wire == 0) continue;
        deliver_data(number);
        return true;
    }
    uint64_t next = UINT64_MAX;
    for (int side = 0; side < static_cast<int>(sides_.size()); ++side) {
        read_arrived(side);
        drain(side);
        start_anew(side);
        if (sides_[side].connection)
            next = std::min(next, sides_[side].connection->handshake.deadline());
    }
    if (!network_.empty()) return true;
    if (next == UINT64_MAX) return false;
    now_ = std::max(now_, next);
    for (int side = 0; side < static_cast<int>(sides_.size()); ++side) tick(side);
    return true;
}

void HandshakeWorld::settle() {
    unsigned steps = 0;
    while (wrong_.empty() && progress())
        if (++steps > 100'000) return broken("it never comes to rest");
    for (int side = 0; side < static_cast<int>(sides_.size()); ++side) {
        const auto& mine = sides_[side].connection;
        const auto& theirs = sides_[other(side)].connection;
        if (!mine) continue;
        if (mine->handshake.state() != Handshake::State::kUp)
            broken("a side is stuck before or after its use");
        if (theirs && mine->handshake.peer().qp_num != theirs->qp)
            broken("both sides are up, but not with each other");
    }
}

void HandshakeWorld::expect_traffic() {
    for (Side& side : sides_) side.delivered = 0;
    const auto unserved = [&] {
        return std::ranges::any_of(sides_, [](const Side& side) { return side.delivered == 0; });
    };
    // The first attempt may use a connection that the other side has long abandoned.
    for (int attempt = 0; attempt < 3 && wrong_.empty() && unserved(); ++attempt) {
        for (int side = 0; side < static_cast<int>(sides_.size()); ++side)
            if (sides_[side].delivered == 0) send(side);
        settle();
    }
    if (unserved()) broken("a message does not get through");
}

void HandshakeWorld::expect_end() {
    const bool both = random_.chance(50);
    const auto first = static_cast<int>(random_.below(sides_.size()));
    disconnect(first);
    if (both) disconnect(other(first));
    settle();
    for (const Side& side : sides_)
        if (side.connection) broken("a side survives the end");
    if (std::ranges::any_of(qps_, &Qp::alive)) broken("a queue pair is left");
}

}  // namespace tern
