// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/cost_model.h"

#include <algorithm>
#include <cmath>

#include "tern/rendezvous/schedule.h"

namespace tern {
namespace {

constexpr double kGB = 1e9;

struct Preset {
    std::string_view name;
    Costs costs;
};

// Network and registration as in the software HCA's profiles. Copies:
// - graphene: copy and send, one after the other, reach 57 % of the network, so memory gives 2.0 *
//   0.57 / 0.43 = 2.65 GB/s. Compared with the network, the naive copy takes L / B_copy more and
//   the best pipeline sqrt(8 * L * g / B_copy). The two are equal at 16 KB, so there B_copy is L /
//   (8 * g) = 20 GB/s.
// - infini, not in the paper: the same processor generation with three channels of memory.
// - hdr200: copies by one core of a server of its time.
constexpr Preset kPresets[] = {
    {"graphene",
     {{2.3e-6, 2.0 * kGB, 100e-9, 100e-9}, {20 * kGB, 2.65 * kGB, 256e3}, {68e-6, 20 * kGB}}},
    {"infini",
     {{1.6e-6, 3.2 * kGB, 50e-9, 50e-9}, {20 * kGB, 5.0 * kGB, 256e3}, {68e-6, 20 * kGB}}},
    {"hdr200", {{1.0e-6, 24.5 * kGB, 5e-9, 5e-9}, {20 * kGB, 10.0 * kGB, 1e6}, {30e-6, 30 * kGB}}},
};

// Comparisons with NaN are false.
double time_or_none(double seconds) {
    return seconds > 0 ? std::min(seconds, 1e6) : 0;
}
double bandwidth_or_least(double bandwidth) {
    return bandwidth >= 1 ? bandwidth : 1;
}
double clamp(double value, double low, double high) {
    return value >= low ? std::min(value, high) : low;
}

uint64_t whole(double bytes, uint64_t unit) {
    return static_cast<uint64_t>(std::ceil(bytes / static_cast<double>(unit))) * unit;
}

}  // namespace

const Costs* find_costs(std::string_view name) {
    for (const Preset& preset : kPresets)
        if (preset.name == name) return &preset.costs;
    return nullptr;
}

CostModel::CostModel(const Costs& costs) : costs_(costs) {
    NetworkCosts& network = costs_.network;
    network.latency = time_or_none(network.latency);
    network.gap = time_or_none(network.gap);
    network.overhead = time_or_none(network.overhead);
    network.notice = time_or_none(network.notice);
    network.bandwidth = bandwidth_or_least(network.bandwidth);
    costs_.copy.cache_bandwidth = bandwidth_or_least(costs_.copy.cache_bandwidth);
    costs_.copy.memory_bandwidth = bandwidth_or_least(costs_.copy.memory_bandwidth);
    if (!(costs_.copy.cache > 0)) costs_.copy.cache = 0;
    costs_.registration.latency = time_or_none(costs_.registration.latency);
    costs_.registration.bandwidth = bandwidth_or_least(costs_.registration.bandwidth);
    costs_.registration.look = time_or_none(costs_.registration.look);
    costs_.registration.release = time_or_none(costs_.registration.release);
    costs_.registration.release_bandwidth =
        bandwidth_or_least(costs_.registration.release_bandwidth);
}

double CostModel::copy_bandwidth(uint64_t length) const {
    const CopyCosts& copy = costs_.copy;
    const double bytes = static_cast<double>(std::max<uint64_t>(1, length));
    const double cached = std::min(bytes, copy.cache);
    const double time = cached / copy.cache_bandwidth + (bytes - cached) / copy.memory_bandwidth;
    return bytes / time;
}

double CostModel::ratio(uint64_t length) const {
    const double copy = copy_bandwidth(length);
    const double network = costs_.network.bandwidth;
    return std::isinf(copy) && std::isinf(network) ? 1 : copy / network;
}

double CostModel::registration(double length) const {
    return costs_.registration.latency + length / costs_.registration.bandwidth;
}

double CostModel::deregistration(double length) const {
    return costs_.registration.release + length / costs_.registration.release_bandwidth;
}

double CostModel::raw(uint64_t length) const {
    return costs_.network.latency + static_cast<double>(length) / costs_.network.bandwidth;
}

double CostModel::naive_copy(uint64_t length) const {
    return static_cast<double>(length) / copy_bandwidth(length) + raw(length);
}

double CostModel::naive_registration(uint64_t length) const {
    return registration(static_cast<double>(length)) + raw(length);
}

double CostModel::pipeline_gaps(uint64_t length, double chunk) const {
    const double bytes = static_cast<double>(length);
    return bytes / clamp(chunk, 1, std::max(1.0, bytes));
}

double CostModel::pipeline(uint64_t length, double chunk) const {
    const double c = clamp(chunk, 1, std::max(1.0, static_cast<double>(length)));
    if (length == 0) return raw(0);
    const double copy = copy_bandwidth(length);
    return 2 * c / copy + pipeline_gaps(length, c) * costs_.network.gap + costs_.network.latency +
           static_cast<double>(length) / std::min(copy, costs_.network.bandwidth);
}

double CostModel::optimal_chunk(uint64_t length) const {
    const double gap = costs_.network.gap;
    if (length == 0 || gap == 0) return 1;  // any chunk will do, or the shortest is best
    return std::sqrt(static_cast<double>(length) * gap * copy_bandwidth(length) / 2);
}

// The chunks of a staged message; their number is a real number.
struct CostModel::Chunks {
    double first;
    double last;
    double count;
    double most = 0;
    // Number and bytes of the chunks before the longest length is reached; 0 if it is never
    // reached, or all chunks have the same length.
    double growing = 0;
    double grown = 0;
};

CostModel::Chunks CostModel::chunks(double length, const Staging& staging) {
    const double q = clamp(staging.q, 1, 1e6);
    const double most = std::max(1.0, staging.most);
    const double first = std::min(clamp(staging.first, 1, length), most);
    if (q == 1) return {first, first, length / first};
    const double grown = (most - first) / (q - 1);
    if (length <= grown) {
        // Equation 7; the last is C_n-1 of equation 6.
        const double count = std::log1p((q - 1) * length / first) / std::log1p(q - 1);
        return {first, std::min(length, (first + (q - 1) * length) / q), count};
    }
    const double growing = std::log1p((most - first) / first) / std::log1p(q - 1);
    const double last = std::min(clamp(length - grown, most / q, most), length);
    return {first, last, growing + (length - grown) / most, most, growing, grown};
}

double CostModel::superpipeline_gaps(uint64_t length, const Staging& staging) {
    return length == 0 ? 0 : chunks(static_cast<double>(length), staging).count;
}

// When a staged message has left the sender, and how long the receiver needs after that.
struct CostModel::Sent {
    double left;
    double copied;  // the sender's processor is free
    double lag;     // from the arrival of the last byte until it is in place
};

// `per_byte`: seconds to copy a byte. The wire waits for copies that are slower, so the time is the
// maximum over k of: copy chunks 1..k, then send chunks k and on. Chunks grow to the longest length
// and keep it. In each of these two phases either the copies or the wire are slower throughout, so
// the maximum is at k = 0, at the last chunk, or at the end of growth.
CostModel::Sent CostModel::stage(double length, double per_byte, const Staging& staging) const {
    if (!(length > 0)) return {0, 0, 0};
    const NetworkCosts& network = costs_.network;
    const double sub_block = std::max(1.0, staging.sub_block);
    const double on_wire = (1 + clamp(staging.flag, 0, 4096) / sub_block) / network.bandwidth;
    const Chunks c = chunks(length, staging);

    const double first = c.first * per_byte;
    const double start = staging.early ? std::max(0.0, first - 2 * network.latency) : first;
    const double copies = (length - c.first) * per_byte + (c.count - 1) * network.overhead;
    double body =
        std::max(length * on_wire + c.count * network.gap, copies + c.last * on_wire + network.gap);
    if (c.growing > 0)
        body = std::max(body, (std::min(c.grown + c.most, length) - c.first) * per_byte +
                                  c.growing * network.overhead + (length - c.grown) * on_wire +
                                  (c.count - c.growing) * network.gap);

    // The receiver copies one sub-block behind the wire, or lags more during the last chunk.
    const double block = std::min(sub_block, c.last);
    const double lag =
        std::max(block * per_byte, block * on_wire + c.last * per_byte - c.last * on_wire);
    return {start + body, start + copies, lag};
}

double CostModel::superpipeline(uint64_t length, const Staging& staging) const {
    const Sent sent = stage(static_cast<double>(length), 1 / copy_bandwidth(length), staging);
    return sent.left + costs_.network.latency + sent.lag;
}

double CostModel::copied_once(uint64_t length, const Staging& staging) const {
    return stage(static_cast<double>(length), 1 / copy_bandwidth(length), staging).left +
           costs_.network.latency;
}

// Both sides pin the pieces one after the other. The frame that announces a piece to the sender
// travels while the wire is busy with the piece before. The maximum is taken as in stage(), but the
// last piece may be short.
double CostModel::pinned_behind_wire(uint64_t length, uint64_t piece) const {
    if (length == 0) return raw(0);
    const NetworkCosts& network = costs_.network;
    const double bytes = static_cast<double>(length);
    const double most = piece == 0 ? bytes : std::min(static_cast<double>(piece), bytes);
    const double pieces = std::ceil(bytes / most);
    const double last = bytes - (pieces - 1) * most;

    const double all_pinned =
        pieces * costs_.registration.latency + bytes / costs_.registration.bandwidth;
    const double send_all = pieces * network.gap + bytes / network.bandwidth;
    const double send_last = network.gap + last / network.bandwidth;
    double end = std::max(registration(most) + send_all, all_pinned + send_last);
    if (pieces > 1)
        end = std::max(end, all_pinned - registration(last) + send_last + network.gap +
                                most / network.bandwidth);
    return network.latency + end;
}

// Calls consider(n) for the numbers of pieces that may be best. If a piece takes as long to pin as
// to send, only the first pinning is not hidden. Where pinning is slower, the latencies of more
// pieces are weighed against the time to send the last one, as in equation 3.
template <class Consider>
void CostModel::each_count(double bytes, Consider&& consider) const {
    const RegistrationCosts& pin = costs_.registration;
    const double network = costs_.network.bandwidth;
    consider(1);
    for (const double piece : {pin.latency / (1 / network - 1 / pin.bandwidth),
                               std::sqrt(bytes * pin.latency * network)}) {
        const double count = std::floor(bytes / piece);
        if (!(count >= 1 && count <= bytes / kPage)) continue;
        if (count > 1) consider(count);
        consider(count + 1);
    }
}

// The length of `count` pieces but the last, which is shorter where the wire would wait for it.
// Either the last piece is pinned just when the one before has been sent, or the first and the last
// piece give the same time for all:
//   lambda_reg + last / B_reg == piece / B_net
//   lambda_reg + piece / B_reg + L / B_net == count * lambda_reg + L / B_reg + last / B_net
uint64_t CostModel::piece_of(double bytes, double count) const {
    const double others = count - 1;
    if (!(others > 0)) return whole(bytes, kPage);
    const double latency = costs_.registration.latency;
    const double pin = 1 / costs_.registration.bandwidth;
    const double wire = 1 / costs_.network.bandwidth;
    const double piece = std::min((latency + bytes * pin) / (wire + others * pin),
                                  (others * latency + bytes * pin) / (pin + others * wire));
    return whole(clamp(piece, bytes / count, bytes / others), kPage);
}

uint64_t CostModel::best_piece(uint64_t length) const {
    const double bytes = static_cast<double>(length);
    uint64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    each_count(bytes, [&](double count) {
        const uint64_t piece = piece_of(bytes, count);
        const double time = pinned_behind_wire(length, piece);
        if (!(time < least)) return;
        least = time;
        best = piece < length ? piece : 0;
    });
    return best;
}

}  // namespace tern
