// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <limits>
#include <string_view>

#include "tern/base/tunables.h"

namespace tern {

class PinCache;

// Costs: times in seconds, lengths in bytes, bandwidths in bytes per second. Bandwidths may be
// infinite.
struct NetworkCosts {
    double latency = 0;  // lambda_net: of one message, without its bytes
    double bandwidth = std::numeric_limits<double>::infinity();  // B_net
    double gap = 0;       // g: between two messages on the wire
    double overhead = 0;  // o: processor time to send a message
    double notice = 0;    // from the writing of the last byte until the receiver has seen it
};

// The first `cache` bytes of a message are in the cache and the others in memory. (The paper has
// four levels.)
struct CopyCosts {
    double cache_bandwidth = std::numeric_limits<double>::infinity();
    double memory_bandwidth = std::numeric_limits<double>::infinity();
    double cache = 0;
};

struct RegistrationCosts {
    double latency = 0;                                          // lambda_reg
    double bandwidth = std::numeric_limits<double>::infinity();  // B_reg
    double look = 0;                                             // check whether memory is pinned
    double release = 0;  // of a deregistration, besides its bytes
    double release_bandwidth = std::numeric_limits<double>::infinity();
};

struct Costs {
    NetworkCosts network;
    CopyCosts copy;
    RegistrationCosts registration;
};

// Costs of the clusters of the paper, graphene and infini, and of one whose network is faster than
// its memory, hdr200: the software HCA's profiles of the same names. Null: there is no such
// profile.
const Costs* find_costs(std::string_view name);

// How a message is staged.
struct Staging {
    double first = kTunables.rndv_chunk_first;              // C_0
    double q = kTunables.rndv_chunk_growth;                 // C_i+1 = q * C_i (equation 5)
    double most = std::numeric_limits<double>::infinity();  // of a chunk
    double sub_block = 4096;                                // b; infinite: no sub-blocks
    double flag = 8;                                        // bytes on the wire with each sub-block
    bool early = true;  // C_0 is copied while the rendezvous is under way
};

// The times of the schemes, by the model of A. Denis, "A High-Performance Superpipeline Protocol
// for InfiniBand", Euro-Par 2011 ("the paper"), and B. Goglin, "Decoupling Memory Pinning from the
// Application", CAC 2009 ("pinning"). A time is for one message, in seconds, from when both sides
// know each other until the last byte is in place. The rendezvous (2 * lambda_net) is the same for
// all schemes and left out. No time is NaN; an impossible value is replaced by the nearest possible
// one (a negative time by 0, no bandwidth by 1 B/s).
class CostModel {
  public:
    explicit CostModel(const Costs& costs);

    // The length of a piece to be pinned is a multiple of this, in bytes.
    static constexpr uint64_t kPage = 4096;

    const Costs& costs() const { return costs_; }

    // B_copy(L), section 3, bytes per second: average over a message of `length` bytes.
    double copy_bandwidth(uint64_t length) const;
    // q of equation 5: B_copy(L) / B_net. 1 if both are infinite.
    double ratio(uint64_t length) const;
    // T_reg(L), section 2: lambda_reg + L / B_reg.
    double registration(double length) const;
    // T_dereg(L): the formula of T_reg(L) with the costs of a deregistration.
    double deregistration(double length) const;

    // T_net(L), section 3: lambda_net + L / B_net. The lower limit; zero-copy takes this and
    // placing() if both sides are pinned.
    double raw(uint64_t length) const;
    // The further time of zero-copy: both sides check, one after the other, whether their memory is
    // pinned, and the sender sends a frame at the end.
    double placing() const { return 2 * costs_.registration.look + costs_.network.notice; }
    // Section 2: L / B_copy + T_net(L). Counts one copy, as the paper does.
    double naive_copy(uint64_t length) const;
    // Section 2: T_reg(L) + T_net(L). Both sides register at the same time.
    double naive_registration(uint64_t length) const;

    // Equation 1: chunks of `chunk` bytes, 1 .. length. Beyond the paper: if copies are slower than
    // the network, B_copy replaces B_net.
    double pipeline(uint64_t length, double chunk) const;
    // Equation 3, bytes: sqrt(L * g * B_copy / 2). Exceeds the length of a short message.
    double optimal_chunk(uint64_t length) const;
    // Equation 1 with the chunk of equation 3, or with one chunk for a short message.
    double pipeline(uint64_t length) const { return pipeline(length, optimal_chunk(length)); }
    // The number of gaps in equation 1: L / C.
    double pipeline_gaps(uint64_t length, double chunk) const;

    // Equation 7: log_q(1 + (q - 1) * L / C_0) for q > 1; its limit, L / C_0, for q of 1 or less,
    // where the schedule does not let chunks shrink. Once chunks have the length `most`, one more
    // gap for each `most` bytes.
    static double superpipeline_gaps(uint64_t length, const Staging& staging);
    // Equations 8 (sub_block infinite, flag 0, not early) and 9 (the defaults). Beyond the paper: a
    // q larger than B_copy / B_net, where the wire waits for copies; a longest chunk; the flags.
    double superpipeline(uint64_t length, const Staging& staging) const;
    // A message whose receiver's memory is written directly: only the sender copies.
    double copied_once(uint64_t length, const Staging& staging) const;

    // Pinning, section 3.3: both sides pin pieces of `piece` bytes (0: all at once); each piece is
    // sent while the next one is being pinned.
    double pinned_behind_wire(uint64_t length, uint64_t piece) const;
    // The piece with the shortest pinned_behind_wire(), in whole pages; 0: all at once.
    uint64_t best_piece(uint64_t length) const;

  private:
    struct Chunks;
    struct Sent;

    static Chunks chunks(double length, const Staging& staging);
    template <class Consider>
    void each_count(double bytes, Consider&& consider) const;
    uint64_t piece_of(double bytes, double count) const;
    Sent stage(double length, double per_byte, const Staging& staging) const;

    Costs costs_;
};

// Measures the costs of this processor and this device for the model: copies, registrations and
// deregistrations, and the check whether memory is pinned already. All are the best of several, so
// that processes that start together measure about the same; the first of each does not count. Does
// not measure the network. Takes about four milliseconds; the log has what was measured, at level
// debug. If a registration fails, registrations cost infinitely much.
Costs calibrate(ibv_pd* pd, PinCache& pins);

// Seconds to look whether memory is pinned, without what follows if it is not; 0 if no memory can
// be pinned.
double measure_look(PinCache& pins);

// The bandwidths of copies by this processor: from a ring to a buffer in the cache, and to or from
// memory, whichever is slower; the best of three rounds of half a millisecond. If there is no
// memory for the measurement, the bandwidths are infinite.
CopyCosts measure_copies();

}  // namespace tern
