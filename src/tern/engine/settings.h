// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tern/base/tunables.h"
#include "tern/connection/handshake.h"
#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/frame.h"
#include "tern/veloblock/promotion.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

// How an interface notices frames in blocks; the order is that of UCX_TERN_POLL's values.
enum class PollMode : uint8_t { kAuto, kMemory, kCq };

// The settings of an interface's messaging. The defaults of UCX's configuration are these.
struct EngineSettings {
    static constexpr uint32_t kUnlimited = UINT32_MAX;

    uint32_t segment_size = 8256;  // bytes of the longest active message: 8 KiB and UCP's header
    uint32_t send_queue = 256;     // work requests of the first connections' send queues
    uint32_t long_queues = 64;     // connections that are the first
    uint32_t send_buffers = 1024;  // at most, for all connections
    uint32_t receive_queue = 512;  // buffers, for all connections
    uint32_t receive_most = 1536;  // to which the receive queue grows
    uint32_t connections = kUnlimited;                // beyond so many, see IdleChannels
    uint32_t inline_bytes = kTunables.tx_min_inline;  // at least
    uint32_t block_first = kTunables.block_min;       // bytes of a peer's first block
    uint32_t block_most = 65536;                      // bytes of a peer's largest block
    size_t block_memory = 1 << 20;  // bytes of all blocks that are larger than the first
    bool early_sends = true;        // accept sends while a connection is being made
    uint32_t urgent_id = ~0u;       // of active messages that may not wait: see EarlySends
    bool repeats = kTunables.put_repeat != 0;  // of puts with messages: see RepeatedPuts
    // Short messages that go together: see Batches.
    struct Batching {
        // Work requests to a peer behind which messages may wait. kUnlimited: none do.
        uint32_t after = kTunables.batch_after;
        bool poll = kTunables.batch_poll != 0;
    } batch;
    // Receive buffers.
    struct Buffers {
        // Bytes that the user may write before the payload of a message that it keeps where it is;
        // 0: it keeps none.
        uint32_t headroom = 0;
        bool relaxed = false;  // registered with relaxed ordering
    } buffers;
    PollMode poll = PollMode::kAuto;
    Promotion::Limits promotion;
    verbs::RetrySettings retry;
    HandshakeTimes handshake;

    uint32_t later_queue() const { return std::min(send_queue, kLaterSendQueue); }

    uint32_t max_header() const { return segment_size / 2; }
    // Bytes of a buffer for a message: received, with its word; sent, with room for the words of an
    // inline frame, or for the padding and the tail of a gathered one.
    uint32_t receive_buffer() const { return uint32_t{sizeof(Word)} + segment_size; }
    uint32_t send_buffer() const { return padded(segment_size) + 4 * Word::kUnit; }
    // Entries of a completion queue for all receives, and for `first` connections with long send
    // queues and `later` others.
    uint64_t completions(uint32_t first, uint32_t later) const {
        return receive_most + uint64_t{first} * send_queue + uint64_t{later} * later_queue();
    }
    // Connections for which `entries` suffice.
    uint32_t connections_for(uint64_t entries) const {
        if (entries < completions(0, 0)) return 0;
        if (entries < completions(long_queues, 0))
            return static_cast<uint32_t>((entries - completions(0, 0)) / send_queue);
        return long_queues +
               static_cast<uint32_t>((entries - completions(long_queues, 0)) / later_queue());
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
// Entries for which a completion queue is resized that is to have `needed`: what a power of two
// leaves when the driver adds one entry and rounds up, as those of mlx5 and rxe do.
constexpr uint64_t resized_completions(uint64_t needed, uint64_t most) {
    return std::min(std::bit_ceil(needed + 1) - 1, most);
}
// Connections of an interface beyond which idle ones are ended, if no setting says it. Half of the
// connections that fit into its completion queue (`fitting`) leave room for connections that are
// over and still have places. Half of the device's queue pairs are shared by the node's `ranks` (0:
// not known), each with this number of `interfaces`; the other half is for ranks that need more,
// and for other programs.
constexpr uint32_t usual_connections(uint32_t queue_pairs, uint32_t fitting, uint32_t ranks,
                                     uint32_t interfaces) {
    const uint32_t share =
        ranks == 0 ? std::max(queue_pairs / 16, 64u) : queue_pairs / 2 / ranks / interfaces;
    return std::clamp(std::min(share, fitting / 2), ranks == 0 ? 64u : 16u, 4096u);
}
// Bytes between buffers: each begins on its own cache line.
constexpr size_t buffer_stride(uint32_t size) {
    return (size_t{size} + 63) & ~size_t{63};
}

}  // namespace engine_limits

}  // namespace tern
