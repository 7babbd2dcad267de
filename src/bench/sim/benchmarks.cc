// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/benchmarks.h"

#include <algorithm>

#include "bench/sim/side.h"
#include "bench/sim/turns.h"

namespace bench::sim {

void Side::begin(const Task& task) {
    task_ = task;
    const uint64_t first = task.receives != 0 ? taken_ : sent_;
    last_ = first + std::max(task.sends, task.receives) - 1;
    // What is there must not be taken for a number that comes, of which a byte has only the end.
    for (const uint64_t number : {first, first + 1, last_})
        tail(in(), number).store(task.at_once == 1 ? first - 1 : last_ - 1);
    prepare();
}

bool Side::receive(uint32_t messages) {
    if (!has_come(taken_ + messages)) return false;
    taken_ += messages;
    return counted(true);
}

namespace {

constexpr uint32_t kShortMessage = 4 << 10;
constexpr uint32_t kHotTrips = 300;  // after these, peers are hot
// At least: pools of buffers grow, and memory gets registered. UCP sends from two buffers, and for
// each of 2 KiB a registration costs what 104 copies cost.
constexpr uint32_t kSettlingTrips = 200, kSettlingTagged = 400;
// Runs that these take: the memory of a burst's last message is used once in each, and a transport
// may register memory that is used for the third time.
constexpr uint32_t kSettlingRuns = 4;
constexpr uint32_t kManyTrips = 100;
constexpr uint32_t kFewTrips = 20;  // of messages that are not short
constexpr uint64_t kBurstBytes = 16 << 20;
constexpr uint32_t kMostOfBurst = 500;
constexpr uint32_t kLeastOfBurst = 16;
constexpr uint32_t kTagsAtOnce = 64;  // tagged messages of a burst

enum class Kind : uint8_t { kPingPong, kBothWays, kBurst };
struct Benchmark {
    const char* name;
    Kind kind;
};
constexpr Benchmark kAllBenchmarks[] = {
    {"ping-pong", Kind::kPingPong}, {"both ways", Kind::kBothWays}, {"burst", Kind::kBurst}};

Program send_first(Side& me, uint32_t trips, uint64_t& took) {
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < trips; ++i) {
        while (!me.send()) co_await me.step();
        while (!me.receive(1)) co_await me.step();
    }
    took = me.now() - start;
}
Program answer_each(Side& me, uint32_t trips) {
    for (uint32_t i = 0; i < trips; ++i) {
        while (!me.receive(1)) co_await me.step();
        while (!me.send()) co_await me.step();
    }
}
Program exchange_both(Side& me, uint32_t trips, uint64_t& took) {
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < trips; ++i) {
        me.expect();
        while (!me.send()) co_await me.step();
        while (!me.receive(1)) co_await me.step();
    }
    took = me.now() - start;
}
Program send_all(Side& me, uint32_t messages) {
    for (uint32_t i = 0; i < messages; ++i) {
        while (!me.send()) co_await me.step();
        co_await me.turn();
    }
}
Program receive_all(Side& me, uint32_t messages, uint64_t& took) {
    const uint64_t start = me.now();
    me.expect();
    while (!me.receive(messages)) co_await me.step();
    took = me.now() - start;
}
Program settle(Side& me) {
    while (!me.settled()) co_await me.step();
}

class Pair {
  public:
    explicit Pair(const std::string& simulation) : machine_(costs_for(simulation)) {
        sides_ = simulation == "verbs"   ? verbs_sides(machine_)
                 : simulation == "rwapi" ? rwapi_sides(machine_)
                                         : ucp_sides(machine_, costs_of(simulation));
        end_ = machine_.now();
    }

    // What a benchmark has taken.
    struct Taken {
        double messages;
        uint64_t ns;
        double posts;
        double requests;
    };
    Taken run(Kind kind, Way way, uint32_t size, uint32_t times) {
        const bool burst = kind == Kind::kBurst;
        const uint32_t at_once = burst ? kTagsAtOnce : 1;
        sides_[0]->begin({way, size, times, burst ? 0 : times, at_once});
        sides_[1]->begin({way, size, burst ? 0 : times, times, at_once});
        const uint64_t posts = machine_.posts(), requests = machine_.requests();
        uint64_t took = 0, other = 0;
        switch (kind) {
            case Kind::kPingPong:
                both(send_first(*sides_[0], times, took), answer_each(*sides_[1], times));
                break;
            case Kind::kBothWays:
                both(exchange_both(*sides_[0], times, took),
                     exchange_both(*sides_[1], times, other));
                break;
            case Kind::kBurst:
                both(send_all(*sides_[0], times), receive_all(*sides_[1], times, took));
                break;
        }
        const double messages = burst ? times : 2.0 * times;
        const Taken taken = {messages, std::max(took, other),
                             static_cast<double>(machine_.posts() - posts),
                             static_cast<double>(machine_.requests() - requests)};
        both(settle(*sides_[0]), settle(*sides_[1]));
        return taken;
    }

  private:
    static VerbsCosts costs_for(const std::string& simulation) {
        if (simulation == "verbs" || simulation == "rwapi") return {};
        return verbs_below(costs_of(simulation));
    }
    void both(Program one, Program other) {
        std::vector<Program> programs;
        programs.push_back(std::move(one));
        programs.push_back(std::move(other));
        run_programs(machine_, end_, programs, {},
                     [this](uint32_t rank) -> Side& { return *sides_[rank]; });
    }

    Machine machine_;
    Sides sides_;
    uint64_t end_ = 0;
};

}  // namespace

std::vector<Value> run_benchmarks(const std::string& simulation,
                                  const std::vector<uint32_t>& sizes) {
    Pair pair(simulation);
    std::vector<Value> values;
    for (const Arm& arm : kArms)
        if (simulation == arm.simulation)
            (void)pair.run(Kind::kPingPong, arm.way, std::max(8U, arm.least), kHotTrips);
    for (const Benchmark& benchmark : kAllBenchmarks) {
        const bool burst = benchmark.kind == Kind::kBurst;
        for (const uint32_t size : sizes) {
            for (const Arm& arm : kArms) {
                if (simulation != arm.simulation || size < arm.least || size > arm.most) continue;
                const uint32_t trips = size <= kShortMessage ? kManyTrips : kFewTrips;
                const auto messages = static_cast<uint32_t>(std::clamp<uint64_t>(
                    kBurstBytes / size, uint64_t{kLeastOfBurst}, uint64_t{kMostOfBurst}));
                const uint32_t times = burst ? messages : trips;
                const uint32_t runs = size <= kShortMessage ? 1 : kSettlingRuns;
                const uint32_t settling =
                    arm.way == Way::kTagged ? kSettlingTagged : kSettlingTrips;
                for (uint32_t i = 0; i < runs; ++i)
                    (void)pair.run(benchmark.kind, arm.way, size, std::max(times, settling / runs));
                const Pair::Taken taken = pair.run(benchmark.kind, arm.way, size, times);
                const double ns = static_cast<double>(taken.ns) / taken.messages;
                const auto add = [&](const char* what, const char* unit, double value) {
                    values.push_back({benchmark.name + std::string(what), static_cast<double>(size),
                                      unit, value, arm.name});
                };
                if (burst)
                    add("", "MB/s", size / ns * 1000);
                else
                    add("", "us", ns / 1000);
                add(": posts", "", taken.posts / taken.messages);
                add(": work requests", "", taken.requests / taken.messages);
            }
        }
    }
    return values;
}

}  // namespace bench::sim
