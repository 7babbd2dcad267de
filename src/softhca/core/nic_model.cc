// SPDX-License-Identifier: BSD-3-Clause
#include "nic_model.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace softhca {
namespace {

// Keeps sums of times far from overflow at any bandwidth.
constexpr double kMaxTransmitNs = 1e15;

static_assert(std::is_standard_layout_v<LinkPair> && std::is_standard_layout_v<Lateness>);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

uint64_t bytes_over_bandwidth(uint64_t bytes, double bandwidth) {
    if (bandwidth <= 0) return 0;
    return static_cast<uint64_t>(
        std::min(std::ceil(static_cast<double>(bytes) / bandwidth), kMaxTransmitNs));
}

// What the bytes add to the latency: their way to the NIC, and the first packet, which is stored
// before it is forwarded.
uint64_t before_transmission_ns(const NicParameters& nic, const Request& request) {
    const uint64_t first = std::min(request.bytes, kPacketBytes);
    const uint64_t stored = bytes_over_bandwidth(first, nic.packet_bandwidth);
    uint64_t ns = stored - std::min(stored, transmit_ns(nic, first));
    if (request.reads() || request.bytes == 0) return ns;
    ns += request.is_inline ? bytes_over_bandwidth(request.bytes, nic.inline_bandwidth)
                            : nic.gather_ns;
    return ns;
}

uint64_t round_trip_ns(const NicParameters& nic, RequestKind kind) {
    const uint64_t read = nic.read_ns != 0 ? nic.read_ns : 2 * nic.latency_ns;
    return kind == RequestKind::kAtomic && nic.atomic_ns != 0 ? nic.atomic_ns : read;
}

uint64_t interval_ns(const NicParameters& nic, RequestKind kind) {
    if (kind == RequestKind::kRead && nic.read_interval_ns != 0) return nic.read_interval_ns;
    if (kind == RequestKind::kAtomic && nic.atomic_interval_ns != 0) return nic.atomic_interval_ns;
    return nic.interval_ns;
}

// Time from the start of a request to that of the next one, as far as the queue pair is concerned.
uint64_t qp_spacing_ns(const NicParameters& nic, const Request& request) {
    uint64_t least = nic.queue_pair.write_ns;
    if (request.reads())
        least = nic.queue_pair.read_ns;
    else if (request.is_inline && nic.queue_pair.inline_ns != 0)
        least = nic.queue_pair.inline_ns;
    else if (request.kind == RequestKind::kSend)
        least = nic.queue_pair.send_ns;
    return std::max(least, transmit_ns(nic, request.bytes) + nic.queue_pair.gap_ns);
}

}  // namespace

uint64_t transmit_ns(const NicParameters& nic, uint64_t bytes) {
    return bytes_over_bandwidth(bytes, nic.bandwidth);
}

uint64_t spacing_ns(const NicParameters& nic, const Request& request) {
    return std::max(qp_spacing_ns(nic, request), port_spacing_ns(nic, request));
}

uint64_t port_spacing_ns(const NicParameters& nic, const Request& request) {
    return std::max(transmit_ns(nic, request.bytes) + nic.gap_ns, interval_ns(nic, request.kind));
}

uint64_t arrival_ns(const NicParameters& nic, const Request& request) {
    const uint64_t first = request.reads() ? round_trip_ns(nic, request.kind) : nic.latency_ns;
    return first + before_transmission_ns(nic, request) + transmit_ns(nic, request.bytes);
}

uint64_t request_ns(const NicParameters& nic, RequestKind kind) {
    return round_trip_ns(nic, kind) / 2;
}

uint64_t receive_ns(const NicParameters& nic, RequestKind kind) {
    return nic.completion_ns + (Request{kind}.takes_receive() ? nic.send_ns : 0);
}

uint64_t MemoryCosts::time_ns(uint64_t bytes) const {
    return fixed_ns + bytes_over_bandwidth(bytes, bandwidth);
}

uint64_t part_ns(const NicParameters& nic, const Request& request, const Part& part) {
    const uint64_t end =
        part.end == request.bytes ? port_spacing_ns(nic, request) : transmit_ns(nic, part.end);
    return end - transmit_ns(nic, part.begin);
}

bool QpClock::may_begin(const Request& request) const {
    if (request.fenced && answered_ != reads_) return false;
    if (!request.reads()) return true;
    return leaving_ == 0 && (read_depth_ == 0 || reads_ - answered_ < read_depth_);
}

