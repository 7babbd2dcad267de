// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <ctime>

namespace tern {

// Distinguishes a program that waits, and polls all the time, from one that computes and polls now
// and then, as by MPI_Test or MPI_Iprobe. In a program that computes, work that a poll leaves to
// the next one is late by the time of the computation in between.
class PollGap {
  public:
    // Called at each poll. True: the last one was long ago. Takes a few nanoseconds, which
    // overlap with the loads that follow.
    bool is_long() {
        const auto now = static_cast<Ticks>(ticks());
        const Ticks gap = now - last_;
        last_ = now;
        return gap > longest_;
    }

    // The poll has taken long itself: the next gap begins now.
    void restart() { last_ = static_cast<Ticks>(ticks()); }

  private:
    // Modulo 2^32: by chance, one long gap in a million looks short, and its poll is as any other.
    using Ticks = uint32_t;

    // A counter of the processor that does not stop, in units of its own; one to two microseconds
    // are a long gap.
#if defined(__x86_64__)
    static Ticks ticks() {
        // The section lists where the counter is read, for tern_counter_reads() (poll_gap.cc). The
        // prefixes mean nothing: with them there is room for a jump.
        Ticks low;
        asm volatile(
            "1: .byte 0x2e, 0x2e, 0x2e\n"
            "rdtsc\n"
            ".pushsection tern_counter_reads, \"a?\", @progbits\n"
            ".balign 4\n"
            ".long 1b - .\n"
            ".popsection"
            : "=a"(low)
            :
            : "edx");
        return low;
    }
    static uint64_t longest() {
        return 4096;
    }
#elif defined(__aarch64__)
    static uint64_t ticks() {
        uint64_t count;
        asm volatile("mrs %0, cntvct_el0" : "=r"(count));
        return count;
    }
    static uint64_t longest() {
        uint64_t frequency;
        asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
        return frequency / 500'000;
    }
#else
    static uint64_t ticks() {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
               static_cast<uint64_t>(time.tv_nsec);
    }
    static uint64_t longest() {
        return 2000;
    }
#endif

    Ticks last_ = 0;
    const Ticks longest_ = static_cast<Ticks>(longest());
};

}  // namespace tern
