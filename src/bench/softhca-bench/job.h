// SPDX-License-Identifier: BSD-3-Clause
// One section, measured by processes of its own.
#pragma once

#include <string>
#include <vector>

#include "bench/softhca-bench/options.h"
#include "bench/softhca-bench/row.h"

namespace softhca::bench {

struct Job {
    std::string title;
    std::string section;
    /// On a software HCA of its own, started by the `softhca` command; or on what there is.
    bool own_device = false;
    std::string profile = "ideal";  ///< of an own device
    std::string model;              ///< changes to it
};

/// The `softhca` command next to this program; empty if there is none.
std::string find_tool();

/// Its rows. Throws Failure if it ends badly or takes too long; leaves nothing behind.
std::vector<Row> run_job(const Job& job, const Options& options);

}  // namespace softhca::bench
