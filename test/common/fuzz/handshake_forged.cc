// SPDX-License-Identifier: BSD-3-Clause
// Two sides of a connection, and somebody between them who drops, repeats, reorders, changes and
// forges packets. A forger may end a connection; but each side does what its owner relies on.
#include <array>
#include <deque>
#include <optional>

#include "fuzz.h"
#include "tern/connection/handshake.h"

using namespace tern;
using fuzz::require;

namespace {

constexpr HandshakeTimes kTimes{10, 80, 1000, 500, 25};
constexpr size_t kMostPackets = 64;

struct Side {
    PeerAddress address;
    std::optional<Handshake> handshake;
    uint32_t last_token = 0;
    bool connected = false, established = false, draining = false;
    bool tried = false;  // connect() was called, or a packet opened the connection
};

class World {
  public:
    explicit World(fuzz::Input& input) : input_(input) {
        for (int i = 0; i < 2; ++i) {
            sides_[i].address.port.has_lid = true;
            sides_[i].address.port.lid = static_cast<uint16_t>(1 + i);
            sides_[i].address.interface = {static_cast<uint32_t>(7 + i), uint64_t{99} << i};
            sides_[i].last_token = input_.chance(2) ? UINT32_MAX - 2 : 5;
        }
    }

    void run() {
        while (!input_.empty()) step();
        settle();
    }

  private:
    void step() {
        const int side = static_cast<int>(input_.below(2));
        Side& self = sides_[side];
        switch (input_.below(12)) {
            case 0:
                if (!self.handshake) open(side, nullptr);
                break;
            case 1:
            case 2:
                deliver(input_.below(kMostPackets), input_.chance(4));
                break;
            case 3:
                if (!wire_.empty())
                    wire_.erase(wire_.begin() + input_.below(kMostPackets) % wire_.size());
                break;
            case 4:
                change();
                break;
            case 5:
                forge(side);
                break;
            case 6:
                now_ += input_.number() % 2000;
                break;
            case 7:
                if (self.handshake && self.handshake->deadline() <= now_)
                    act(side, self.handshake->tick(now_));
                break;
            case 8:
                if (self.handshake) {
                    self.handshake->be_patient(input_.chance(2));
                    act(side, self.handshake->disconnect(now_, {}));
                }
                break;
            case 9:
                if (self.handshake && self.draining) act(side, self.handshake->drained({}));
                break;
            case 10:
                if (self.handshake && self.connected) act(side, self.handshake->data_arrived(now_));
                break;
            case 11:
                if (!self.handshake) break;
                if (input_.chance(4))
                    act(side, self.handshake->abandon(static_cast<Refusal>(input_.below(5))));
                else
                    self.handshake->want(input_.chance(2), now_);
                break;
        }
    }

    void open(int side, const Packet* packet) {
        Side& self = sides_[side];
        if (++self.last_token == 0) ++self.last_token;
        self.handshake.emplace(
            self.last_token, self.address, sides_[1 - side].address,
            QpParameters{self.last_token & 0xffffff, 3, QpParameters::kVersion, 9}, kTimes);
        self.connected = self.established = self.draining = false;
        act(side, packet != nullptr ? self.handshake->receive(*packet, now_)
                                    : self.handshake->connect(now_));
    }

    void receive(int side, const Packet& packet) {
        Side& self = sides_[side];
        if (packet.to != self.address.interface || packet.from != sides_[1 - side].address) return;
        if (self.handshake) {
            const auto actions = self.handshake->receive(packet, now_);
            act(side, actions);
            if (!actions.closed || packet.type != PacketType::kConnect) return;
        }
        if (packet.type == PacketType::kConnect && packet.peer_token == 0)
            open(side, &packet);
        else if (const auto answer = answer_stray(packet, self.address))
            put(*answer);
    }

    void act(int side, const Handshake::Actions& actions) {
        Side& self = sides_[side];
        using State = Handshake::State;
        const State state = self.handshake->state();
        require(!actions.connect_qp || !self.connected, "a queue pair is connected twice");
        self.connected |= actions.connect_qp;
        if (actions.connect_qp)
            require(self.handshake->peer_token() != 0 && self.handshake->peer().mtu != 0 &&
                        self.handshake->peer().reads != 0,
                    "a queue pair is connected to nobody");
        require(!actions.established || (self.connected && !self.established),
                "established twice, or without a queue pair");
        self.established |= actions.established;
        require((state != State::kUp) || self.established, "up, but its owner was not told");
        require(!actions.drain || (self.connected && !self.draining), "drains twice, or too early");
        self.draining |= actions.drain;
        require(actions.closed == (state == State::kClosed), "closed, but its owner was not told");
        require(actions.closed || (!actions.lost && !actions.timed_out), "lost, but not closed");
        require(self.handshake->token() == self.last_token, "a connection changes its name");
        const uint64_t deadline = self.handshake->deadline();
        require(deadline == UINT64_MAX || deadline <= now_ + 2 * kTimes.connect_limit,
                "a wait without end");
        if (actions.send) put(actions.packet);
        if (actions.closed) self.handshake.reset();
    }

