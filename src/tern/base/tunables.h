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

// What one call of progress does for long messages: seconds of work after which nothing more
// begins, and seconds after which no registration may end; 2 MiB can be registered at once on
// graphene. With more, calls are rarer, and the program waits longer for the one that it makes.
inline constexpr double kProgressTime = 100e-6;
inline constexpr double kLongestProgress = 175e-6;
// Seconds to register one of several pieces: less, because registrations are late at times.
inline constexpr double kPieceTime = 150e-6;
// How many times as long a copy may take as measured, because others copy at the same time.
inline constexpr double kSlowCopies = 2;
// In one step of a transfer: writes posted, sub-blocks copied out of the ring, and placed parts
// announced. With more, other transfers wait longer for their turn.
inline constexpr uint32_t kWritesAtOnce = 2;
inline constexpr uint32_t kBlocksAtOnce = 16;
inline constexpr uint32_t kPartsAtOnce = 16;
// Steps without news until sub-blocks are acknowledged that need not be yet. Fewer cost frames,
// more delay a sender whose staging memory is small.
inline constexpr uint32_t kIdleAck = 256;
// Bytes of one RDMA write to, or read from, a final place. Longer ones delay other peers' messages.
inline constexpr uint64_t kLongestAccess = 512 * 1024;
// Bytes of a piece that is pinned behind the wire, at most. Longer ones delay the last byte.
inline constexpr uint64_t kLongPiece = 2 << 20;
// Early copies at a time, which bind rings to peers that may never fetch; and how many transfers
// begin until the oldest one gives way. Messages are fetched in order: it is needed next, or never.
inline constexpr uint32_t kEarlyCopies = 8;
inline constexpr uint64_t kOvertaken = 16;

// Uses of any buffers for which a use is recent, and those for which it is known that no pin of a
// buffer can be remembered. With more, pins of buffers that do not return are made, or missed.
inline constexpr uint64_t kRecentUses = 16384;
inline constexpr uint64_t kLostUses = 1024;
// Recent buffers, as a power of two of sets of 4: each change of memory looks at all of them.
inline constexpr unsigned kRecentBits = 11;
// A buffer is pinned as a whole if it takes no more than this part of UCX_TERN_PIN_MAX. A longer
// one would push the pins of buffers that are used again out.
inline constexpr uint32_t kPinShare = 4;
// Milliseconds until the reaper deregisters what has become invalid. The waking thread, or one that
// communicates, is likely to do it itself within this time.
inline constexpr uint32_t kReaperDelay = 2;
// Mappings watched by the kernel at a time; each may cost the process two more mappings. Of calls
// that find no room, one in so many gets it. And ranges that hooks alone watch.
inline constexpr uint32_t kMostWatched = 4096;
inline constexpr unsigned kWatchedInTurn = 16;
inline constexpr uint32_t kMostHooked = 8192;
// Changes of a mapping in a second until it is not watched: about 1 % of that time. Then the
// seconds for which it is not, which double.
inline constexpr unsigned kNoisyChanges = 200;
inline constexpr uint32_t kNoisyTime = 10;

// The tunables of this process. Only tests change them: TERN_TUNABLES=hot_window=64,hot_keep=8.
// False: the variable is malformed; `why` says where.
bool read_tunables(Tunables& tunables, std::string& why);

}  // namespace tern
