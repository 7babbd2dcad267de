// SPDX-License-Identifier: BSD-3-Clause
// The timing model of the NIC and its link: when a transfer becomes visible, and how late it was.
// Pure: times are arguments in ns of one clock for all processes. Shared state consists of
// lock-free atomics, valid when zero.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softhca {

// LogP-like parameters. All zero is the ideal NIC, which takes no time.
struct NicParameters {
    uint64_t latency_ns;     // end to end, for the first byte
    double bandwidth;        // bytes per ns (GB/s); 0: infinite
    uint64_t gap_ns;         // between the end of a message and the start of the next one on a link
    uint64_t interval_ns;    // at least, between the starts of two messages on a link
    uint64_t completion_ns;  // from data visible in memory to its completion visible
    uint64_t registration_ns;       // fixed part of a memory registration
    double registration_bandwidth;  // bytes per ns; 0: infinite

    // Whether anything takes time.
    bool models_time() const;
};

// The profile of that name; nullptr if there is none.
const NicParameters* find_profile(std::string_view name);
// "ideal, graphene, infini, hdr200, muse"
std::string profile_names();
// The parameters in the syntax of apply_model_overrides(): "latency=2.3us,bandwidth=2,...".
std::string describe(const NicParameters& nic);

// Applies a comma list of key=value: latency, gap, interval, completion, reg-latency (us, or with
// suffix ns, us, ms, s) and bandwidth, reg-bandwidth (GB/s). On error, returns a text that names
// the choices, and leaves `nic` as it was.
std::optional<std::string> apply_model_overrides(std::string_view list, NicParameters& nic);

// Time for which `bytes` occupy a link, without gap and latency.
uint64_t transmit_ns(const NicParameters& nic, uint64_t bytes);
// Time from the start of a message of `bytes` to that of the next one on a link.
uint64_t spacing_ns(const NicParameters& nic, uint64_t bytes);
// Time that the registration of `bytes` takes.
uint64_t registration_time_ns(const NicParameters& nic, uint64_t bytes);

// When one direction of one port becomes free. Lives in shared memory.
struct LinkClock {
    std::atomic<uint64_t> free_at;
};

struct Booking {
    uint64_t start;          // the first byte leaves
    uint64_t arrival_begin;  // the first byte arrives
    uint64_t arrival_end;    // the last byte has arrived
};

// Books link time for a message of `bytes` from the port of `egress` to the port of `ingress`, in
// the order of the calls; lock-free. A lone message takes latency + bytes/bandwidth; successive
// messages are spaced gap + bytes/bandwidth, at least by the interval; senders to one port share
// its bandwidth. Bookings of one pair of links arrive in order. The ingress is booked from `now` +
// latency, even if the message waits for its sender's egress: such a message must not block an idle
// ingress for other senders.
Booking book_transfer(const NicParameters& nic, LinkClock& egress, LinkClock& ingress, uint64_t now,
                      uint64_t bytes);

// Books link time for an RDMA read or atomic with `bytes` of response: the request's latency, then
// a transfer from the responder's egress to the requester's ingress.
Booking book_read(const NicParameters& nic, LinkClock& responder_egress,
                  LinkClock& requester_ingress, uint64_t now, uint64_t bytes);

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
    static constexpr int kBuckets = 8;
    static constexpr uint64_t kLateNs = 100;
    static constexpr uint64_t kLatePart = 20;

    std::atomic<uint64_t> count;
    std::atomic<uint64_t> late;
    std::atomic<uint64_t> total_ns;  // of the late ones
    std::atomic<uint64_t> max_ns;
    std::atomic<uint64_t> histogram[kBuckets];  // < 1 us, < 10 us, ... < 1 s, the rest

    // Share of late operations, 0..1; 0 if there was no operation.
    double late_share() const;
};

// Records an operation that began at `begun`, was due at `due` and became visible at `now`.
void record(Lateness& lateness, uint64_t begun, uint64_t due, uint64_t now);

}  // namespace softhca
