// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct Options {
    std::string command;
    std::string device;              // as UCX names it; empty: the first
    std::string transport = "tern";  // what is compared with rc_verbs
    int rounds = 15;
    int gid_index = 0;
    bool quick = false;
    bool help = false;
    std::string profile;  // of a software HCA of our own; empty: what the environment says
    double step = 1.2;    // of `bandwidth`: from size to size
    uint32_t low = 1 << 10;
    uint32_t high = 16 << 20;
    std::string json;
    std::string plot;
    std::vector<uint32_t> peers;  // of `memory`; empty: its own choice
    int hot = -1;                 // of `memory`: all
    uint64_t seed = 1;            // of `fastpath`
};

// Empty, or an error text.
std::string parse_options(int argc, char** argv, Options* options);
void print_usage();

}  // namespace bench
