// SPDX-License-Identifier: BSD-3-Clause
// The command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace softhca::bench {

struct Options {
    std::vector<std::string> sections = {"small", "bandwidth", "model"};
    std::vector<std::string> profiles = {"graphene", "infini", "hdr200"};
    std::string model;  ///< overrides of the profiles, as SOFTHCA_MODEL
    std::string only;   ///< what labels of rows must contain
    std::string device;
    int rounds = 11;
    uint64_t iterations = 2000;
    int gid_index = 0;
    bool json = false;
    bool help = false;
    int row_fd = -1;  ///< set: measure one section here and write its rows there
    std::string title;
};

/// Empty, or an error text.
std::string parse_options(int argc, char** argv, Options* options);
void print_usage();

}  // namespace softhca::bench
