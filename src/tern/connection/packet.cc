// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/packet.h"

#include <algorithm>

#include "tern/connection/little_endian.h"
#include "tern/verbs/port.h"

namespace tern {
namespace {

// Offsets of the fields, with their lengths in bytes. Unused bytes are zero, so every packet has
// exactly one encoding.
enum Offset : size_t {
    kMagicAt = 0,       // 4
    kVersionAt = 4,     // 1
    kTypeAt = 5,        // 1
    kFlagsAt = 6,       // 1
    kRefusalAt = 7,     // 1
    kTokenAt = 8,       // 4
    kPeerTokenAt = 12,  // 4
    kToAt = 16,         // 8
    kFromAt = 24,       // 8
    kQpNumAt = 32,      // 3, of kConnect; of others:
    kHotAt = 32,        // 2
    kColdAt = 34,       // 2
    kMtuAt = 35,        // 1
    kReadsAt = 36,      // 1
    kLmcAt = 37,        // 1
    kPathAt = 38,       // 1
    kFormatAt = 39,     // 1
    kPortAt = 40,       // PortAddress::kMaxPacked
    kEnd = 40 + PortAddress::kMaxPacked,
};
static_assert(kEnd <= Packet::kMaxSize);

enum Flags : uint8_t { kReady = 1, kKnowsReady = 2, kNamesFrames = 4 };

constexpr uint8_t kLowestMtu = 1;
constexpr uint8_t kHighestMtu = 5;
constexpr uint8_t kHighestLmc = 7;

// Whether the fields agree with one another; no connection needs to be known.
bool consistent(const Packet& packet) {
    if (packet.from.path >= verbs::kMostPaths) return false;
    switch (packet.type) {
        case PacketType::kConnect:
            // A ready side knows the peer's token; a side that knows the peer ready is ready too.
            return packet.token != 0 && (!packet.ready || packet.peer_token != 0) &&
                   (!packet.knows_ready || packet.ready) && packet.qp.mtu >= kLowestMtu &&
                   packet.qp.mtu <= kHighestMtu && packet.qp.reads <= verbs::kMostReads &&
                   packet.qp.lmc <= kHighestLmc &&
                   (packet.qp.reads != 0 || packet.qp.version != QpParameters::kVersion);
        case PacketType::kDisconnect:
            return packet.token != 0 && packet.peer_token != 0 && packet.sent;
        case PacketType::kSpare:
            return packet.token != 0 && packet.peer_token != 0;
        case PacketType::kGone:
            return packet.peer_token != 0 &&
                   (packet.token != 0 || (packet.refusal != Refusal::kNone && !packet.sent));
        case PacketType::kPing:
            return packet.from.path == 0;
        case PacketType::kAlive:
            return true;
        case PacketType::kLeft:
            return packet.token == 0 && packet.peer_token == 0 && packet.from.path == 0;
    }
    return false;
}

}  // namespace

const char* refusal_text(Refusal refusal) {
    switch (refusal) {
        case Refusal::kNone:
            return "it gives no reason";
        case Refusal::kResources:
            return "its device or memory has no room for another connection; fewer peers, or a "
                   "smaller UCX_TERN_QP_MAX, UCX_TERN_TX_QUEUE_LEN or UCX_TERN_RX_QUEUE_LEN there, "
                   "need less";
        case Refusal::kDevice:
            return "its device cannot connect a queue pair; see its log";
        case Refusal::kVersion:
            return "its Tern has another version of the protocol; install the same on both nodes";
    }
    return "for a reason that this version does not name; see its log";
}

size_t Packet::pack(std::span<std::byte, kMaxSize> out) const {
    const size_t size = kPortAt + from.port.packed_size() <= kSize ? kSize : kMaxSize;
    std::ranges::fill(out, std::byte{0});
    std::byte* to_wire = out.data();
    put_little_endian<4>(to_wire + kMagicAt, kMagic);
    to_wire[kVersionAt] = std::byte{kVersion};
    to_wire[kTypeAt] = static_cast<std::byte>(type);
    put_little_endian<4>(to_wire + kTokenAt, token);
    put_little_endian<4>(to_wire + kPeerTokenAt, peer_token);
    to.pack(to_wire + kToAt);
    from.interface.pack(to_wire + kFromAt);
    to_wire[kPathAt] = std::byte{from.path};
    from.port.pack(to_wire + kPortAt);
    if (type == PacketType::kGone) to_wire[kRefusalAt] = static_cast<std::byte>(refusal);
    if (sent) {
        to_wire[kFlagsAt] = std::byte{kNamesFrames};
        put_little_endian<2>(to_wire + kHotAt, sent->hot);
        put_little_endian<2>(to_wire + kColdAt, sent->cold);
    }
    if (type != PacketType::kConnect) return size;
    to_wire[kFlagsAt] = std::byte((ready ? kReady : 0) | (knows_ready ? kKnowsReady : 0));
    put_little_endian<3>(to_wire + kQpNumAt, qp.qp_num);
    to_wire[kMtuAt] = std::byte{qp.mtu};
    to_wire[kReadsAt] = std::byte{qp.reads};
    to_wire[kLmcAt] = std::byte{qp.lmc};
    to_wire[kFormatAt] = std::byte{qp.version};
    return size;
}

std::optional<Packet> Packet::unpack(std::span<const std::byte> in) {
    if (in.size() != kSize && in.size() != kMaxSize) return {};
    const std::byte* wire = in.data();
    const auto flags = static_cast<uint8_t>(wire[kFlagsAt]);
    const auto port = PortAddress::unpack(in.subspan(kPortAt));
    if (!port) return {};

    Packet packet;
    packet.type = static_cast<PacketType>(wire[kTypeAt]);
    packet.ready = flags & kReady;
    packet.knows_ready = flags & kKnowsReady;
    packet.refusal = static_cast<Refusal>(wire[kRefusalAt]);
    packet.token = static_cast<uint32_t>(get_little_endian<4>(wire + kTokenAt));
    packet.peer_token = static_cast<uint32_t>(get_little_endian<4>(wire + kPeerTokenAt));
    packet.to = InterfaceAddress::unpack(wire + kToAt);
    packet.from = {*port, InterfaceAddress::unpack(wire + kFromAt),
                   static_cast<uint8_t>(wire[kPathAt])};
    const bool may_name =
        packet.type == PacketType::kDisconnect || packet.type == PacketType::kGone;
    if (may_name && (flags & kNamesFrames) != 0)
        packet.sent = {.hot = static_cast<uint16_t>(get_little_endian<2>(wire + kHotAt)),
                       .cold = static_cast<uint16_t>(get_little_endian<2>(wire + kColdAt))};
    if (packet.type == PacketType::kConnect)
        packet.qp = {.qp_num = static_cast<uint32_t>(get_little_endian<3>(wire + kQpNumAt)),
                     .mtu = static_cast<uint8_t>(wire[kMtuAt]),
                     .version = static_cast<uint8_t>(wire[kFormatAt]),
                     .reads = static_cast<uint8_t>(wire[kReadsAt]),
                     .lmc = static_cast<uint8_t>(wire[kLmcAt])};
    if (!consistent(packet)) return {};

    // Size, magic, version and unused bytes must be as pack() writes them.
    std::array<std::byte, kMaxSize> again;
    const size_t size = packet.pack(again);
    if (!std::ranges::equal(in, std::span(again).first(size))) return {};
    return packet;
}

}  // namespace tern
