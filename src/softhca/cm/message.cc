// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cm/message.h"

namespace softhca::cm {

namespace {

constexpr uint32_t kMax24Bits = 0xffffff;
constexpr uint8_t kMaxRetries = 7;

bool is_ip(const SocketAddress& address) {
    return address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6;
}

}  // namespace

uint32_t private_data_limit(MessageKind kind, bool datagram) {
    switch (kind) {
        case MessageKind::kRequest:
            return datagram ? private_data::kDatagramRequest : private_data::kRequest;
        case MessageKind::kReply:
            return datagram ? private_data::kDatagramReply : private_data::kReply;
        case MessageKind::kReject:
            return datagram ? private_data::kDatagramReply : private_data::kReject;
        default:
            return 0;
    }
}

bool valid(const Message& message, size_t size, bool datagram) {
    if (size != sizeof message || message.magic != Message::kMagic) return false;
    if (message.kind < MessageKind::kRequest || message.kind > MessageKind::kDisconnectReply)
        return false;
    if (message.private_data_size > private_data_limit(message.kind, datagram)) return false;
    if (message.qp_number > kMax24Bits || message.psn > kMax24Bits) return false;
    if (message.retry_count > kMaxRetries || message.rnr_retry_count > kMaxRetries) return false;
    return message.kind != MessageKind::kRequest ||
           (is_ip(message.source) && is_ip(message.destination));
}

}  // namespace softhca::cm
