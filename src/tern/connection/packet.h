// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "tern/connection/address.h"

namespace tern {

enum class PacketType : uint8_t {
    kConnect = 1,     // offers the sender's queue pair; has the flags `ready` and `knows_ready`
    kDisconnect = 2,  // the sender has nothing more to send on the connection and ends it
    kGone = 3,        // the sender has no such connection (any more), or refuses it
    kPing = 4,        // asks whether the interface is alive; opens no connection
    kAlive = 5,       // the sender is alive, and will handle the request whose token is peer_token
    kLeft = 6,        // the sender's interface is closed: nobody can connect to its address again
    kSpare = 7,       // the sender could do without the connection: the receiver may end it
};

// Why a side makes no connection, or ends a connection that was never up: the reason code of a
// kGone. Unknown codes count as refusals too.
enum class Refusal : uint8_t {
    kNone = 0,       // no refusal: the connection is over, and another one may be made
    kResources = 1,  // the device or memory has no room for another connection
    kDevice = 2,     // the device cannot connect the queue pair, or has failed
    kVersion = 3,    // the versions of the frames differ
};
const char* refusal_text(Refusal refusal);

// The queue pair that a kConnect offers.
struct QpParameters {
    static constexpr uint8_t kVersion = 17;

    uint32_t qp_num = 0;  // 24 bits
    uint8_t mtu = 0;      // ibv_mtu; the largest that its port uses
    uint8_t version = 0;  // of the frames, and of addresses
    uint8_t reads = 0;    // and atomics that may be outstanding; 0: of an earlier version
    uint8_t lmc = 0;      // its port has 2^lmc LIDs

    bool operator==(const QpParameters&) const = default;
};

// The frames that a side has sent on a connection, by path, modulo 2^16: as its words count them
// (veloblock/send_path.h).
struct SentFrames {
    uint16_t hot = 0;
    uint16_t cold = 0;

    bool operator==(const SentFrames&) const = default;
};

// A handshake datagram, described in docs/tern/protocol.md.
struct Packet {
    static constexpr uint32_t kMagic = 0x4e524554;  // "TERN"
    static constexpr uint8_t kVersion = 1;          // of this layout
    // Bytes: kSize, or kMaxSize if the sender's port address does not fit otherwise.
    static constexpr size_t kSize = 64;
    static constexpr size_t kMaxSize = 72;

    PacketType type = PacketType::kConnect;
    bool ready = false;                // kConnect: the sender's queue pair is connected
    bool knows_ready = false;          // kConnect: the sender knows that the receiver is ready
    Refusal refusal = Refusal::kNone;  // kGone
    // The sender's name of the connection. 0 in kPing, kAlive and kLeft, and in a kGone that
    // refuses an attempt without a Handshake.
    uint32_t token = 0;
    uint32_t peer_token = 0;  // the receiver's name of the connection; 0 if not known
    PeerAddress from;         // the sender; path 0 in kPing and kLeft, which are of no connection
    InterfaceAddress to;  // the receiver; a later interface with the same qp_num drops the packet
    QpParameters qp;      // kConnect
    // All that the sender has sent on the connection, and all of it has arrived. kDisconnect; kGone
    // if the connection ends in good order.
    std::optional<SentFrames> sent;

    // Returns the number of bytes written.
    size_t pack(std::span<std::byte, kMaxSize> out) const;
    // Decodes received bytes; empty if they are not a well-formed packet.
    static std::optional<Packet> unpack(std::span<const std::byte> in);
};

// Packets that have come and are not handled yet, in order. Pure. A packet may end a connection
// whose last data has arrived already. So the packets that have come are gathered first, then the
// data is taken, then these packets are handled, and no later ones.
//
// `Source` has `bool receive(Packet&)`, as Datagrams. Control path.
template <class Source>
class PacketInbox {
  public:
    explicit PacketInbox(Source& source) : source_(source) {}

    // Gathers what has come.
    void gather() {
        look();
        gathered_ = packets_.size();
    }
    // Takes the next of the gathered packets. False: there is none.
    bool take(Packet& packet) {
        if (gathered_ == 0) return false;
        --gathered_;
        packet = packets_.front();
        packets_.pop_front();
        return true;
    }
    // Whether it has packets, gathered or not; more may have come.
    bool holds() const { return !packets_.empty(); }
    // Whether a packet waits, gathered or not. Looks for some.
    bool waits() {
        look();
        return !packets_.empty();
    }

  private:
    static constexpr size_t kMost = 64;  // packets at a time; the others stay in the source

    void look() {
        Packet packet;
        while (packets_.size() < kMost && source_.receive(packet)) packets_.push_back(packet);
    }

    Source& source_;
    std::deque<Packet> packets_;
    size_t gathered_ = 0;  // of these
};

}  // namespace tern