    // Each packet of a side is understood by the other.
    void put(const Packet& packet) {
        std::array<std::byte, Packet::kMaxSize> bytes;
        const size_t size = packet.pack(bytes);
        const auto arrived = Packet::unpack(std::span(bytes).first(size));
        require(arrived.has_value(), "a packet is not understood");
        if (wire_.size() == kMostPackets) wire_.pop_front();
        wire_.push_back(*arrived);
    }

    void deliver(uint32_t index, bool again) {
        if (wire_.empty()) return;
        index %= wire_.size();
        const Packet packet = wire_[index];
        if (!again) wire_.erase(wire_.begin() + index);
        receive(side_of(packet.to), packet);
    }
    int side_of(const InterfaceAddress& to) const {
        return to == sides_[1].address.interface ? 1 : 0;
    }

    void change() {
        if (wire_.empty()) return;
        Packet& packet = wire_[input_.below(kMostPackets) % wire_.size()];
        Packet changed = packet;
        const auto by = input_.take<int8_t>();
        switch (input_.below(8)) {
            case 0:
                changed.type = static_cast<PacketType>(input_.below(9));
                break;
            case 1:
                changed.token += static_cast<uint32_t>(by);
                break;
            case 2:
                changed.peer_token += static_cast<uint32_t>(by);
                break;
            case 3:
                changed.ready = by & 1, changed.knows_ready = by & 2;
                break;
            case 4:
                changed.refusal = static_cast<Refusal>(by);
                break;
            case 5:
                changed.qp.qp_num = static_cast<uint32_t>(by) & 0xffffff;
                break;
            case 6:
                changed.qp.mtu = static_cast<uint8_t>(by);
                break;
            case 7:
                changed.qp.reads = static_cast<uint8_t>(by);
                break;
        }
        if (const auto packet_again = through_the_wire(changed)) packet = *packet_again;
    }

    void forge(int to) {
        const auto token = [&](const Side& side) {
            return side.last_token + static_cast<uint32_t>(input_.take<int8_t>() % 3);
        };
        const Side& from = sides_[1 - to];
        Packet packet{.type = static_cast<PacketType>(1 + input_.below(7)),
                      .refusal = static_cast<Refusal>(input_.below(5)),
                      .token = input_.chance(4) ? 0 : token(from),
                      .peer_token = input_.chance(3) ? 0 : token(sides_[to]),
                      .from = from.address,
                      .to = sides_[to].address.interface,
                      .qp = {input_.below(256), static_cast<uint8_t>(1 + input_.below(5)),
                             QpParameters::kVersion, 9}};
        packet.ready = input_.chance(2);
        packet.knows_ready = packet.ready && input_.chance(2);
        if (const auto forged = through_the_wire(packet)) receive(to, *forged);
    }
    static std::optional<Packet> through_the_wire(const Packet& packet) {
        std::array<std::byte, Packet::kMaxSize> bytes;
        const size_t size = packet.pack(bytes);
        return Packet::unpack(std::span(bytes).first(size));
    }

    // The forger is gone: everything comes to rest, and nobody waits for ever.
    void settle() {
        for (unsigned steps = 0;; ++steps) {
            require(steps < 10'000, "it never comes to rest");
            if (!wire_.empty()) {
                deliver(0, false);
                continue;
            }
            uint64_t next = UINT64_MAX;
            for (int side = 0; side < 2; ++side) {
                Side& self = sides_[side];
                if (self.handshake && self.draining) act(side, self.handshake->drained({}));
                if (self.handshake) next = std::min(next, self.handshake->deadline());
            }
            if (!wire_.empty()) continue;
            if (next == UINT64_MAX) break;
            now_ = std::max(now_, next);
            for (int side = 0; side < 2; ++side)
                if (sides_[side].handshake && sides_[side].handshake->deadline() <= now_)
                    act(side, sides_[side].handshake->tick(now_));
        }
        for (const Side& side : sides_)
            require(!side.handshake || side.handshake->state() == Handshake::State::kUp ||
                        !side.connected,
                    "a side is stuck");
    }

    fuzz::Input& input_;
    Side sides_[2];
    std::deque<Packet> wire_;
    uint64_t now_ = 0;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    World(input).run();
    return 0;
}
