// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace tern {

// What things cost. Times in seconds, lengths in bytes, bandwidths in bytes per second. Bandwidths
// may be infinite.
struct NetworkCosts {
    double latency = 0;  // lambda_net: of one message, without its bytes
    double bandwidth = std::numeric_limits<double>::infinity();  // B_net
    double gap = 0;       // g: between two messages on the wire
    double overhead = 0;  // o: processor time to send a message
    double notice = 0;    // until a receiver that has been told that all is in place knows it
};

// A message has its first `cache` bytes in the cache and the others in memory. (The paper has four
// levels.)
struct CopyCosts {
    double cache_bandwidth = std::numeric_limits<double>::infinity();
    double memory_bandwidth = std::numeric_limits<double>::infinity();
    double cache = 0;
};

struct RegistrationCosts {
    double latency = 0;                                          // lambda_reg
    double bandwidth = std::numeric_limits<double>::infinity();  // B_reg
    double look = 0;                                             // whether memory is pinned
};

struct Costs {
    NetworkCosts network;
    CopyCosts copy;
    RegistrationCosts registration;
};

// The clusters of the paper, graphene and infini, and one whose network is faster than its memory,
// hdr200; the software HCA's profiles of the same names. Null if there is none.
const Costs* find_costs(std::string_view name);

// How a message is staged.
struct Staging {
    double first = 12 * 1024;                               // C_0
    double q = 1.5;                                         // C_i+1 = q * C_i (equation 5)
    double most = std::numeric_limits<double>::infinity();  // no chunk is longer
    double sub_block = 4096;                                // b; infinite: no sub-blocks
    double flag = 8;                                        // on the wire, with each sub-block
    bool early = true;  // C_0 is copied while the rendezvous is under way
};

// The times of the schemes, by the model of A. Denis, "A High-Performance Superpipeline Protocol
// for InfiniBand", Euro-Par 2011 ("the paper"), and B. Goglin, "Decoupling Memory Pinning from the
// Application", CAC 2009 ("pinning"). A time is that of one message, in seconds, from when both
// sides are known to each other until its last byte is in place; the rendezvous, 2 * lambda_net, is
// the same for all schemes and left out. No time is NaN; what cannot be is taken for the nearest
// that can (a negative time for 0, no bandwidth for 1 B/s).
class CostModel {
  public:
    explicit CostModel(const Costs& costs);

    // The bytes of memory that a piece of a registration should be a multiple of.
    static constexpr uint64_t kPage = 4096;

    const Costs& costs() const { return costs_; }

    // B_copy(L), section 3, bytes per second: of a message of `length` bytes as a whole.
    double copy_bandwidth(uint64_t length) const;
    // q of equation 5: B_copy(L) / B_net. 1 if both are infinite.
    double ratio(uint64_t length) const;
    // T_reg(L), section 2: lambda_reg + L / B_reg.
    double registration(double length) const;

    // T_net(L), section 3: lambda_net + L / B_net. The limit; also zero-copy when both sides are
    // pinned.
    double raw(uint64_t length) const;
    // What zero-copy takes besides: to find out that both are, one after the other, and to tell the
    // receiver of the end.
    double placing() const { return 2 * costs_.registration.look + costs_.network.notice; }
    // Section 2: L / B_copy + T_net(L). As the paper counts, one copy.
    double naive_copy(uint64_t length) const;
    // Section 2: T_reg(L) + T_net(L). Both sides register at the same time.
    double naive_registration(uint64_t length) const;

    // Equation 1: chunks of `chunk` bytes, 1 .. length. Beyond the paper: where copies are slower
    // than the network they take its place.
    double pipeline(uint64_t length, double chunk) const;
    // Equation 3, bytes: sqrt(L * g * B_copy / 2). More than the message if that is short.
    double optimal_chunk(uint64_t length) const;
    // Equation 1 with equation 3, or with one chunk for a short message.
    double pipeline(uint64_t length) const { return pipeline(length, optimal_chunk(length)); }
    // The number of gaps in equation 1: L / C.
    double pipeline_gaps(uint64_t length, double chunk) const;

    // Equation 7: log_q(1 + (q - 1) * L / C_0) for q > 1; L / C_0 for q == 1, its limit, and for
    // q < 1, where the schedule does not let chunks shrink. From when chunks are as long as they
    // may be, L / most.
    static double superpipeline_gaps(uint64_t length, const Staging& staging);
    // Equation 8 (sub_block infinite, flag 0, not early) and 9 (the defaults). Beyond the paper: q
    // larger than B_copy / B_net, where copies hold up the wire; a longest chunk; the flags.
    double superpipeline(uint64_t length, const Staging& staging) const;
    // As before, but the receiver's memory is written directly: the sender copies, nobody else.
    double copied_once(uint64_t length, const Staging& staging) const;

    // Pinning, section 3.3: pieces of `piece` bytes (0: all at once) are pinned on both sides, and
    // each is sent when it is, while the next is being pinned.
    double pinned_behind_wire(uint64_t length, uint64_t piece) const;
    // The piece with the least pinned_behind_wire(), in whole pages; 0: all at once.
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

}  // namespace tern
