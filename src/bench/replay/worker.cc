// SPDX-License-Identifier: BSD-3-Clause
// The program that `tern-bench replay` starts, one for each transport: it has all ranks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <set>

#include "bench/measure/clock.h"
#include "bench/replay/rank.h"
#include "bench/replay/trace.h"
#include "bench/sim/schedule.h"

namespace bench::replay {
namespace {

constexpr uint64_t kPatience = 200'000'000;  // ns without an event of any trace

class Replay {
  public:
    Replay(const std::string& transport, const std::vector<Trace>& traces, double compute)
        : machine_(sim::verbs_below(sim::costs_of(transport))) {
        for (uint32_t rank = 0; rank < traces.size(); ++rank)
            ranks_.emplace_back(machine_, rank, sim::costs_of(transport), traces[rank], compute);
        now_ = machine_.now();
        connect(traces);
    }

    void run() {
        const auto count = static_cast<uint32_t>(ranks_.size());
        std::vector<uint64_t> ends(count);
        const uint64_t begin = now_;
        const std::vector<softhca_inspect_usage> before = sim::usages(count);
        turns([&](uint32_t rank) {
            if (ends[rank] != 0) return ranks_[rank].poll(), true;
            ranks_[rank].step();
            if (ranks_[rank].is_over()) ends[rank] = machine_.now() - begin;
            return ends[rank] != 0;
        });
        const std::vector<softhca_inspect_usage> after = sim::usages(count);
        for (uint32_t rank = 0; rank < count; ++rank)
            results_ += std::to_string(rank) + '\t' + std::to_string(ends[rank]) + '\t' +
                        std::to_string(ranks_[rank].computed()) + '\t' +
                        std::to_string(after[rank].registrations - before[rank].registrations) +
                        '\n';
    }
    const std::string& results() const { return results_; }
    bool is_exact() const { return machine_.counter_traps(); }

  private:
    // Whoever sends to another has sent an empty message to it before the trace begins.
    void connect(const std::vector<Trace>& traces) {
        std::set<std::pair<uint64_t, uint64_t>> pairs;
        for (uint64_t rank = 0; rank < traces.size(); ++rank)
            for (const Event& event : traces[rank].events)
                if (event.kind == Event::Kind::kSend) pairs.emplace(rank, event.peer);
        for (const auto& [from, to] : pairs) {
            ranks_[from].connect(static_cast<uint32_t>(to), ranks_[to]);
        }
        turns([&](uint32_t rank) {
            ranks_[rank].poll();
            return ranks_[rank].settled();
        });
    }

    // Calls turn(rank) for the rank with the least clock, until it was true of all.
    template <typename Turn>
    void turns(Turn turn) {
        const auto count = static_cast<uint32_t>(ranks_.size());
        sim::Schedule schedule(count, now_);
        std::vector<bool> done(count);
        uint64_t last = now_;
        for (uint32_t left = count; left != 0;) {
            const auto [rank, time] = sim::next_turn(schedule, machine_);
            if (time > last + kPatience) stands_still();
            machine_.set(time);
            machine_.leave_out(schedule.slept(rank));
            const uint64_t before = ranks_[rank].done();
            if (turn(rank) && !done[rank]) {
                done[rank] = true;
                --left;
            }
            const bool idle = ranks_[rank].done() == before;
            if (!idle) last = std::max(last, machine_.now());
            now_ = std::max(now_, machine_.now());
            sim::end_turn(schedule, machine_, rank, machine_.now(), idle);
        }
        machine_.leave_out(0);
    }

    [[noreturn]] void stands_still() const {
        std::string why;
        if (std::ranges::any_of(ranks_, &Rank::chose))
            why =
                ". The program chose what to do by what had ended or arrived first (events t and "
                "p), and over this transport something else does: such a job cannot be replayed";
        throw Failure("the replay does not go on: " + places() + why);
    }
    std::string places() const {
        std::string text;
        for (size_t rank = 0; rank < ranks_.size(); ++rank)
            if (!ranks_[rank].is_over())
                text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) + " is at " +
                        ranks_[rank].place();
        return text;
    }

    sim::Machine machine_;
    std::deque<Rank> ranks_;
    uint64_t now_ = 0;  // the greatest clock
    std::string results_;
};

}  // namespace
}  // namespace bench::replay

// The transport, the factor of computations, the file for the result, and the traces.
int main(int argc, char** argv) {
    if (argc < 5) {
        std::fputs("tern-replay is started by 'tern-bench replay'\n", stderr);
        return 2;
    }
    try {
        const auto traces = bench::replay::load({argv + 4, argv + argc});
        bench::replay::Replay replay(argv[1], traces, std::strtod(argv[2], nullptr));
        if (!replay.is_exact())
            std::fputs(
                "tern-bench replay: reads of the processor's time-stamp counter do not trap on "
                "this machine: times differ by some 10 ns from run to run\n",
                stderr);
        replay.run();
        std::ofstream file(argv[3]);
        file << replay.results();
        if (!file.flush()) throw report::Failure(std::string("cannot write to ") + argv[3]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tern-bench replay: %s\n", error.what());
        return 1;
    }
    // Endpoints need not be closed in turns: the process ends.
    std::_Exit(0);
}
