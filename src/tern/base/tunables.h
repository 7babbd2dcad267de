// SPDX-License-Identifier: BSD-3-Clause
// Constants of policy that no user has a reason to set: what each is, and what it trades.
#pragma once

#include <chrono>
#include <cstddef>
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

// No test sets the constants that follow.

// Shortage. Milliseconds until Tern tries again what was refused for want of memory, and a
// connection for which the device has no room (Backoff). Each try may cost pins that are used
// again.
inline constexpr uint32_t kMemoryRetry = 1000;
inline constexpr uint32_t kRoomRetry = 1;
// Nanoseconds of a connection that waits for room with a peer that does not answer, until another
// one has its turn. Shorter turns lose a slow peer's answer.
inline constexpr uint64_t kRoomTurn = 50'000'000;

// Polling. A poll that finds a frame in a block ends there, but one of so many looks further. With
// more, short messages are faster and all others later.
inline constexpr unsigned kBusyPolls = 8;
// Of the polls after which an answer is likely, one of so many sends the control frames that are
// due. With more, the answer carries them more often, and a silent peer waits for longer.
inline constexpr unsigned kDeferredPolls = 8;
// What polls of nothing but the blocks may cost together: 1 each that finds a frame, kEmptyPoll
// others. With more, messages in blocks are faster and all others later.
inline constexpr int kBlockPolls = 32;
inline constexpr int kEmptyPoll = 8;
// Polls of everything from one look at packets and deadlines to the next, also while packets are
// expected. Each look costs a call of the device.
inline constexpr unsigned kSeldomPolls = 64;
inline constexpr unsigned kUrgentPolls = 4;
// Such looks from one look at the device's events and at unused channels to the next. Each costs a
// system call.
inline constexpr unsigned kEventPolls = 1024;
// Calls of progress after a packet in which the next one is expected.
inline constexpr uint32_t kExpectingCalls = 512;
// Frames or completions that are taken from a block or a queue at a time, and after which a poll
// ends. With more, a poll is longer and each message costs less.
inline constexpr unsigned kArrivalBurst = 16;
inline constexpr unsigned kArrivalsAtOnce = 64;
// Frames before a cold one that a poll takes at most, which bounds its time.
inline constexpr unsigned kPrecedingFrames = 512;
// Looks, every kSeldomPolls polls, without a repeated message until none is expected. Until then
// the completion queue is polled always.
inline constexpr uint32_t kQuietLooks = 64;
// Calls of progress that find nothing until a side that waits looks whether its peer lives, and
// calls from one look at the clock to the next. A check takes a place of the wire.
inline constexpr uint32_t kIdleCalls = 1 << 14;
inline constexpr uint32_t kCallsPerLook = 16;
// Sends that are refused from one look at the clock to the next, for such a check.
inline constexpr uint16_t kStallCheck = 16;
// How long such a side waits before the first check. Most waits are shorter.
inline constexpr std::chrono::nanoseconds kSilence = std::chrono::milliseconds(10);
// Polls after which peers are asked to stop notifying this process of messages. An interface that
// sleeps between any two messages need not write to its peers each time.
inline constexpr unsigned kAwakePolls = 4096;
// Nanoseconds from one look at the words of a process that sleeps to the next, at first and at
// last. With less, a message wakes it sooner; with more, it uses no measurable processor time.
inline constexpr uint64_t kFirstLook = 50'000;
inline constexpr uint64_t kLastLook = 500'000'000;

// Short messages. Bytes of a message that may stay in its receive buffer until the program expects
// it. Shorter ones are copied, since a buffer has 8 KiB.
inline constexpr uint32_t kLeastKept = 1024;
// Bytes of a message that may wait in a batch, and of a batch. A longer batch saves work requests
// and is later.
inline constexpr uint32_t kLongestInBatch = 512;
inline constexpr uint32_t kLongestBatch = 2040;
// Nanoseconds that a batch waits at most while its process computes. Each timer is a system call.
inline constexpr uint64_t kBatchPeriod = 50'000;
// Receives that are posted at a time. With more, each costs less and fewer are ready.
inline constexpr uint32_t kReceiveBatch = 16;
// Buffers by which receive buffers, spare ones for kept messages, and send buffers grow.
inline constexpr uint32_t kReceiveChunk = 64;
inline constexpr uint32_t kReceiveSpares = 16;
inline constexpr uint32_t kSendChunk = 32;
// Receives to which the queue may grow for each peer that sends cold. With fewer, a crowd waits for
// allowances; with more, it takes memory.
inline constexpr uint32_t kReceivesOfSender = 8;
// Cold messages in which a peer must send one to count as a sender.
inline constexpr uint32_t kColdRound = 1024;
// Cold messages that a sender may have under way: at least, of any length, and of any length of all
// senders together. Shorter messages may be more, until they have so many bytes, of one sender and
// of all. With more, bursts wait less and a crowd fills the receive queue.
inline constexpr uint16_t kLeastAllowance = 2;
inline constexpr uint16_t kUsualAllowance = 16;
inline constexpr uint16_t kAllowanceOfAll = 128;
inline constexpr uint32_t kAllowedBytes = 128 << 10;
inline constexpr uint32_t kAllowedBytesOfAll = 1 << 20;
// Frames of the usual length in a block, and about how many messages the usual length is the
// average of. With more frames, a sender stalls less and takes memory from others.
inline constexpr uint32_t kBlockFrames = 16;
inline constexpr uint32_t kAveragedMessages = 4;
// Cache lines by which the ends of blocks differ. With few, the words that a poll reads compete for
// one set of the cache.
inline constexpr uint32_t kBlockColours = 8;
// Payloads longer than one of so many parts of the block go cold: a block that holds few of them
// would stall too often.
inline constexpr uint32_t kPayloadsOfBlock = 12;
// Messages that find no room in a block, or are too long for it, until the sender asks for a larger
// one. With more, a burst does not end a block that suffices.
inline constexpr uint32_t kStallsToGrow = 8;
inline constexpr uint32_t kMisfitsToGrow = 4;
// Repetitions of a notified write until it gets a number; and at most, after as many changes. A
// number costs a frame.
inline constexpr uint16_t kRepetitions = 3;
inline constexpr uint16_t kMostRepetitions = 256;
// Bytes of a one-sided operation that is done in place, longer ones are transfers; and of one for
// which open memory saves the copy.
inline constexpr size_t kLongestInPlace = 1 << 20;
inline constexpr size_t kLeastOpen = 1 << 10;
// Messages that an endpoint keeps while it is made. UCP sends a few to set one up.
inline constexpr unsigned kMostKept = 16;

