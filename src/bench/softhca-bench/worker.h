// SPDX-License-Identifier: BSD-3-Clause
// Measures one section in this process and a child of it.
#pragma once

#include "bench/softhca-bench/options.h"

namespace softhca::bench {

/// Runs the only section of the options; its rows go to the options' descriptor. Throws Failure.
void run_section(const Options& options);

}  // namespace softhca::bench
