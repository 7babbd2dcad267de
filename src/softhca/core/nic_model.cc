// SPDX-License-Identifier: BSD-3-Clause
#include "nic_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "text.h"

namespace softhca {
namespace {

// On which host each group of parameters was measured; nullptr: not on a host, see below.
struct Hosts {
    const char* latency = nullptr;     // and send, read, atomic
    const char* data = nullptr;        // gather, inline-bandwidth
    const char* queue_pair = nullptr;  // qp-...
    const char* port = nullptr;        // the intervals
};

struct Profile {
    const char* name;
    NicParameters nic;
    Hosts hosts = {};
    const char* personality = "default";
};

// Where the figures come from. graphene and infini are calibrated on results of the paper whose
// protocol Tern is compared with; for other comparisons, use the last three. "The paper": A. Denis,
// "A High-Performance Superpipeline Protocol for InfiniBand", Euro-Par 2011; graphene and infini
// are its two clusters.
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
//
// cx3-fdr, cx5-edr, cx6-hdr: published figures, each group of one host. What has no figure is an
// assumption. Slopes of 1.9 ns/B and the like are of the time by bytes, so inline_bandwidth is what
// they add to the packet's.
//
// cx3-fdr, ConnectX-3 FDR
// - write of 8 B, inline: 0.95 us (0.98; 40 GbE: 0.85); send 90 ns more (0.98, 1.07); read 1.99 us,
//   fetch-and-add 2.34 us.
// - inline: 1.9 ns/B up to 128 B. Not inline: 256 B take 1.84 us, so 0.67 us more than inline.
// - one queue pair, not inline: write 7.4 to 7.8, send 5.2 to 5.4, read 6.2 M/s. The send's may be
//   the receiver's processor: at most 188 ns, and not less than a write's 130.
// - port: write 26 M/s (receives, many queue pairs; 22 if the receive is not inline: 7 ns), read
//   11 M/s, atomic 2.7 M/s.
// - Assumed: 0.8 ns/B inside a packet (ConnectX-2 QDR: 0.82), 6.0 GB/s (4.5 GB/s with 40 Gbit/s).
//
// cx5-edr, ConnectX-5 EDR
// - write 0.95 us (0.93 inline, 1.32 not inline, read 1.91; back to back on Ethernet: 0.99). Send:
//   published 0.07 us less and 0.10 more; 0.05 more is assumed. Atomic as read (2.65 and 2.69 us on
//   Ethernet through a switch).
// - one queue pair: MPI's messages of 8 B 6.15 M/s, and of 512 B to 2 KiB, not inline, 2.87 to 3.21
// M/s (osu_mbw_mr
//   over dc_x). The adapter is at least as fast. Reads: assumed as what is not inline.
// - port: write 90, read 60, atomic 5 M/s; a receive 4 ns (Connect-IB: Kalia et al., ATC 2016).
// - Assumed: 0.22 ns/B inside a packet (D. Potter's thesis), inline 0.7 ns/B (as ConnectX-6).
//   11.7 GB/s.
//
// cx6-hdr, ConnectX-6 HDR, through one switch
// - write 1.26, send 1.27, read 2.39 us; atomic: assumed as read.
// - inline 0.65 ns/B; not inline 0.48 us more (8 B 1.58, 128 B 1.68, 256 B 2.12 us).
// - one queue pair, not inline: write 2.5 to 2.8 M/s up to 4 KiB (380 ns). Write of 4 KiB 10.3,
//   8 KiB 17.5, 16 KiB 20.5, 64 KiB 22.7, 1 MiB 23.3 GB/s: 23.3 GB/s, and 100 ns between two
//   messages. Sends and reads have no figure of that host, and are assumed as writes; another
//   host's sends, 4.89 M/s, have no write beside them. Inline: assumed as ConnectX-5; between 163
//   and 380 ns.
// - port: write 123, read 83 M/s, atomic to one address 2.17 M/s; a receive as ConnectX-5.
// - Assumed: 0.22 ns/B inside a packet.
//
// Registration of the three: 16 us + 0.25 to 0.40 us a page (UCX's model 16 us + 0.246, libfabric
// issue 4738 0.32, Mooncake PR 855 0.40): 0.32 us, 12.8 GB/s. Deregistration 0.095 us a page
// (Mooncake PR 855), and 2.4 us, which is an assumption. Their completion is 0: perftest's latency
// of a write waits for it, so that it is in the latency.
constexpr MemoryCosts kRegistration{16'000, 12.8};
constexpr MemoryCosts kDeregistration{2'400, 43.1};
constexpr const char* kTeaker = "perftest on MT4099, hosts teaker-10 and -11";
constexpr const char* kPerftest131 = "linux-rdma/perftest issue 131";

constexpr Profile kProfiles[] = {
    {"ideal", {}},
    {"graphene", {2300, 2.0, 100, 0, 200, {68'000, 20.0}}},
    {"infini", {1600, 3.2, 50, 0, 150, {68'000, 20.0}}},
    {"hdr200", {1000, 24.5, 5, 0, 100, {30'000, 30.0}}},
    {"muse", {4000, 0.79, 0, 1760, 200, {68'000, 20.0}}},
    {"cx3-fdr",
     {.latency_ns = 935,
      .bandwidth = 6.0,
      .interval_ns = 38,
      .registration = kRegistration,
      .deregistration = kDeregistration,
      .send_ns = 90,
      .read_ns = 1984,
      .atomic_ns = 2334,
      .gather_ns = 670,
      .inline_bandwidth = 0.91,
      .packet_bandwidth = 1.25,
      .queue_pair = {.write_ns = 130, .send_ns = 188, .read_ns = 161},
      .read_interval_ns = 90,
      .atomic_interval_ns = 370,
      .receive_interval_ns = 7},
     {.latency = kTeaker,
      .data = kTeaker,
      .queue_pair = kTeaker,
      .port = "Apt cluster: Kalia et al., ATC 2016, and rdma_bench"}},
    {"cx5-edr",
     {.latency_ns = 944,
      .bandwidth = 11.7,
      .interval_ns = 11,
      .registration = kRegistration,
      .deregistration = kDeregistration,
      .send_ns = 50,
      .read_ns = 1908,
      .gather_ns = 390,
      .inline_bandwidth = 2.08,
      .packet_bandwidth = 4.55,
      .queue_pair = {.write_ns = 325, .send_ns = 325, .read_ns = 325, .inline_ns = 163},
      .read_interval_ns = 17,
      .atomic_interval_ns = 200,
      .receive_interval_ns = 4},
     {.latency = kPerftest131,
      .data = kPerftest131,
      .queue_pair = "openucx/ucx issue 1831",
      .port = "Kong et al., NSDI 2023"},
     "mlx5"},
    {"cx6-hdr",
     {.latency_ns = 1255,
      .bandwidth = 23.3,
      .interval_ns = 8,
      .registration = kRegistration,
      .deregistration = kDeregistration,
      .send_ns = 10,
      .read_ns = 2388,
      .gather_ns = 480,
      .inline_bandwidth = 2.33,
      .packet_bandwidth = 4.55,
      .queue_pair =
          {.gap_ns = 100, .write_ns = 380, .send_ns = 380, .read_ns = 380, .inline_ns = 163},
      .read_interval_ns = 12,
      .atomic_interval_ns = 460,
      .receive_interval_ns = 4},
     {.latency = "Zaratan, HDR100",
      .data = "Azure HB120rs_v3",
      .queue_pair = "MT28908 in a virtual machine with A100",
      .port = "two adapters in one host, benchmarks with stdrdma.h"},
     "mlx5"},
};

template <auto... path>
auto& parameter_at(NicParameters& nic) {
    return (nic.*....*path);
}

// A parameter is a time or a bandwidth; the other one is null.
struct Parameter {
    std::string_view name;
    uint64_t& (*time)(NicParameters&);
    double& (*bandwidth)(NicParameters&) = nullptr;
};

constexpr Parameter kParameters[] = {
    {"latency", parameter_at<&NicParameters::latency_ns>},
    {"bandwidth", nullptr, parameter_at<&NicParameters::bandwidth>},
    {"gap", parameter_at<&NicParameters::gap_ns>},
    {"interval", parameter_at<&NicParameters::interval_ns>},
    {"completion", parameter_at<&NicParameters::completion_ns>},
    {"reg-latency", parameter_at<&NicParameters::registration, &MemoryCosts::fixed_ns>},
    {"reg-bandwidth", nullptr, parameter_at<&NicParameters::registration, &MemoryCosts::bandwidth>},
    {"dereg-latency", parameter_at<&NicParameters::deregistration, &MemoryCosts::fixed_ns>},
    {"dereg-bandwidth", nullptr,
     parameter_at<&NicParameters::deregistration, &MemoryCosts::bandwidth>},
    {"send", parameter_at<&NicParameters::send_ns>},
    {"read", parameter_at<&NicParameters::read_ns>},
    {"atomic", parameter_at<&NicParameters::atomic_ns>},
    {"gather", parameter_at<&NicParameters::gather_ns>},
    {"inline-bandwidth", nullptr, parameter_at<&NicParameters::inline_bandwidth>},
    {"packet-bandwidth", nullptr, parameter_at<&NicParameters::packet_bandwidth>},
    {"qp-gap", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::gap_ns>},
    {"qp-write", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::write_ns>},
    {"qp-send", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::send_ns>},
    {"qp-read", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::read_ns>},
    {"qp-inline", parameter_at<&NicParameters::queue_pair, &QueuePairSpacing::inline_ns>},
    {"read-interval", parameter_at<&NicParameters::read_interval_ns>},
    {"atomic-interval", parameter_at<&NicParameters::atomic_interval_ns>},
    {"receive-interval", parameter_at<&NicParameters::receive_interval_ns>},
};
constexpr size_t kAlwaysShown = 7;

// The group of a parameter; nullptr if it belongs to none.
const char* Hosts::*group_of(std::string_view parameter) {
    const auto is = [parameter](std::initializer_list<std::string_view> names) {
        return std::ranges::find(names, parameter) != names.end();
    };
    if (parameter.starts_with("qp-")) return &Hosts::queue_pair;
    if (is({"latency", "send", "read", "atomic"})) return &Hosts::latency;
    if (is({"gather", "inline-bandwidth"})) return &Hosts::data;
    if (is({"interval", "read-interval", "atomic-interval"})) return &Hosts::port;
    return nullptr;
}

// Keeps sums of times far from overflow at any bandwidth.
constexpr double kMaxTransmitNs = 1e15;

static_assert(std::is_trivially_copyable_v<NicParameters>);
static_assert(std::is_standard_layout_v<LinkPair> && std::is_standard_layout_v<Lateness>);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

uint64_t bytes_over_bandwidth(uint64_t bytes, double bandwidth) {
    if (bandwidth <= 0) return 0;
    return static_cast<uint64_t>(
        std::min(std::ceil(static_cast<double>(bytes) / bandwidth), kMaxTransmitNs));
}

std::optional<std::string> set_parameter(const ListEntry& entry, const Parameter& parameter,
                                         NicParameters& nic) {
    if (parameter.time != nullptr) {
        const auto ns = parse_time_ns(entry.value);
        if (!ns) {
            return std::string(entry.key) +
                   " wants a time in us, or with suffix ns, us, ms or s (such as 2.3 or 500ns), "
                   "not '" +
                   std::string(entry.value) + "'";
        }
        parameter.time(nic) = *ns;
        return std::nullopt;
    }
    const auto value = parse_decimal(entry.value);
    if (!value) {
        return std::string(entry.key) +
               " wants a number of GB/s (such as 2.0; 0 is infinite), not '" +
               std::string(entry.value) + "'";
    }
    parameter.bandwidth(nic) = *value;
    return std::nullopt;
}

std::optional<std::string> apply_override(const ListEntry& entry, NicParameters& nic) {
    for (const Parameter& parameter : kParameters)
        if (entry.key == parameter.name) return set_parameter(entry, parameter, nic);
    return "unknown parameter '" + std::string(entry.key) + "'; choose from " + parameter_names();
}

bool is_set(NicParameters nic, const Parameter& parameter) {
    return parameter.time != nullptr ? parameter.time(nic) != 0 : parameter.bandwidth(nic) != 0;
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

bool NicParameters::models_time() const {
    return std::ranges::any_of(
        kParameters, [this](const Parameter& parameter) { return is_set(*this, parameter); });
}

const NicParameters* find_profile(std::string_view name) {
    for (const Profile& profile : kProfiles)
        if (name == profile.name) return &profile.nic;
    return nullptr;
}

std::string_view personality_of_profile(std::string_view name) {
    for (const Profile& profile : kProfiles)
        if (name == profile.name) return profile.personality;
    return "default";
}

std::string_view host_of(std::string_view profile, std::string_view parameter) {
    const auto group = group_of(parameter);
    for (const Profile& known : kProfiles)
        if (profile == known.name && group != nullptr && known.hosts.*group != nullptr)
            return known.hosts.*group;
    return {};
}

std::string profile_names() {
    return joined(kProfiles, &Profile::name);
}

std::string describe(const NicParameters& nic) {
    NicParameters shown = nic;
    std::string text;
    for (size_t i = 0; i < std::size(kParameters); ++i) {
        const Parameter& parameter = kParameters[i];
        if (i >= kAlwaysShown && !is_set(nic, parameter)) continue;
        if (i != 0) text += ',';
        text += parameter.name;
        text += '=';
        text += parameter.time != nullptr ? time_text(parameter.time(shown))
                                          : decimal_text(parameter.bandwidth(shown));
    }
    return text;
}

std::string parameter_names() {
    return joined(kParameters, &Parameter::name);
}

std::vector<ParameterValue> parameter_values(const NicParameters& nic) {
    NicParameters shown = nic;
    std::vector<ParameterValue> values;
    for (const Parameter& parameter : kParameters) {
        const bool is_time = parameter.time != nullptr;
        std::string name(parameter.name);
        std::ranges::replace(name, '-', '_');
        values.push_back(
            {name + (is_time ? "_ns" : "_gb_per_s"),
             is_time ? static_cast<double>(parameter.time(shown)) : parameter.bandwidth(shown),
             is_time});
    }
    return values;
}

std::optional<std::string> apply_model_overrides(std::string_view list, NicParameters& nic) {
    NicParameters changed = nic;
    auto error = for_each_entry(
        list, [&](const ListEntry& entry) { return apply_override(entry, changed); });
    if (!error) nic = changed;
    return error;
}

NicParameters slowed(const NicParameters& nic, uint64_t factor) {
    NicParameters slow = nic;
    for (const Parameter& parameter : kParameters) {
        if (parameter.time != nullptr)
            parameter.time(slow) *= factor;
        else
            parameter.bandwidth(slow) /= static_cast<double>(factor);
    }
    return slow;
}

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
    const uint64_t begin = to.ingress.reserve(now, qp.earliest_arrival(nic, request, part.start),
                                              part_ns(nic, request, part) + more);
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
