// SPDX-License-Identifier: BSD-3-Clause
#include "nic_model.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "text.h"

namespace softhca {
namespace {

struct Profile {
    const char* name;
    NicParameters nic;
};

// Where the figures come from. "The paper": A. Denis, "A High-Performance Superpipeline Protocol
// for InfiniBand", Euro-Par 2011; graphene and infini are its two clusters.
//
// graphene, ConnectX DDR
// - bandwidth: 2.0 GB/s, the payload of a 4x DDR link. The paper's asymptote of registration and
//   send, 91 % of the network, agrees: 20 / (20 + 2.0).
// - registration: measured there, 68 us + 20 GB/s.
// - latency: the paper sizes the first chunk as C0 = B_copy * 2 * latency and settles on 12 KB.
//   Copy and send one after the other reach 57 % of the network, so B_copy = 2.0 * 0.57 / 0.43 =
//   2.65 GB/s and the latency 12288 / (2 * 2.65) = 2.3 us.
// - gap: with C0 = 12 KB and q = 1.5 a 16 KB message has 1.26 gaps and a 64 KB one 3.20. Their
//   overheads are 15 % of (2.3 + 8.2) us = 1.57 us and at most 5 % of (2.3 + 32.8) us = 1.75 us.
//   Both hold the same copies, so 1.94 gaps are at most 0.18 us: 0.1 us.
//
// infini, ConnectX-2 QDR
// - bandwidth: 3.2 GB/s, typical payload through PCI Express 2.0 x8, which limits the card before
//   its link does.
// - latency: 1.6 us, typical of the card; gives a C0 within the 8 to 16 KB that the paper reports.
// - gap: as above, 15 % of (1.6 + 5.1) us = 1.01 us and 5 % of (1.6 + 20.5) us = 1.10 us: 0.05 us.
// - registration: as graphene, "the same order of magnitudes on other DDR and QDR boards".
//
// hdr200: typical of 200 Gbit/s cards, 24.5 GB/s of payload, 1.0 us, 200 M messages/s, registration
// through the kernel 30 us + 30 GB/s.
//
// muse, InfiniBand 4x of 2006: O. Ben Fredj and E. Renault, "RWAPI over InfiniBand: Design and
// Performance", 2007
// - bandwidth: 0.79 GB/s, its "more than 6300 Mb/s, the maximum available bandwidth for the user".
// - interval: its 1.76 us. The paper calls this a latency, which no card of that time had; it is
//   the time between two messages of a burst. Bursts reach the full bandwidth from 4 KB on, so this
//   time is not in addition to that of the bytes, as a gap would be.
// - latency: the paper has no figure. It is below MPI's lowest, 4.96 us: assumed to be 4 us.
// - registration: not in the paper; as graphene.
//
// completion: in none of the sources; stands for one more small write of the card behind the data.
constexpr Profile kProfiles[] = {
    {"ideal", {}},
    {"graphene", {2300, 2.0, 100, 0, 200, 68'000, 20.0}},
    {"infini", {1600, 3.2, 50, 0, 150, 68'000, 20.0}},
    {"hdr200", {1000, 24.5, 5, 0, 100, 30'000, 30.0}},
    {"muse", {4000, 0.79, 0, 1760, 200, 68'000, 20.0}},
};

struct TimeParameter {
    std::string_view name;
    uint64_t NicParameters::*field;
};

struct BandwidthParameter {
    std::string_view name;
    double NicParameters::*field;
};

constexpr TimeParameter kTimes[] = {{"latency", &NicParameters::latency_ns},
                                    {"gap", &NicParameters::gap_ns},
                                    {"interval", &NicParameters::interval_ns},
                                    {"completion", &NicParameters::completion_ns},
                                    {"reg-latency", &NicParameters::registration_ns}};
constexpr BandwidthParameter kBandwidths[] = {
    {"bandwidth", &NicParameters::bandwidth},
    {"reg-bandwidth", &NicParameters::registration_bandwidth}};

// Keeps sums of times far from overflow at any bandwidth.
constexpr double kMaxTransmitNs = 1e15;

static_assert(std::is_trivially_copyable_v<NicParameters>);
static_assert(std::is_standard_layout_v<LinkClock> && std::is_standard_layout_v<Lateness>);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

uint64_t bytes_over_bandwidth(uint64_t bytes, double bandwidth) {
    if (bandwidth <= 0) return 0;
    return static_cast<uint64_t>(
        std::min(std::ceil(static_cast<double>(bytes) / bandwidth), kMaxTransmitNs));
}

// Reserves `work` ns of a link, first come, first served. Returns the begin of the reservation.
uint64_t reserve(LinkClock& clock, uint64_t now, uint64_t work) {
    uint64_t free_at = clock.free_at.load(std::memory_order_relaxed);
    uint64_t begin;
    do {
        begin = std::max(now, free_at);
    } while (
        !clock.free_at.compare_exchange_weak(free_at, begin + work, std::memory_order_relaxed));
    return begin;
}

std::optional<std::string> apply_override(const ListEntry& entry, NicParameters& nic) {
    for (const TimeParameter& parameter : kTimes) {
        if (entry.key != parameter.name) continue;
        const auto ns = parse_time_ns(entry.value);
        if (!ns) {
            return std::string(entry.key) +
                   " wants a time in us, or with suffix ns, us, ms or s (such as 2.3 or 500ns), "
                   "not '" +
                   std::string(entry.value) + "'";
        }
        nic.*parameter.field = *ns;
        return std::nullopt;
    }
    for (const BandwidthParameter& parameter : kBandwidths) {
        if (entry.key != parameter.name) continue;
        const auto value = parse_decimal(entry.value);
        if (!value) {
            return std::string(entry.key) +
                   " wants a number of GB/s (such as 2.0; 0 is infinite), not '" +
                   std::string(entry.value) + "'";
        }
        nic.*parameter.field = *value;
        return std::nullopt;
    }
    return "unknown parameter '" + std::string(entry.key) +
           "'; choose from latency, bandwidth, gap, interval, completion, reg-latency, "
           "reg-bandwidth";
}

}  // namespace

bool NicParameters::models_time() const {
    return latency_ns != 0 || bandwidth != 0 || gap_ns != 0 || interval_ns != 0 ||
           completion_ns != 0 || registration_ns != 0 || registration_bandwidth != 0;
}

const NicParameters* find_profile(std::string_view name) {
    for (const Profile& profile : kProfiles)
        if (name == profile.name) return &profile.nic;
    return nullptr;
}

std::string profile_names() {
    return joined(kProfiles, &Profile::name);
}

std::string describe(const NicParameters& nic) {
    return "latency=" + time_text(nic.latency_ns) + ",bandwidth=" + decimal_text(nic.bandwidth) +
           ",gap=" + time_text(nic.gap_ns) + ",interval=" + time_text(nic.interval_ns) +
           ",completion=" + time_text(nic.completion_ns) +
           ",reg-latency=" + time_text(nic.registration_ns) +
           ",reg-bandwidth=" + decimal_text(nic.registration_bandwidth);
}

std::optional<std::string> apply_model_overrides(std::string_view list, NicParameters& nic) {
    NicParameters changed = nic;
    auto error = for_each_entry(
        list, [&](const ListEntry& entry) { return apply_override(entry, changed); });
    if (!error) nic = changed;
    return error;
}

uint64_t transmit_ns(const NicParameters& nic, uint64_t bytes) {
    return bytes_over_bandwidth(bytes, nic.bandwidth);
}

uint64_t spacing_ns(const NicParameters& nic, uint64_t bytes) {
    return std::max(transmit_ns(nic, bytes) + nic.gap_ns, nic.interval_ns);
}

uint64_t registration_time_ns(const NicParameters& nic, uint64_t bytes) {
    return nic.registration_ns + bytes_over_bandwidth(bytes, nic.registration_bandwidth);
}

Booking book_transfer(const NicParameters& nic, LinkClock& egress, LinkClock& ingress, uint64_t now,
                      uint64_t bytes) {
    const uint64_t transmit = transmit_ns(nic, bytes);
    if (nic.bandwidth <= 0 && nic.gap_ns == 0 && nic.interval_ns == 0)
        return {now, now + nic.latency_ns, now + nic.latency_ns};
    const uint64_t start = reserve(egress, now, spacing_ns(nic, bytes));
    const uint64_t turn = reserve(ingress, now + nic.latency_ns, transmit);
    const uint64_t begin = std::max(start + nic.latency_ns, turn);
    return {start, begin, begin + transmit};
}

Booking book_read(const NicParameters& nic, LinkClock& responder_egress,
                  LinkClock& requester_ingress, uint64_t now, uint64_t bytes) {
    // The request's latency is added after the booking: added before, it would leave the
    // responder's link idle.
    Booking booking = book_transfer(nic, responder_egress, requester_ingress, now, bytes);
    booking.start += nic.latency_ns;
    booking.arrival_begin += nic.latency_ns;
    booking.arrival_end += nic.latency_ns;
    return booking;
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

double Lateness::late_share() const {
    const uint64_t all = count.load(std::memory_order_relaxed);
    return all == 0 ? 0
                    : static_cast<double>(late.load(std::memory_order_relaxed)) /
                          static_cast<double>(all);
}

void record(Lateness& lateness, uint64_t begun, uint64_t due, uint64_t now) {
    constexpr uint64_t kFirstBucketNs = 1000;
    const uint64_t ns = now > due ? now - due : 0;
    int bucket = 0;
    for (uint64_t limit = kFirstBucketNs; ns >= limit && bucket < Lateness::kBuckets - 1;
         limit *= 10)
        ++bucket;
    lateness.count.fetch_add(1, std::memory_order_relaxed);
    lateness.histogram[bucket].fetch_add(1, std::memory_order_relaxed);
    const uint64_t lasted = due > begun ? due - begun : 0;
    if (ns <= Lateness::kLateNs || ns <= lasted / Lateness::kLatePart) return;
    lateness.late.fetch_add(1, std::memory_order_relaxed);
    lateness.total_ns.fetch_add(ns, std::memory_order_relaxed);
    uint64_t max = lateness.max_ns.load(std::memory_order_relaxed);
    while (ns > max && !lateness.max_ns.compare_exchange_weak(max, ns, std::memory_order_relaxed)) {
    }
}

}  // namespace softhca
