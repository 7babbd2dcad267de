// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "connection/address.h"

namespace tern {

enum class PacketType : uint8_t {
    kConnect = 1,     // my queue pair; whether it is ready, and whether I know that yours is
    kDisconnect = 2,  // I have nothing more to send on this connection and want to end it
    kGone = 3,        // I have no such connection (any more)
    kPing = 4,        // are you there? Opens no connection
    kAlive = 5,       // I am; and I have heard what you asked with the token in peer_token
};

// Why a side makes no connection, or ends it before it was made: the reason code of a kGone. Codes
// that are not known here count as refusals as well.
enum class Refusal : uint8_t {
    kNone = 0,       // it is none: the connection is over, and another one may be made
    kResources = 1,  // the device or memory has no room for another connection
    kDevice = 2,     // the device cannot connect the queue pair, or has failed
    kVersion = 3,    // another version of the protocol
};
const char* refusal_text(Refusal refusal);

// The reliable connection that a kConnect offers.
struct QpParameters {
    static constexpr uint8_t kVersion = 5;

    uint32_t qp_num = 0;  // 24 bits
    uint32_t psn = 0;     // 24 bits: of the first packet its owner will send
    uint8_t mtu = 0;      // ibv_mtu: the most its port takes
    uint8_t version = 0;  // of the fast path's wire format

    bool operator==(const QpParameters&) const = default;
};

// A handshake datagram, as the wire-protocol reference describes it.
struct Packet {
    static constexpr uint32_t kMagic = 0x4e524554;  // "TERN"
    static constexpr uint8_t kVersion = 1;          // of this layout
    static constexpr size_t kMaxSize = 64;          // what every packet measures now

    PacketType type = PacketType::kConnect;
    bool ready = false;                // kConnect: my queue pair can receive and send
    bool knows_ready = false;          // kConnect: I know that yours can
    Refusal refusal = Refusal::kNone;  // kGone
    // The sender's name of the connection. 0 in kPing and kAlive, and in a kGone of somebody who
    // refuses to make one.
    uint32_t token = 0;
    uint32_t peer_token = 0;  // the receiver's, 0 if not known
    PeerAddress from;         // the sender's address
    InterfaceAddress to;      // whom it is meant for: a successor with its number drops it
    QpParameters qp;          // kConnect

    // Returns the bytes used: kMaxSize.
    size_t pack(std::span<std::byte, kMaxSize> out) const;
    // From bytes the network brought; empty if they are not a well-formed packet.
    static std::optional<Packet> unpack(std::span<const std::byte> in);
};

}  // namespace tern
