// SPDX-License-Identifier: BSD-3-Clause
// The options of tern-bench.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

// The command sets what the command line does not: see Command.
struct Options {
    std::string command;
    std::string device;              // as UCX names it; empty: the first
    std::string transport = "tern";  // is compared with rc_verbs
    int rounds = 0;
    int gid_index = 0;
    bool quick = false;
    bool brief = false;   // mpi: the most telling comparisons only
    std::string profile;  // of the benchmark's own software HCA; empty: the environment decides
    double step = 0;      // factor from one size to the next
    uint32_t low = 0;
    uint32_t high = 0;
    std::string json;
    std::vector<uint32_t> peers = {1, 4, 16, 32, 63};  // for `memory`
    int hot = -1;                                      // for `memory`; -1: all
};

// Returns nothing, or the exit status if the program must end now.
std::optional<int> parse_command_line(int argc, char** argv, Options* options);

// The sizes of messages: multiples of a word, or less than a word, in equal steps of about
// options.step, including all powers of two.
inline std::vector<uint32_t> long_sizes(const Options& options) {
    const double step = options.quick ? std::max(options.step, 8.0) : options.step;
    const double doublings = std::log2(step);
    const double wide = doublings < 1 ? 1 / std::round(1 / doublings) : std::round(doublings);
    const auto whole = [](double size) {
        return static_cast<uint32_t>(size < 8 ? std::round(size) : std::round(size / 8) * 8);
    };
    std::vector<uint32_t> sizes;
    for (double power = std::ceil(std::log2(options.low) / wide - 1e-9) * wide;; power += wide) {
        const uint32_t size = whole(std::exp2(power));
        if (size > options.high) break;
        if (sizes.empty() || size != sizes.back()) sizes.push_back(size);
    }
    if (sizes.empty()) sizes.push_back(options.low < 8 ? options.low : options.low / 8 * 8);
    return sizes;
}

}  // namespace bench
