// SPDX-License-Identifier: BSD-3-Clause
// What one rank of a job sends and receives, in order: by a pattern, or by the traces of a job.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/replay/trace.h"

namespace bench::scale {

struct Message {
    uint32_t peer;
    uint32_t bytes;
    bool received;      // or sent
    uint64_t time = 0;  // ns; not before that
};

// All peers do the same: for each message that is sent, one of another peer arrives.
struct Pattern {
    const char* name;
    const char* help;
};
inline constexpr Pattern kPatterns[] = {
    {"ring", "1 KiB to the next rank, over and over"},
    {"halo",
     "2 KiB to 6 neighbours in a 3-D grid; after 10 times, a sum over all by dissemination"},
    {"fft", "512 B to all of the rank's row of a 2-D grid, then of its column"},
    {"all-to-all", "64 B to all others, in the order of their distance"},
    {"amg", "V-cycles: 26 neighbours in a 3-D grid, then more and more distant ones, up to 124"},
    {"random", "8 B to 8 KiB to any rank"},
    {"skewed", "of ten messages nine to one of 64 ranks, the other to any"},
};

// The messages of rank 0, without an end.
class Messages {
  public:
    // Of a pattern.
    Messages(const std::string& pattern, uint32_t ranks);
    // Of rank 0 of these. What others send arrives after as much computing of theirs.
    explicit Messages(const std::vector<replay::Trace>& traces);

    Message next();
    // Of traces: how many there are, before they begin anew.
    uint64_t in_traces() const { return round_.size(); }

  private:
    Message chosen() const;
    void exchange(const std::vector<uint32_t>& peers, uint32_t bytes);
    void disseminate(uint32_t stride);
    void add_halo();
    void add_fft();
    void add_all();
    void add_cycle();

    uint32_t ranks_;
    uint32_t hot_ = 0;            // skewed: ranks that get most messages
    uint64_t next_ = 0;           // number of the next message
    std::vector<Message> round_;  // is repeated; empty: chosen by chance
};

}  // namespace bench::scale
