// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/cpus.h"

#include <sched.h>

#include "bench/measure/failure.h"

namespace bench {

std::optional<std::pair<int, int>> choose_cpus() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
    int first = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        if (first >= 0) return std::pair(first, cpu);
        first = cpu;
    }
    return std::nullopt;
}

void stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) throw call_failed("sched_setaffinity");
}

}  // namespace bench
