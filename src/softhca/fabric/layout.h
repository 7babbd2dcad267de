// SPDX-License-Identifier: BSD-3-Clause
// The shared segment: a header for the fabric, with one slot for each process, and one arena for
// each process with its objects. Only the owner creates, destroys and allocates in an arena; other
// processes find objects by number. Everything is valid when zero, and has no pointers. The release
// store of its number publishes an object.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softhca/core/completion_ring.h"
#include "softhca/core/faults.h"
#include "softhca/core/handles.h"
#include "softhca/core/key_table.h"
#include "softhca/core/nic_model.h"
#include "softhca/core/personality.h"
#include "softhca/core/qp_state.h"
#include "softhca/core/receive_ring.h"
#include "softhca/core/robust_lock.h"
#include "softhca/fabric/address_space.h"
#include "softhca/fabric/queue_usage.h"

namespace softhca {

constexpr uint64_t kFabricMagic = 0x31414348'74666f73;  // "softHCA1"
constexpr uint32_t kLayoutVersion = 25;
constexpr uint32_t kMaxDevices = 16;
constexpr uint32_t kMaxPorts = 2;
constexpr uint32_t kMaxLinks = kMaxDevices * kMaxPorts;
constexpr uint32_t kMaxDomains = 1024;
constexpr uint32_t kMaxAttachments = 128;

enum class LinkLayer : uint32_t { kInfiniband = 1, kEthernet = 2 };

// Parameters of a fabric, set by its first process.
struct FabricConfig {
    uint32_t devices;
    uint32_t ports;
    LinkLayer link_layer;
    uint32_t own_addresses;  // 1: each process has LIDs and GIDs of its own
    uint32_t subnets;        // 1: ports 1 and ports 2 are in different subnets
    uint32_t subnet;         // in GIDs of InfiniBand: who is in another fabric is not reachable
    uint32_t virtual_time;   // 1: time is virtual, and one process has all members
    NicParameters nic;
    Personality personality;
    char profile[16];
    char personality_name[16];
};

// An address names a port, and with `own_addresses` also a process. Its number is a place.
constexpr uint32_t kNoPlace = ~uint32_t{0};
constexpr uint32_t kAnyProcess = ~uint32_t{0};
inline uint32_t place_of(const FabricConfig& config, uint32_t slot, uint32_t link) {
    return config.own_addresses != 0 ? slot * kMaxLinks + link : link;
}
inline uint32_t process_of_place(const FabricConfig& config, uint32_t place) {
    return config.own_addresses != 0 ? place / kMaxLinks : kAnyProcess;
}
// Whether two ports can reach each other.
inline bool same_subnet(const FabricConfig& config, uint32_t link, uint32_t other) {
    return config.subnets == 0 || link % kMaxPorts == other % kMaxPorts;
}
// The first LID of the port; it has 2^lmc.
inline uint16_t lid_of_place(const FabricConfig& config, uint32_t place) {
    return static_cast<uint16_t>((place + 1) << config.personality.ports.lmc);
}
// The bits of a LID that say which of its port's LIDs it is.
inline uint16_t path_bits_of_lid(const FabricConfig& config, uint32_t lid) {
    return static_cast<uint16_t>(lid & ((1u << config.personality.ports.lmc) - 1));
}

struct Notice {  // bits of `notices`: what happened to an object, for its owner
    static constexpr uint32_t kCqEvent = 1 << 0;   // CQ: deliver a completion event
    static constexpr uint32_t kCqError = 1 << 1;   // CQ: overflowed
    static constexpr uint32_t kSrqLimit = 1 << 2;  // SRQ: limit reached
    static constexpr uint32_t kQpError = 1 << 3;   // QP: failed by a peer; flush it
    static constexpr uint32_t kQpAccessError = 1 << 4;
    static constexpr uint32_t kQpRequestError = 1 << 5;
    static constexpr uint32_t kQpFatal = 1 << 6;
    static constexpr uint32_t kQpCommEst = 1 << 7;
};

// Fields are grouped by their writer, so that a line that one side writes often is not read often
// by the other.
struct alignas(64) CqShared {
    static constexpr uint32_t kArmedNext = 1;
    static constexpr uint32_t kArmedSolicited = 2;
    static constexpr uint64_t kEventNow = 1;

    std::atomic<uint32_t> number{0};  // stored by the owner with release; 0: free
    RobustLock lock;                  // for producers, arming and resizing
    std::atomic<uint32_t> armed{0};   // under `lock`: 0, kArmedNext or kArmedSolicited
    std::atomic<uint32_t> notices{0};
    uint64_t ring = 0;  // offset in the owner's arena
    uint64_t mask = 0;
    uint64_t capacity = 0;
    // Under `lock`: the owner, who polls, sees a new entry by the entry itself.
    std::atomic<uint64_t> tail{0};
    uint64_t head_seen = 0;       // `head` as a producer last read it
    uint64_t notified_tail = 0;   // tail at the last event
    uint64_t armed_tail = 0;      // tail when the queue was armed
    uint64_t solicited_tail = 0;  // tail behind the newest solicited entry
    uint32_t claimer = 0;         // whose claim ends with the entry at the tail; 0: none does