uint64_t QpClock::begin(const NicParameters& nic, const Request& request, uint64_t now) {
    uint64_t begun = std::max(now, free_at_);
    if (request.fenced) begun = std::max(begun, responded_at_);
    if (request.reads() && read_depth_ != 0)
        begun = std::max(begun, responses_[(reads_ - read_depth_) % kResponses]);
    free_at_ = begun + qp_spacing_ns(nic, request);
    if (!request.reads()) {
        ++leaving_;
        return begun;
    }
    ++reads_;
    // A read acts at the responder, after the writes before it; its answer goes the other way.
    arrived_at_ = std::max(begun + request_ns(nic, request.kind), arrived_at_);
    return arrived_at_;
}

uint64_t QpClock::earliest_arrival(const NicParameters& nic, const Request& request,
                                   uint64_t start) const {
    const bool reads = request.reads();
    const uint64_t way =
        reads ? round_trip_ns(nic, request.kind) - request_ns(nic, request.kind) : nic.latency_ns;
    return std::max(start + way + before_transmission_ns(nic, request),
                    reads ? responded_at_ : arrived_at_);
}

void QpClock::arrives(const Request& request, const Booking& booking) {
    if (!request.reads()) {
        arrived_at_ = std::max(arrived_at_, booking.arrival_end);
        if (leaving_ != 0) --leaving_;
        return;
    }
    arrived_at_ = std::max(arrived_at_, booking.start);
    responded_at_ = booking.arrival_end;
    responses_[answered_++ % kResponses] = booking.arrival_end;
}

void QpClock::forget() {
    answered_ = reads_;
    leaving_ = 0;
}

Booking depart(const NicParameters& nic, const Request& request, QpClock& qp, LinkPair& from,
               uint64_t now) {
    const uint64_t ready = qp.begin(nic, request, now);
    const uint64_t start = from.egress.reserve(now, ready, port_spacing_ns(nic, request));
    const uint64_t arrives = qp.earliest_arrival(nic, request, start);
    return {start, arrives, arrives};
}

void arrive(const NicParameters& nic, const Request& request, QpClock& qp, LinkPair& to,
            uint64_t now, Booking& booking) {
    arrive(nic, request, {0, request.bytes, booking.start}, qp, to, now, booking);
}

void arrive(const NicParameters& nic, const Request& request, const Part& part, QpClock& qp,
            LinkPair& to, uint64_t now, Booking& booking) {
    const bool last = part.end == request.bytes;
    const uint64_t more = last && request.takes_receive() ? nic.receive_interval_ns : 0;
    uint64_t earliest = qp.earliest_arrival(nic, request, part.start);
    // A port that is busy has made the parts before wait, and none overtakes them.
    if (part.begin != 0)
        earliest = std::max(earliest, booking.arrival_begin + transmit_ns(nic, part.begin));
    const uint64_t begin = to.ingress.reserve(now, earliest, part_ns(nic, request, part) + more);
    booking.arrival_begin = begin - transmit_ns(nic, part.begin);
    booking.arrival_end = booking.arrival_begin + transmit_ns(nic, request.bytes);
    if (last) qp.arrives(request, booking);
}

Booking later(const Booking& booking, uint64_t ns) {
    return {booking.start + ns, booking.arrival_begin + ns, booking.arrival_end + ns};
}

uint64_t arrival_at(const Booking& booking, const NicParameters& nic, uint64_t total,
                    uint64_t offset_end) {
    if (offset_end >= total) return booking.arrival_end;
    return std::min(booking.arrival_begin + transmit_ns(nic, offset_end), booking.arrival_end);
}

uint64_t arrived_by(const Booking& booking, const NicParameters& nic, uint64_t total,
                    uint64_t now) {
    if (now >= booking.arrival_end) return total;
    if (now <= booking.arrival_begin || nic.bandwidth <= 0) return 0;
    const double bytes = static_cast<double>(now - booking.arrival_begin) * nic.bandwidth;
    // Rounding must not make the last byte arrive before arrival_end.
    return std::min(static_cast<uint64_t>(bytes), total - 1);
}

void record(Lateness& lateness, uint64_t begun, uint64_t due, uint64_t now) {
    const uint64_t ns = now > due ? now - due : 0;
    const uint64_t lasted = due > begun ? due - begun : 0;
    lateness.count.fetch_add(1, std::memory_order_relaxed);
    if (ns <= Lateness::kLateNs || ns <= lasted / Lateness::kLatePart) return;
    lateness.late.fetch_add(1, std::memory_order_relaxed);
    lateness.total_ns.fetch_add(ns, std::memory_order_relaxed);
}

}  // namespace softhca
