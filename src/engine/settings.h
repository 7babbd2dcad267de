// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "connection/handshake.h"
#include "veloblock/block_writer.h"
#include "veloblock/frame.h"
#include "veloblock/promotion.h"
#include "verbs/queue_pair.h"

namespace tern {

// How an interface notices frames in blocks; the order is that of UCX_TERN_POLL's values.
enum class PollMode : uint8_t { kAuto, kMemory, kCq };

// The settings of an interface's messaging. The defaults of UCX's configuration are these.
struct EngineSettings {
    static constexpr uint32_t kUnlimited = UINT32_MAX;

    uint32_t segment_size = 8256;  // bytes of the longest active message: 8 KiB and UCP's header
    uint32_t send_queue = 256;     // work requests of a connection's send queue, if it is long
    uint32_t long_queues = 64;     // connections for which it is from the beginning
    uint32_t send_buffers = 1024;  // at most, for all connections
    uint32_t receive_queue = 512;  // buffers, for all connections
    uint32_t receive_most = 1024;  // to which the receive queue grows
    uint32_t connections = kUnlimited;  // beyond so many, see IdleChannels
    uint32_t inline_bytes = 128;        // at least
    uint32_t block_first = 4096;        // bytes of a peer's first block
    uint32_t block_most = 65536;        // bytes of a peer's largest block
    size_t block_memory = 1 << 20;      // bytes of all blocks that are larger than the first
    bool early_sends = true;            // accept sends while a connection is being made
    uint32_t early_id = ~0u;            // accept active messages of this id then in any case
    bool repeats = true;                // of puts with messages: see RepeatedPuts
    PollMode poll = PollMode::kAuto;
    Promotion::Limits promotion;
    verbs::RetrySettings retry;
    HandshakeTimes handshake;

    // Work requests of a short send queue. With 128 bytes inline, mlx5 makes 384 bytes of each, so
    // that a queue is one page.
    static constexpr uint32_t kShortSendQueue = 10;

    uint32_t max_header() const { return segment_size / 2; }
    // Bytes of a buffer for a message: received, with its word; sent, with room for the words of an
    // inline frame, or for the padding and the tail of a gathered one.
    uint32_t receive_buffer() const { return uint32_t{sizeof(Word)} + segment_size; }
    uint32_t send_buffer() const { return padded(segment_size) + 2 * BlockWriter::kOverhead; }
    // Entries of a completion queue for all receives and so many connections.
    uint64_t completions(uint32_t with_long, uint32_t with_short) const {
        return receive_most + uint64_t{with_long} * send_queue +
               uint64_t{with_short} * kShortSendQueue;
    }
    // Connections for which so many entries suffice.
    uint32_t connections_for(uint64_t entries) const {
        if (entries < completions(0, 0)) return 0;
        if (entries < completions(long_queues, 0))
            return static_cast<uint32_t>((entries - completions(0, 0)) / send_queue);
        return long_queues +
               static_cast<uint32_t>((entries - completions(long_queues, 0)) / kShortSendQueue);
    }
};

// Limits that no setting changes.
namespace engine_limits {

inline constexpr uint32_t kPieces = 8;     // scatter/gather entries of a send, at most
inline constexpr uint32_t kOwnPieces = 2;  // of these, of a frame's own words
inline constexpr uint32_t kInline = 1024;  // bytes of a frame on the stack
// Bytes of inline data that a device must take: control frames are sent inline.
inline constexpr uint32_t kLeastInline = uint32_t{sizeof(Word)} + kMaxControl;
// Places of a send queue with `depth` places that are reserved for control frames.
constexpr uint32_t control_places(uint32_t depth) {
    return std::min(8u, depth / 4);
}
// Bytes that an interface must register at least, with the default segment size.
inline constexpr size_t kLeastMemory = 512 * 1024;
// Connections for which a new completion queue has room: one that can grow, and one that cannot.
inline constexpr uint32_t kFirstConnections = 4;
inline constexpr uint32_t kFixedLong = 256;
inline constexpr uint32_t kFixedShort = 1024;
// Entries for which a completion queue is resized that is to have `needed`.
constexpr uint64_t resized_completions(uint64_t needed, uint64_t most) {
    return std::min(needed * 2, most);
}
// Bytes between buffers: each begins on its own cache line.
constexpr size_t buffer_stride(uint32_t size) {
    return (size_t{size} + 63) & ~size_t{63};
}
// The remedy if a device has no room for a connection.
inline constexpr const char* kNeedsLess =
    "fewer peers, or a smaller UCX_TERN_QP_MAX (in all processes of the node), "
    "UCX_TERN_TX_QUEUE_LEN or UCX_TERN_RX_QUEUE_LEN, need less of the device";

}  // namespace engine_limits

}  // namespace tern
