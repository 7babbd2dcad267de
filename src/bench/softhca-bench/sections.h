// SPDX-License-Identifier: BSD-3-Clause
// The measurements of softhca-bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/series/figure.h"

namespace bench {

struct Options {
    std::vector<std::string> sections = {"small", "bandwidth", "model"};
    std::vector<std::string> profiles = {"graphene", "infini", "hdr200"};
    std::string model;   // changes to the profiles, as in SOFTHCA_MODEL
    std::string only;    // text that the titles of figures must contain
    std::string device;  // empty: the first device
    int rounds = 11;
    uint64_t iterations = 2000;
    int gid_index = 0;
    bool json = false;
};

// These functions use the device, or a software HCA if there is none. They throw Failure.

// Small messages compared with one process_vm_writev.
std::vector<Figure> measure_small_messages(const Options& options);
// Streams of large messages compared with process_vm_writev and process_vm_readv.
std::vector<Figure> measure_bandwidth(const Options& options);

// Compares the timing model of a profile with measurements on a software HCA.
class ModelSection {
  public:
    // Measures the machine without a model, for comparison.
    explicit ModelSection(const Options& options);
    std::vector<Figure> run(const std::string& profile) const;

  private:
    const Options& options_;
    const std::vector<Figure> alone_;
};

}  // namespace bench
