// SPDX-License-Identifier: BSD-3-Clause
// The turns of simulated ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/measure/ucx.h"
#include "bench/sim/machine.h"
#include "bench/sim/program.h"
#include "bench/sim/schedule.h"

namespace bench::sim {

constexpr uint64_t kLongestRun = 1'000'000'000;  // ns of virtual time

// A turn of a rank: a step of its program or, if that has ended, a poll. True: the program has
// ended in it.
template <typename Rank>
bool take_turn(Rank& rank, Program& program) {
    if (program.done()) {
        rank.step();
        return false;
    }
    program.step();
    return program.done();
}

// Runs a program on each of some ranks, from the time `now` on, until all have ended; then `now` is
// the end. Ranks whose program has ended poll until then. Throws what programs throw.
// rank_of(rank): an object with step(), which ends a step of a program with a poll, and done(),
// which counts what it has done, polls that found nothing apart.
template <typename RankOf>
void run_programs(Machine& machine, uint64_t& now, std::vector<Program>& programs, const Part& part,
                  RankOf&& rank_of) {
    const uint64_t limit = now + kLongestRun;
    Schedule schedule(static_cast<uint32_t>(programs.size()), now);
    for (size_t left = programs.size(); left != 0;) {
        const auto [turn, time] = next_turn(schedule, machine, part);
        if (time > limit) throw Failure("a simulated program does not end");
        machine.set(time);
        machine.leave_out(schedule.slept(turn));
        auto& rank = rank_of(part.rank(turn));
        const uint64_t done = rank.done();
        if (take_turn(rank, programs[turn])) --left;
        now = std::max(now, machine.now());
        end_turn(schedule, machine, turn, machine.now(), rank.done() == done, part);
    }
    machine.leave_out(0);
}

}  // namespace bench::sim
