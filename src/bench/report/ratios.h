// SPDX-License-Identifier: BSD-3-Clause
// How fast Tern is compared with its peers, kept in a file, and what became slower since. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace report {

// From here on, Tern counts as fast as a peer.
constexpr double kEven = 0.98;
// What a row below may lose, as a share.
constexpr double kTolerance = 0.01;

// A row: more than 1 means that Tern is faster.
struct Ratio {
    std::string profile;
    std::string test;
    uint64_t bytes = 0;
    std::string peer;
    double value = 0;
    std::string reason = {};  // why Tern loses

    bool loses() const { return value < kEven; }
    // "cx5-edr, uct: stream, 8 bytes, over rc_verbs"; without bytes, if there are none.
    std::string text() const;
};

// A text with a line for each row: "profile|test|bytes|peer|ratio", and "  # reason". Lines that
// begin with # are comments. Throws Failure, which names the line.
std::vector<Ratio> ratios_in(const std::string& text);
std::string text_of(const std::vector<Ratio>& rows);
// The comments before the first row.
std::string comments_in(const std::string& text);

// What a comparison finds, a line each.
struct Judgement {
    std::vector<std::string> failures;  // rows that are slower, missing or new
    std::vector<std::string> notes;     // rows that are faster, or lose without a reason
};
Judgement judge(const std::vector<Ratio>& kept, const std::vector<Ratio>& measured);

// These rows, and one more for each test: over the peer that is fastest in it, of which stock UCX
// chooses one by its settings.
constexpr const char* kBestPeer = "the best peer";
std::vector<Ratio> with_best_peers(const std::vector<Ratio>& rows);

// The measured rows, with the reasons of those that are kept.
std::vector<Ratio> with_reasons(const std::vector<Ratio>& kept, std::vector<Ratio> measured);

// For each profile and peer, its rows from the least to the greatest, how many of them Tern loses,
// and their geometric mean.
std::string as_sorted_table(const std::vector<Ratio>& rows);

}  // namespace report
