// SPDX-License-Identifier: BSD-3-Clause
// What lies in the shared segment. A header page for the whole fabric, one slot per process, and
// one arena per process that holds its objects. Only the owner creates, destroys and allocates;
// other processes use what they find, by number. Everything is valid when zero, has no pointers,
// and is published by the release store of its number.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/completion_ring.h"
#include "core/faults.h"
#include "core/handles.h"
#include "core/key_table.h"
#include "core/nic_model.h"
#include "core/qp_state.h"
#include "core/receive_ring.h"
#include "core/robust_lock.h"

namespace softhca {

constexpr uint64_t kFabricMagic = 0x31414348'74666f73;  // "softHCA1"
constexpr uint32_t kLayoutVersion = 2;
constexpr uint32_t kMaxDevices = 16;
constexpr uint32_t kMaxPorts = 2;
constexpr uint32_t kMaxLinks = kMaxDevices * kMaxPorts;
constexpr uint32_t kMaxGuards = 64;
constexpr uint32_t kMaxDomains = 1024;
constexpr uint32_t kMaxInbound = 64;

enum class LinkLayer : uint32_t { infiniband = 1, ethernet = 2 };

/// What the first process of a fabric decides for all.
struct FabricConfig {
    uint32_t devices;
    uint32_t ports;
    LinkLayer link_layer;
    uint32_t reserved;
    NicParameters nic;
    char profile[16];
};

struct Notice {  // bits of `notices`, what the owner of an object is to look at
    static constexpr uint32_t kCqEvent = 1 << 0;   ///< CQ: send a completion event
    static constexpr uint32_t kCqError = 1 << 1;   ///< CQ: overflowed
    static constexpr uint32_t kSrqLimit = 1 << 2;  ///< SRQ: limit reached
    static constexpr uint32_t kQpError =
        1 << 3;  ///< QP: put into the error state by a peer; flush it
    static constexpr uint32_t kQpAccessError = 1 << 4;
    static constexpr uint32_t kQpRequestError = 1 << 5;
    static constexpr uint32_t kQpFatal = 1 << 6;
    static constexpr uint32_t kQpCommEst = 1 << 7;
};

/// Fields are grouped by who writes them: a line that one side writes often is not one that the
/// other reads often.
struct alignas(64) CqShared {
    static constexpr uint32_t kArmedNext = 1;
    static constexpr uint32_t kArmedSolicited = 2;
    static constexpr uint64_t kEventNow = 1;

    std::atomic<uint32_t> number{0};  ///< release by the owner when whole; 0: free
    RobustLock lock;                  ///< producers, arming, resizing
    std::atomic<uint32_t> armed{0};   ///< under `lock`: 0, kArmedNext or kArmedSolicited
    std::atomic<uint32_t> notices{0};
    uint64_t ring = 0;  ///< offset in the owner's arena
    uint64_t mask = 0;
    uint64_t capacity = 0;
    uint64_t notified_tail = 0;   ///< under `lock`: tail at the last event
    uint64_t solicited_tail = 0;  ///< under `lock`: tail behind the newest solicited entry
    uint64_t head_seen = 0;       ///< under `lock`: `head` when a producer last looked

    alignas(64) std::atomic<uint64_t> tail{0};  ///< producers, under `lock`, release
    std::atomic<uint32_t> failed{0};            ///< set once, by a producer
    std::atomic<uint64_t> event_at{0};  ///< ns: when the event asked for may be seen; 0: none waits

    alignas(64) std::atomic<uint64_t> head{0};  ///< the polling owner, release
};

struct alignas(64) SrqShared {
    std::atomic<uint32_t> number{0};
    RobustLock lock;  ///< whoever takes receives
    uint32_t pd = 0;
    uint32_t device = 0;
    uint32_t xrc_domain = 0;  ///< 0: a basic SRQ
    uint32_t cq = 0;          ///< of an XRC SRQ: where its receives complete
    uint32_t claimer =
        0;  ///< under `lock`: the queue pair that takes the head; names the claim to repair
    std::atomic<uint32_t> limit{0};
    std::atomic<uint32_t> notices{0};
    RecvRing ring;
};

/// The receive a queue pair is filling. Written before the ring's head moves, so that a receive
/// that a killed sender took is never lost: the queue pair goes on with it, or flushes it.
struct Claim {
    std::atomic<uint32_t> valid{0};
    uint32_t srq = 0;  ///< the shared receive queue it came from; 0: the queue pair's own
    uint32_t slot = 0;
    uint64_t index = 0;
};

/// What others need of a queue pair: its address and rights, which change rarely, and its responder
/// half, which every message that takes a receive changes.
struct alignas(64) QpShared {
    std::atomic<uint32_t> number{0};
    std::atomic<QpState> state{QpState::reset};
    QpType type = QpType::rc;
    uint8_t min_rnr_timer = 0;
    uint8_t max_dest_rd_atomic = 0;
    uint32_t link = 0;  ///< device * kMaxPorts + port - 1
    uint32_t pd = 0;
    uint32_t access = 0;  ///< which remote operations it takes
    uint32_t qkey = 0;
    uint32_t peer_number = 0;
    uint32_t peer_link = 0;
    uint32_t recv_cq = 0;
    uint32_t srq = 0;
    uint32_t xrc_domain = 0;
    uint32_t device = 0;
    std::atomic<uint32_t> established{0};
    std::atomic<uint32_t> notices{0};

