// SPDX-License-Identifier: BSD-3-Clause
// Where PollGap reads the time-stamp counter. A simulation lets these instructions trap, so that it
// is virtual also on a machine that does not let the counter itself trap.
#include <cstdint>

#if defined(__x86_64__)
// By the linker, null in a program without PollGap: the distance of each instruction from its
// entry.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const int32_t __start_tern_counter_reads[];
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const int32_t __stop_tern_counter_reads[];

extern "C" __attribute__((visibility("default"))) const int32_t* tern_counter_reads(
    const int32_t** end) {
    *end = __stop_tern_counter_reads;
    return __start_tern_counter_reads;
}
#endif
