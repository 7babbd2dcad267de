// SPDX-License-Identifier: BSD-3-Clause
// The timing model of the NIC and its link: when a transfer becomes visible, and how late it was.
// Pure: times are arguments in ns of one clock for all processes. Shared state consists of
// lock-free atomics, valid when zero.
#pragma once

#include <atomic>
#include <cstdint>

#include "softhca/core/nic_parameters.h"
#include "softhca/core/port_schedule.h"
#include "softhca/core/robust_lock.h"

namespace softhca {

enum class RequestKind : uint8_t { kWrite, kSend, kRead, kAtomic, kWriteImm };

// What the model must know of a work request.
struct Request {
    RequestKind kind = RequestKind::kWrite;
    uint64_t bytes = 0;  // of the message, or of the response
    bool is_inline = false;
    bool fenced = false;  // waits for the answers to the reads and atomics before it

    // Whether the responder answers with data.
    bool reads() const { return kind == RequestKind::kRead || kind == RequestKind::kAtomic; }
    bool takes_receive() const {
        return kind == RequestKind::kSend || kind == RequestKind::kWriteImm;
    }
};

// Time for which `bytes` occupy a link, without gap and latency.
uint64_t transmit_ns(const NicParameters& nic, uint64_t bytes);
// Time from the start of a message to that of the next one like it on one queue pair.
uint64_t spacing_ns(const NicParameters& nic, const Request& request);
// Time from the start of a message to that of the next one on a port that many queue pairs use.
uint64_t port_spacing_ns(const NicParameters& nic, const Request& request);
// A part of a request, which leaves a port in one piece at `start`.
struct Part {
    uint64_t begin;  // its bytes
    uint64_t end;
    uint64_t start;
};
// Time for which it occupies the port. The last part has the port's gap and interval.
uint64_t part_ns(const NicParameters& nic, const Request& request, const Part& part);
// Time until all bytes of a lone request have arrived: at the responder, or for reads and atomics
// at the requester.
uint64_t arrival_ns(const NicParameters& nic, const Request& request);
// Time until the request of a read or atomic has arrived at the responder.
uint64_t request_ns(const NicParameters& nic, RequestKind kind);
// Time from the arrival of a message at the receiver to its completion.
uint64_t receive_ns(const NicParameters& nic, RequestKind kind);

// One port. Lives in shared memory.
struct LinkPair {
    RobustLock lock;  // for booking; who takes it over from a dead owner clears both
    PortSchedule egress;
    PortSchedule ingress;

    void clear() {
        egress.clear();
        ingress.clear();
    }
};

// What the requests of one queue pair wait for. Of its owner.
class QpClock {
  public:
    // At most so many reads and atomics are under way; 0: any number.
    void set_read_depth(uint8_t depth) { read_depth_ = depth; }

    // Whether it is known when the request may leave: what it waits for has left.
    bool may_begin(const Request& request) const;
    // When the request is ready to leave a port, at the earliest `now`: its own queue pair's, or
    // the responder's if it reads. Called in the order of the requests.
    uint64_t begin(const NicParameters& nic, const Request& request, uint64_t now);
    // The first bytes of a request that has begun leave at `start`: when they can arrive.
    uint64_t earliest_arrival(const NicParameters& nic, const Request& request,
                              uint64_t start) const;
    // All of the request has left, and arrives as booked.
    void arrives(const Request& request, const struct Booking& booking);
    // What has begun and has not left is sent again, or never.
    void forget();

  private:
    static constexpr uint64_t kResponses = 256;  // more than the greatest depth

    uint64_t free_at_ = 0;                 // when the next request may start
    uint64_t arrived_at_ = 0;              // when the requests so far have arrived at the peer
    uint64_t responded_at_ = 0;            // when the responses so far have arrived
    uint64_t responses_[kResponses] = {};  // their ends; a ring
    uint64_t reads_ = 0;                   // that have begun
    uint64_t answered_ = 0;                // reads whose answers have left
    uint64_t leaving_ = 0;                 // others that have begun and not left
    uint8_t read_depth_ = 0;
};

struct Booking {
    uint64_t start;          // the first byte leaves; for reads and atomics, the responder acts
    uint64_t arrival_begin;  // the first byte arrives
    uint64_t arrival_end;    // the last byte has arrived
};

// Books time for a request in two steps: at the port that its data leave, which is the peer's if
// the request reads, and then at the one where they arrive. The caller holds the lock of that port.
// Requests of one queue pair arrive in the order of the calls. A port is busy while bytes pass it:
// a request that waits for its queue pair or for the other port leaves it to others.
Booking depart(const NicParameters& nic, const Request& request, QpClock& qp, LinkPair& from,
               uint64_t now);
void arrive(const NicParameters& nic, const Request& request, QpClock& qp, LinkPair& to,
            uint64_t now, Booking& booking);
// The second step for a part; parts come in their order. `booking` is then as if the rest of the
// request followed at once.
void arrive(const NicParameters& nic, const Request& request, const Part& part, QpClock& qp,
            LinkPair& to, uint64_t now, Booking& booking);
// The booking of a request that is sent again `ns` later.
Booking later(const Booking& booking, uint64_t ns);

// When the first `offset_end` of `total` bytes have arrived.
uint64_t arrival_at(const Booking& booking, const NicParameters& nic, uint64_t total,
                    uint64_t offset_end);

// How many of the first `total` bytes have arrived at `now`.
uint64_t arrived_by(const Booking& booking, const NicParameters& nic, uint64_t total, uint64_t now);

// The model's packet, of the largest MTU: RDMA data becomes visible in packets, each when its last
// byte has arrived.
constexpr uint64_t kPacketBytes = 4096;

// Counts how late operations were against the model. Lives in shared memory. An operation is late
// if it took more than a twentieth, and more than kLateNs, longer than modeled: it would falsify a
// measurement.
struct Lateness {
    static constexpr uint64_t kLateNs = 100;
    static constexpr uint64_t kLatePart = 20;

    std::atomic<uint64_t> count;
    std::atomic<uint64_t> late;
    std::atomic<uint64_t> total_ns;  // of the late ones
};

// Records an operation that began at `begun`, was due at `due` and became visible at `now`.
void record(Lateness& lateness, uint64_t begun, uint64_t due, uint64_t now);

}  // namespace softhca
