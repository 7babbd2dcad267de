// SPDX-License-Identifier: BSD-3-Clause
// What two processes tell each other to connect their queue pairs: messages of one size, through
// a socket between the two. They come from a process of the same user, which may still be wrong.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>

namespace softhca::cm {

enum class MessageKind : uint32_t {
    kRequest = 1,
    kReply = 2,
    kReject = 3,
    kReady = 4,
    kDisconnect = 5,
    kDisconnectReply = 6,
};

// Why a connection is refused, as the InfiniBand specification numbers it.
namespace reason {
constexpr int kTimeout = 4;
constexpr int kNoService = 8;
constexpr int kByConsumer = 28;
constexpr int kVendorOption = 35;
constexpr int kDatagramUnsupported = 1;
constexpr int kDatagramRejected = 2;
}  // namespace reason

// The most private data that a program may send, and what its peer is told that came: behind the
// program's bytes there are zeros, as with InfiniBand.
namespace private_data {
constexpr uint32_t kRequest = 56;
constexpr uint32_t kReply = 196;
constexpr uint32_t kReject = 148;
constexpr uint32_t kDatagramRequest = 180;
constexpr uint32_t kDatagramReply = 136;
constexpr uint32_t kMost = 196;
}  // namespace private_data
uint32_t private_data_limit(MessageKind kind, bool datagram);

// The address of a queue pair's port.
struct PortAddress {
    uint8_t gid[16];
    uint16_t lid;
};

union SocketAddress {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
};

struct Message {
    static constexpr uint32_t kMagic = 0x314d4353;  // "SCM1"

    uint32_t magic;
    MessageKind kind;
    uint32_t port_space;
    uint32_t reason;      // of a rejection
    PortAddress address;  // of the sender
    uint32_t qp_number;
    uint32_t psn;
    uint32_t qkey;
    uint32_t ece_vendor;
    uint32_t ece_options;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t srq;
    uint16_t private_data_size;
    SocketAddress source;       // of a request: where it comes from,
    SocketAddress destination;  // and for whom it is
    uint8_t private_data[private_data::kMost];
};

// Whether a message of `size` bytes can be used. `datagram`: of a datagram service.
bool valid(const Message& message, size_t size, bool datagram);

}  // namespace softhca::cm
