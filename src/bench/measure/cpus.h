// SPDX-License-Identifier: BSD-3-Clause
// Where the two processes run.
#pragma once

#include <optional>
#include <utility>

namespace bench {

/// The first two CPUs that this process may use; none if there is only one.
std::optional<std::pair<int, int>> choose_cpus();
/// Keeps the calling thread on a CPU.
void stay_on(int cpu);

}  // namespace bench
