// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/patterns.h"

#include <algorithm>
#include <cmath>

#include "bench/sim/many_ranks.h"
#include "bench/sim/programs.h"

namespace bench::sim {
namespace {

constexpr uint32_t kWarmUp = 100;  // messages after which a sender is hot
constexpr uint32_t kTrips = 100;
constexpr uint32_t kSettling = 200;  // trips of a size before these: pools of buffers grow
constexpr uint32_t kMessages = 500;
constexpr int kStreams = 5;         // of a size
constexpr uint32_t kAccesses = 16;  // puts or gets at once
constexpr uint32_t kFewRanks = 16;  // are no crowd
constexpr uint64_t kAccessSizes[] = {4 << 10, 64 << 10, 1 << 20};
constexpr uint32_t kWindowSizes[] = {8, 64, 512, 4096};
constexpr uint32_t kBurst = 1000;
constexpr uint64_t kComputation = 1'000'000;  // ns, after a burst

class Measurement {
  public:
    Measurement(const std::string& transport, uint32_t ranks, uint32_t per_port)
        : world_(transport, ranks, {.members = {(ranks + per_port - 1) / per_port}}),
          of_two_(costs_of(transport).initiators == 0) {}

    std::vector<Value> run(const std::vector<std::string>& patterns) {
        const auto wanted = [&patterns](const char* name) {
            return std::ranges::find(patterns, name) != patterns.end();
        };
        // Two ranks have no use for dynamic connections.
        const auto wanted_of_two = [&](const char* name) { return of_two_ && wanted(name); };
        // Where a pattern leaves the ranks does not change what another one measures, as each has
        // its own warm-up; only a storm needs ranks that are not connected.
        if (wanted_of_two("ping-pong")) ping_pong();
        if (wanted_of_two("stream")) streams();
        if (wanted_of_two("puts")) accesses("puts", &Node::put);
        if (wanted_of_two("gets")) accesses("gets", &Node::get);
        if (wanted_of_two("overlap")) overlap();
        const bool many = world_.ranks() > 3;
        if (wanted("storm") && many) add("storm", 8, "us", storm(world_) / 1000);
        if (wanted("incast")) add("incast", 4096, "GB/s", incast(world_, 4096));
        if (wanted("halo") && many) halos();
        if (wanted("all-to-all"))
            for (const uint32_t size : {8, 4096})
                add("all to all", size, "us", all_to_all(world_, size) / 1000);
        if (wanted("random")) add("random", 8, "us", random_peers(world_, 8) / 1000);
        if (wanted("crowd") && world_.ranks() > kFewRanks) crowd_of_ranks();
        if (wanted("windows")) {
            const uint32_t peers = world_.ranks() - 1;
            windows("windows to " + std::to_string(peers) + (peers == 1 ? " peer" : " peers"),
                    windows_to_all);
        }
        if (wanted("pairs") && many)
            windows("windows of " + std::to_string(world_.ranks() / 2) + " pairs",
                    windows_of_pairs);
        if (wanted_of_two("last-of-burst")) {
            connect_two();
            (void)last_of_burst();  // settles
            add("last of a burst", 8, "us", last_of_burst() / 1000);
        }
        return std::move(values_);
    }

  private:
    void add(const std::string& test, uint64_t size, const char* unit, double value) {
        values_.push_back({test, static_cast<double>(size), unit, value});
    }

