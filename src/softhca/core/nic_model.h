// SPDX-License-Identifier: BSD-3-Clause
// The timing model of the NIC and its link: when a transfer may be seen, and how late it was. Pure:
// time is an argument, in ns, of one clock that all processes of the machine share. What is to be
// shared is plain data of lock-free atomics, ready to use when zeroed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softhca {

/// LogP-like parameters. All zero is the ideal NIC: nothing takes time.
struct NicParameters {
    uint64_t latency_ns;  ///< end to end, of the first byte
    double bandwidth;     ///< bytes per ns, that is GB/s; 0 = infinite
    uint64_t gap_ns;      ///< between the end of a message and the start of the next one on a link
    uint64_t
        completion_ns;  ///< from the data being visible in memory to its completion being visible
    uint64_t registration_ns;       ///< fixed part of a memory registration
    double registration_bandwidth;  ///< bytes per ns; 0 = infinite

    bool models_time() const;
};

/// A profile by its name, or null.
const NicParameters* find_profile(std::string_view name);
/// "ideal, graphene, infini, hdr200"
std::string profile_names();
/// The same figures in the syntax of apply_model_overrides: "latency=2.3us,bandwidth=2,...".
std::string describe(const NicParameters& nic);

/// Applies a comma list of key=value: latency, gap, completion, reg-latency (times: us, or with
/// suffix ns, us, ms, s) and bandwidth, reg-bandwidth (GB/s). Returns an error text naming the
/// choices, and then leaves `nic` as it was.
std::optional<std::string> apply_model_overrides(std::string_view list, NicParameters& nic);

/// How long `bytes` occupy a link, without gap and latency.
uint64_t transmit_ns(const NicParameters& nic, uint64_t bytes);
/// How long registering `bytes` takes.
uint64_t registration_time_ns(const NicParameters& nic, uint64_t bytes);

/// One direction of one port. Lives in shared memory.
struct LinkClock {
    std::atomic<uint64_t> free_at;
};

struct Booking {
    uint64_t start;          ///< the first byte leaves
    uint64_t arrival_begin;  ///< the first byte arrives
    uint64_t arrival_end;    ///< the last byte has arrived
};

/// Books a message of `bytes` from the port with `egress` to the port with `ingress`, in the order
/// of the calls; lock-free. A lone message takes latency + bytes/bandwidth; messages behind one
/// another are spaced gap + bytes/bandwidth; messages of several senders to one port share its
/// bandwidth. Bookings of one pair of links arrive in the order of the calls. The receiving port
/// accounts work from the time it is booked, so a message that must wait for its own sender's link
/// does not keep the receiver's idle link from others.
Booking book_transfer(const NicParameters& nic, LinkClock& egress, LinkClock& ingress, uint64_t now,
                      uint64_t bytes);

/// Books an RDMA read or atomic of `bytes` response data: the request's latency, then a transfer
/// from the responder's egress to the requester's ingress.
Booking book_read(const NicParameters& nic, LinkClock& responder_egress,
                  LinkClock& requester_ingress, uint64_t now, uint64_t bytes);

/// When the first `offset_end` of `total` bytes have arrived.
uint64_t arrival_at(const Booking& booking, const NicParameters& nic, uint64_t total,
                    uint64_t offset_end);

/// How many of the first `total` bytes have arrived at `now`.
uint64_t arrived_by(const Booking& booking, const NicParameters& nic, uint64_t total, uint64_t now);

/// Messages appear in memory in pieces of so many bytes, each when all of it has arrived: packets
/// of the largest MTU.
constexpr uint64_t kPacketBytes = 4096;

/// Counts how late operations were against the model. Lives in shared memory. An operation is late
/// when it took a twentieth longer than the model says, and at least kLateNs: what a measurement of
/// it would be off by.
struct Lateness {
    static constexpr int kBuckets = 8;
    static constexpr uint64_t kLateNs = 100;
    static constexpr uint64_t kLatePart = 20;

    std::atomic<uint64_t> count;
    std::atomic<uint64_t> late;
    std::atomic<uint64_t> total_ns;  // of the late ones
    std::atomic<uint64_t> max_ns;
    std::atomic<uint64_t> histogram[kBuckets];  // < 1 us, < 10 us, ... < 1 s, the rest

    // BackingFile of late operations, 0..1; 0 if there was none at all.
    double late_share() const;
};

// Notes that what began at `begun` and was due at `due` became visible at `now`.
void record(Lateness& lateness, uint64_t begun, uint64_t due, uint64_t now);

}  // namespace softhca