    alignas(64) std::atomic<uint32_t> failed{0};  // set once, by a producer that found it full
    std::atomic<uint64_t> event_at{0};            // ns: time of the pending event; 0: none

    alignas(64) std::atomic<uint64_t> head{0};  // stored by the polling owner with release
};
// An empty poll reads `failed` and `head`, so that no line that a producer writes comes back to it.
static_assert(offsetof(CqShared, failed) / 64 > offsetof(CqShared, claimer) / 64);

struct alignas(64) SrqShared {
    std::atomic<uint32_t> number{0};
    RobustLock lock;  // for processes that take receives
    uint32_t pd = 0;
    uint32_t xrc_domain = 0;  // 0: a basic SRQ
    uint32_t cq = 0;          // of an XRC SRQ: the completion queue of its receives
    uint32_t life = 0;        // how many queues have had this entry: numbers may come back
    // under `lock`: the queue pair that takes the head, whose claim to repair
    uint32_t claimer = 0;
    std::atomic<uint32_t> limit{0};
    std::atomic<uint32_t> notices{0};
    RecvRing ring;
};

// The receive that a queue pair is filling. A sender writes the claim before it moves the ring's
// head, so that a receive taken by a sender that died is not lost: the queue pair fills it next,
// or flushes it.
struct Claim {
    std::atomic<uint32_t> valid{0};
    uint32_t srq = 0;   // the SRQ of the receive; 0: the queue pair's own receive queue
    uint32_t life = 0;  // of the SRQ: the claim is void if a later queue has its number
    uint32_t pd = 0;    // of the receive's memory
    uint32_t slot = 0;
    uint64_t index = 0;
};

// The shared part of a queue pair. The first lines hold its address and rights, which change
// rarely; behind them is the responder, which changes with every message that takes a receive.
struct alignas(64) QpShared {
    std::atomic<uint32_t> number{0};
    std::atomic<QpState> state{QpState::kReset};
    QpType type = QpType::kRc;
    ResponderAttributes attributes;
    uint32_t pd = 0;
    uint32_t recv_cq = 0;
    uint32_t srq = 0;
    uint32_t xrc_domain = 0;
    std::atomic<uint32_t> established{0};
    std::atomic<uint32_t> notices{0};

    alignas(64) RobustLock lock;  // for the responder: claim, receive ring, state
    Claim claim;
    uint64_t last_visible = 0;  // under `lock`: the latest `visible_at` of a receive's completion
    uint32_t uses_srq = 0;      // under `lock`: 1: has taken receives of a shared queue

    RecvRing ring;
    // Of an XRC receiver: the processes that have it open, one bit each. It lives as long as its
    // creator and one of these.
    std::atomic<uint64_t> openers[kMaxProcesses / 64] = {};
};

// The accesses of one thread of a process to processes, the outermost one first. An access within
// another one needs no lane of its own, so that no thread holds a lane and waits for another.
struct alignas(64) GuardLane {
    static constexpr uint32_t kDepth = 16;
    // target process + 1 in the low 16 bits, a count in the high ones; low bits 0: free. The
    // outermost one is set by CAS, which takes the lane; the others by the thread that has the
    // lane. Cleared with release.
    std::atomic<uint32_t> words[kDepth] = {};
};
struct GuardLanes {
    static constexpr uint32_t kMost = 64;

