// SPDX-License-Identifier: BSD-3-Clause
// Constants of policy that no user has a reason to set: what each is, and what it trades.
#pragma once

#include <cstdint>
#include <string>

namespace tern {

struct Tunables {
    // Bytes that a work request carries inline, at least; what a device gives beyond that is used.
    // With more, fewer messages are copied to registered memory, and send queues are larger.
    uint32_t tx_min_inline = 128;

    // Messages that an interface receives until it looks which senders have blocks. A longer window
    // judges better, and later.
    uint32_t hot_window = 4096;
    // Messages that a sender must send in a window to keep its block.
    uint32_t hot_keep = 16;
    // Bytes of a sender's first block, which is to hold 16 of its messages. A small one is full
    // sooner, a large one takes memory from others.
    uint32_t block_min = 4096;

    // Work requests under way to a peer behind which short messages may wait for each other. With
    // more, a stream posts more of them one by one; with fewer, more messages wait.
    uint32_t batch_after = 6;
    // 1: they may wait also if UCX has no asynchronous thread. A simulation has none, and calls the
    // handler itself.
    uint32_t batch_poll = 0;

    // 1: a notified write of rwapi that repeats the notification of earlier ones is one write with
    // immediate data, from the third one on; 0: always two writes, which take longer, and no memory
    // for what is repeated.
    uint32_t put_repeat = 1;

    // Milliseconds for which pins of memory that is about to lose its pages are not remembered, at
    // least. A processor's time that is shared by quota comes in turns of 100 ms. In a simulation
    // no other thread can be late.
    uint32_t pin_quarantine = 200;

    // Milliseconds until a connection request is repeated first. It then doubles.
    uint32_t connect_retry = 20;

    // Rings for receiving, and as many for sending: so many long messages are copied at a time.
    uint32_t rndv_windows = 16;
    // How many of the longest chunks fit a ring.
    uint32_t rndv_buffers = 3;
    // C_0, the bytes of the first chunk, and q, the ratio of a chunk to the one before it
    // (Superpipeline, equations 3 and 5).
    uint32_t rndv_chunk_first = 12 * 1024;
    double rndv_chunk_growth = 1.5;
    // 1: memory is pinned piece by piece, each while the one before is on the wire; 0: all first.
    uint32_t rndv_pin_overlap = 1;

    // Receives that UCX may post to the transport at a time. UCX keeps further ones to itself.
    uint32_t tm_list_size = 1024;
    // Receives of a tag with a queue that the device is given at a time, a power of two. More of
    // them wait for messages of one tag, and cannot be taken back at once.
    uint32_t tm_depth = 16;
    // Messages from one peer whose receives were posted in time, until their tag gets a queue.
    uint32_t tm_tuple_after = 8;
};

// The defaults of all settings.
inline constexpr Tunables kTunables;

// No test sets these constants. They are milliseconds until Tern tries again what was refused for
// want of memory, and a connection for which the device has no room (Backoff). Each try may cost
// pins that are used again.
inline constexpr uint32_t kMemoryRetry = 1000;
inline constexpr uint32_t kRoomRetry = 1;
// Bytes of a message that may stay in its receive buffer until the program expects it. Shorter ones
// are copied, since a buffer has 8 KiB.
inline constexpr uint32_t kLeastKept = 1024;

// The tunables of this process. Only tests change them: TERN_TUNABLES=hot_window=64,hot_keep=8.
// False: the variable is malformed; `why` says where.
bool read_tunables(Tunables& tunables, std::string& why);

}  // namespace tern