    void ping_pong() {
        connect_two();
        // Buffers grow for long messages.
        (void)stream(std::min(8192U, world_.node(0).most()));
        for (const uint32_t size : {8, 64, 512, 2048, 8192}) {
            if (size > world_.node(0).most()) continue;
            (void)half_trip(size, kSettling);
            add("half round trip", size, "ns", half_trip(size, kTrips));
        }
    }
    void streams() {
        connect_two();
        (void)stream(std::min(8192U, world_.node(0).most()));
        for (const uint32_t size : {8, 64, 512, 2048, 8192}) {
            if (size > world_.node(0).most()) continue;
            (void)stream(size);  // settles
            add_rate("stream", size,
                     kMessages / median_time(kStreams, [&] { return stream(size); }));
        }
    }
    // `rate`: messages per ns.
    void add_rate(const std::string& test, uint32_t size, double rate) {
        if (size < 512)
            add(test, size, "M/s", rate * 1000);
        else
            add(test, size, "GB/s", rate * size);
    }
    void windows(const std::string& test, double (*rate_of)(World&, uint32_t)) {
        for (const uint32_t size : kWindowSizes)
            if (size <= world_.node(0).most()) add_rate(test, size, rate_of(world_, size));
    }
    void accesses(const char* name, Access access) {
        connect_two();
        for (const uint64_t size : kAccessSizes) {
            (void)accesses(access, size, kAccesses, 0);  // memory is pinned when it is first used
            add(name, size, "GB/s",
                static_cast<double>(kAccesses * size) / accesses(access, size, kAccesses, 0));
        }
    }
    void overlap() {
        connect_two();
        for (const auto& [name, access] :
             {std::pair<const char*, Access>{"availability of a put", &Node::put},
              {"availability of a get", &Node::get}}) {
            for (const uint64_t size : kAccessSizes) {
                (void)accesses(access, size, kAccesses, 0);
                add(name, size, "", availability(access, size));
            }
        }
    }
    void halos() {
        for (const uint32_t size : {64, 4096}) {
            add("halo in 2-D", size, "us", halo(world_, 2, size) / 1000);
            add("halo in 3-D", size, "us", halo(world_, 3, size) / 1000);
        }
    }

    void crowd_of_ranks() {
        const uint32_t size = std::min(8192U, world_.node(0).most());
        const Crowd seen = crowd(world_, size);
        add("half trip in a crowd", 8, "us", seen.median_ns / 1000);
        add("its 99th percentile", 8, "us", seen.percentile_99_ns / 1000);
        add("the longest", 8, "us", seen.longest_ns / 1000);
        add("the crowd", size, "GB/s", seen.rate);
        add("its RNR NAKs", size, "", static_cast<double>(seen.rnr_naks));
    }

    void connect_two() {
        world_.connect(0, 1);
        (void)half_trip(8, kWarmUp);
    }

    template <typename... Programs>
    void run_all(Programs... programs) {
        std::vector<Program> list;
        (list.push_back(std::move(programs)), ...);
        world_.run(std::move(list));
    }

    double half_trip(uint32_t size, uint32_t trips) {
        uint64_t took = 0, other = 0;
        run_all(ping(world_.node(0), 1, size, trips, took),
                ping(world_.node(1), 0, size, trips, other));
        return static_cast<double>(took) / (2.0 * trips);
    }
    double stream(uint32_t size) {
        uint64_t took = 0;
        run_all(send_stream(world_.node(0), 1, size, kMessages),
                receive(world_.node(1), kMessages, took));
        return static_cast<double>(took);
    }
    double accesses(Access access, uint64_t size, uint32_t times, uint64_t work) {
        uint64_t took = 0;
        run_all(access_stream(world_.node(0), access, 1, size, times, work, took),
                idle(world_.node(1)));
        return static_cast<double>(took);
    }
    // From the call that sends it until the receiver, which polls, has it. In ns.
    double last_of_burst() {
        uint64_t sent = 0, came = 0;
        run_all(send_burst(world_.node(0), 1, 8, kBurst, kComputation, sent),
                receive(world_.node(1), kBurst, came));
        return static_cast<double>(came - sent);
    }
    // The method of Sandia: the share of the time of a put or get that is left to the processor.
    // The work grows until it takes longer than the operation.
    double availability(Access access, uint64_t size) {
        const double base = accesses(access, size, 1, 0);
        double work = base / 4;
        double whole = accesses(access, size, 1, static_cast<uint64_t>(work));
        while (whole < 1.5 * base) {
            work = std::floor(work * 1.5);
            whole = accesses(access, size, 1, static_cast<uint64_t>(work));
        }
        return 1 - (whole - work) / base;
    }

    World world_;
    const bool of_two_;  // patterns of two ranks are measured
    std::vector<Value> values_;
};

}  // namespace

std::vector<Value> measure(const std::string& transport, uint32_t ranks, uint32_t per_port,
                           const std::vector<std::string>& patterns) {
    return Measurement(transport, ranks, per_port).run(patterns);
}

}  // namespace bench::sim