    // Lanes that have been used; only grows. Raised, seq_cst, before a lane is taken.
    std::atomic<uint32_t> used{0};
    GuardLane lanes[kMost];
};

struct Counters {
    std::atomic<uint64_t> messages{0};  // messages sent
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> completions{0};
    std::atomic<uint64_t> events{0};
    std::atomic<uint64_t> rnr_naks{0};
    std::atomic<uint64_t> retransmissions{0};
    std::atomic<uint64_t> errors{0};
    std::atomic<uint64_t> dropped{0};  // UD and UC messages that found no receiver
    std::atomic<uint64_t> registered_bytes{0};
    std::atomic<uint64_t> registrations{0};  // of memory, since the process began
};

// The objects that exist, but for queue pairs, which QueueUsage counts.
struct ObjectCounts {
    std::atomic<uint32_t> shared_receive_queues{0};
    std::atomic<uint32_t> completion_queues{0};
    std::atomic<uint32_t> memory_regions{0};
    std::atomic<uint32_t> memory_windows{0};
};

// A queue pair's place in a multicast group. Its owner writes it; senders to the group read it.
struct Attachment {
    std::atomic<uint32_t> qp{0};  // number; 0: free. Stored last
    uint32_t lid = 0;             // for the owner
    std::atomic<uint64_t> gid[2] = {};
};

struct Attachments {
    std::atomic<uint32_t> used{0};  // only grows
    Attachment entries[kMaxAttachments];
};

// The life of a process in its slot:
//
//   free     no process                   joining: a process takes the slot
//   joining  its owner prepares it        alive: the slot is ready; dead: as from leaving
//   alive    peers may use its objects    leaving: it exits, or its engine thread has ended
//   leaving  peers treat it as dead, but  dead: a peer finds that no thread of its address space
//            its threads may still copy   is left
//            and hold locks
//   dead     nothing of it runs           free: a process that joins has cleared the slot
enum class SlotState : uint32_t { kFree = 0, kJoining = 1, kAlive = 2, kLeaving = 3, kDead = 4 };

// The state of a slot and the number of the process that uses it, in one word: who changes the
// state of a process does not change that of its successor.
struct Life {
    static constexpr uint32_t kIncarnations = (1 << 23) - 1;  // a lock's word has as many

    SlotState state;
    uint32_t incarnation;  // counts the processes that have used the slot; 0: none

    static Life of(uint32_t word) { return {static_cast<SlotState>(word & 7), word >> 3}; }
    uint32_t word() const { return static_cast<uint32_t>(state) | incarnation << 3; }
};

// Processes that share ports in the timing model. Taken under the member file's lock.
struct NodePorts {
    static constexpr uint32_t kNameBytes = 72;

    char name[kNameBytes];
    LinkPair links[kMaxLinks];
};

// Wakes the progress engine of a process, and says which objects have notices for it.
struct alignas(64) Doorbell {
    std::atomic<uint32_t> rings{0};  // futex: counts calls of ring_doorbell()
    std::atomic<uint32_t> sleeping{0};
    std::atomic<uint64_t> dirty_cqs[kMaxObjects / 64];
    std::atomic<uint64_t> dirty_qps[kMaxObjects / 64];
    std::atomic<uint64_t> dirty_srqs[kMaxObjects / 64];
};

struct alignas(4096) ProcessSlot {
    std::atomic<uint32_t> life{0};  // a Life; changed under the member file's lock, or by CAS
    std::atomic<int32_t> pid{0};
    Witness witness;                 // of the process's address space
    uint64_t user_namespace;         // of the process: its inode
    pthread_mutex_t liveness_mutex;  // robust; held by a thread of the owner while it lives
    // What follows is zero in a free slot.
    char name[32];
    uint32_t thread_executor = 0;
    RobustLock atomics;  // serializes remote atomic operations on this process's memory
    GuardLanes guards;
    Doorbell doorbell;
    alignas(64) Counters counters;
    ObjectCounts objects;
    Lateness lateness;
    QueueUsage queues;
    std::atomic<uint32_t> device_queue_pairs[kMaxDevices];
    Attachments attachments;
    LinkPair links[kMaxLinks];      // the model gives each process ports of its own
    std::atomic<uint32_t> node{0};  // unless it shares those of FabricHeader::nodes[node - 1]

    Life get_life() const { return Life::of(life.load(std::memory_order_seq_cst)); }
    SlotState state() const { return get_life().state; }
};

// Makes the slot of a dead process free. Wherever the caller is killed meanwhile, the slot is dead
// or entirely free. Under the member file's lock.
void free_slot(ProcessSlot& slot);

// An XRC domain, named by a file or anonymous. `users` has one bit for each process.
struct XrcDomain {
    std::atomic<uint32_t> id{0};  // 0: free
    uint32_t device = 0;
    uint32_t named = 0;  // 1: a file names it
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
    RobustLock control;  // for XRC domains and receivers
    std::atomic<uint32_t> next_domain{1};
    // One bit for each slot that is not free; set before the process is alive.
    std::atomic<uint64_t> members[kMaxProcesses / 64];
    // The most that all processes have had together, by QueueUsage::Kind.
    std::atomic<uint64_t> queue_peaks[QueueUsage::kKinds];
    XrcDomain domains[kMaxDomains];
    NodePorts nodes[kMaxProcesses];
    ProcessSlot slots[kMaxProcesses];
};

// A process's arena: tables at fixed offsets, then memory for rings.
struct ArenaTables {
    static constexpr uint32_t kDevicePages = 1 << 14;

    KeyEntry keys[kMaxKeys];
    QpShared qps[kMaxObjects];
    SrqShared srqs[kMaxObjects];
    CqShared cqs[kMaxObjects];
    // Names of pages that the device has mapped for on-demand paging; any process maps them.
    std::atomic<uint64_t> device_pages[kDevicePages];
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