// Connections. Work requests of the send queues of later connections. With 128 bytes inline, mlx5
// makes 192 bytes of each, so that a queue is a page.
inline constexpr uint32_t kLaterSendQueue = 21;
// Connections for which a new completion queue has room: one that can grow, and one that cannot,
// with long send queues and with short ones. Room that is not used is memory lost.
inline constexpr uint32_t kFirstConnections = 4;
inline constexpr uint32_t kFixedFirst = 256;
inline constexpr uint32_t kFixedLater = 1024;
// Attempts at a connection that the peer drops, and nanoseconds between attempts that it refuses,
// at first and at last.
inline constexpr uint32_t kConnectAttempts = 16;
inline constexpr uint64_t kFirstRefused = 1'000'000, kLastRefused = 128'000'000;
// Peers that this side has refused and remembers, and whose connections it has ended. Each takes
// memory; one that is forgotten waits for its own timer, or counts as new.
inline constexpr size_t kMostRefusedPeers = 4096;
inline constexpr size_t kFormerPeers = 16384;
// Nanoseconds for which an interface that closes tells its peers so, all together.
inline constexpr uint64_t kFarewell = 100'000'000;
// Nanoseconds from one test of the peers of unused channels to the next.
inline constexpr uint64_t kUnusedPeriod = 30'000'000'000;
// Nanoseconds that a device has to report what it must report. Devices take far less.
inline constexpr uint64_t kDeviceLimit = 1'000'000'000;
// Ended connections that a call of progress looks at.
inline constexpr size_t kEndedLooks = 64;
// Address handles, whose number devices limit; and hosts whose addresses are looked up at a time,
// each by a thread.
inline constexpr size_t kMostAddressHandles = 1024;
inline constexpr size_t kMostLookups = 4;
// Receives of the datagrams that connect, which double in a storm; and sends.
inline constexpr uint32_t kDatagramReceives = 128;
inline constexpr uint32_t kMostDatagramReceives = 1024;
inline constexpr uint32_t kDatagramSends = 32;

// Idle connections beyond QP_MAX. Rows that a look compares.
inline constexpr size_t kIdleLooks = 32;
// Nanoseconds in which each excess connection is ended at most once, but only kUrgentAtOnce while
// others wait for room, which bounds how many are made anew in a second.
inline constexpr uint64_t kIdleWindow = 1'000'000;
inline constexpr uint32_t kUrgentAtOnce = 2;
// Nanoseconds of silence until a connection may end: with twice as many as the limit, at least, at
// most, and while others wait for room.
inline constexpr uint64_t kIdleSilence = 100'000'000;
inline constexpr uint64_t kLeastIdleSilence = 1'000'000;
inline constexpr uint64_t kMostIdleSilence = 10'000'000'000;
inline constexpr uint64_t kUrgentSilence = 10'000'000;
// Limits that do not give way: what is less than QP_MAX=auto usually is, and what is as good as
// none. Others give way by so many times themselves; of that, one of kSlackFadeShare is lost every
// kSlackFade nanoseconds.
inline constexpr uint32_t kSmallLimit = 64;
inline constexpr uint32_t kLargeLimit = 1 << 20;
inline constexpr uint32_t kMostSlack = 2;
inline constexpr uint64_t kSlackFade = 100'000'000;
inline constexpr uint32_t kSlackFadeShare = 16;

// Matching. A mask of tags is a key if it leaves so many bits open; a vote for another one takes
// back kVotesAgainst; a change needs so many votes, at first and at most.
inline constexpr int kMostOpenBits = 4;
inline constexpr uint32_t kVotesAgainst = 2;
inline constexpr uint32_t kFirstVotes = 32;
inline constexpr uint32_t kMostVotes = 1 << 20;
// Doublings of tm_tuple_after for a tag whose queue was of no use.
inline constexpr uint8_t kMostStrikes = 10;
// Receives that are granted at first; and ordinary messages from one try to the next where grants
// fail, at first and at last, a long message counting as one for each kGrantUnit bytes. A void
// grant costs little beside a long message.
inline constexpr uint32_t kFirstWidth = 4;
inline constexpr uint32_t kFirstPause = 2;
inline constexpr uint32_t kLastPause = 32;
inline constexpr uint64_t kGrantUnit = 8192;
// Bytes of receives that a call of progress registers, unless one is longer.
inline constexpr uint64_t kRenewedAtOnce = 4 << 20;
// Requests of a peer without an answer, beyond which it breaks the protocol.
inline constexpr size_t kMostTupleRequests = 4096;

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