    alignas(64) RobustLock lock;  ///< the responder: claim, receive ring, state changes
    Claim claim;
    uint64_t last_visible = 0;  ///< under `lock`: the latest time stamped on a receive's completion

    RecvRing ring;
    /// XRC receivers: the processes that have it open, one bit each; it lives as long as its
    /// creator and one of them.
    std::atomic<uint64_t> openers[kMaxProcesses / 64] = {};
};

struct alignas(64) Guard {
    /// target process + 1 in the low 16 bits, a count above; 0: free. Set by CAS, cleared with
    /// release.
    std::atomic<uint32_t> word{0};
};

struct Counters {
    std::atomic<uint64_t> messages{0};  ///< sent
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> completions{0};
    std::atomic<uint64_t> events{0};
    std::atomic<uint64_t> rnr_naks{0};
    std::atomic<uint64_t> retransmissions{0};
    std::atomic<uint64_t> errors{0};
    std::atomic<uint64_t> dropped{0};  ///< UD and UC messages that found no taker
    std::atomic<uint64_t> registered_bytes{0};
};

/// An RDMA write under way with the timing model. Its sender has left it with the process that it
/// is for, so that either can place what is due.
struct alignas(64) InboundWrite {
    static constexpr uint64_t kNotDue = ~uint64_t{0};

    RobustLock lock;
    std::atomic<uint32_t> sender{
        0};                        ///< the queue pair; 0: free. Under `lock`, as all that follows
    std::atomic<uint64_t> due{0};  ///< when more can be placed; read without the lock
    uint64_t progress = 0;
    uint64_t length = 0;
    uint64_t remote_address = 0;
    uint64_t local_address = 0;
    uint32_t rkey = 0;
    uint32_t lkey = 0;  ///< 0: the bytes are in `bytes`
    uint64_t posted_at = 0;
    Booking booking = {};
    char bytes[128];
};

struct LinkPair {
    LinkClock egress;
    LinkClock ingress;
};

enum class SlotState : uint32_t { free = 0, joining = 1, alive = 2, dead = 3 };

struct alignas(4096) ProcessSlot {
    std::atomic<SlotState> state{SlotState::free};
    std::atomic<uint32_t> incarnation{0};  ///< counts the slot's users
    std::atomic<int32_t> pid{0};
    pthread_mutex_t liveness_mutex;  ///< robust; held by a thread of the owner for the owner's life
    char name[32];
    uint32_t thread_executor = 0;
    RobustLock atomics;  ///< serializes remote atomic operations on this process's memory
    Guard guards[kMaxGuards];

    alignas(64) std::atomic<uint32_t> doorbell{0};  ///< futex: counts rings
    std::atomic<uint32_t> sleeping{0};
    std::atomic<uint64_t> dirty_cqs[kMaxObjects / 64];
    std::atomic<uint64_t> dirty_qps[kMaxObjects / 64];
    std::atomic<uint64_t> dirty_srqs[kMaxObjects / 64];

    alignas(64) Counters counters;
    Lateness lateness;
    std::atomic<uint64_t> inbound_used{0};  ///< a bit for each entry of `inbound`
    InboundWrite inbound[kMaxInbound];
    LinkPair links[kMaxLinks];  ///< each process is modeled as a node with ports of its own
};

/// An XRC domain shared by file descriptor, or an anonymous one. Users are processes, one bit each.
struct XrcDomain {
    std::atomic<uint32_t> id{0};  ///< 0: free
    uint32_t device = 0;
    uint32_t named = 0;  ///< a file names it
    uint64_t file_device = 0;
    uint64_t file_inode = 0;
    std::atomic<uint64_t> users[kMaxProcesses / 64];
};

struct alignas(4096) FabricHeader {
    std::atomic<uint64_t> magic{0};
    uint32_t version = 0;
    uint32_t slot_bytes = 0;
    FabricConfig config;
    Faults faults;
    RobustLock control;  ///< domains and other rare things
    std::atomic<uint32_t> next_domain{1};
    XrcDomain domains[kMaxDomains];
    ProcessSlot slots[kMaxProcesses];
};

/// A process's part of the segment: tables at fixed offsets, then space for rings.
struct ArenaTables {
    KeyEntry keys[kMaxKeys];
    QpShared qps[kMaxObjects];
    SrqShared srqs[kMaxObjects];
    CqShared cqs[kMaxObjects];
};
constexpr uint64_t kArenaBytes = uint64_t{512} << 20;
constexpr uint64_t kArenaHeapOffset = (sizeof(ArenaTables) + 4095) & ~uint64_t{4095};
static_assert(kArenaHeapOffset < kArenaBytes / 8);

constexpr uint64_t kHeaderBytes = (sizeof(FabricHeader) + 4095) & ~uint64_t{4095};
constexpr uint64_t kSegmentBytes = kHeaderBytes + kMaxProcesses * kArenaBytes;
constexpr uint64_t arena_offset(uint32_t slot) {
    return kHeaderBytes + slot * kArenaBytes;
}

static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace softhca
