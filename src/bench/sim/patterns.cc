// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/patterns.h"

#include <algorithm>
#include <cmath>

#include "bench/sim/world.h"

namespace bench::sim {
namespace {

constexpr uint32_t kWarmUp = 100;  // messages after which a sender is hot
constexpr uint32_t kTrips = 100;
constexpr uint32_t kSettling = 200;  // trips of a size before these: pools of buffers grow
constexpr uint32_t kMessages = 500;
constexpr uint32_t kPuts = 16;
constexpr uint32_t kIncastMessages = 50;
constexpr uint32_t kIncastRanks = 8;  // at most
constexpr uint32_t kExchanges = 4;    // the first one also connects

// One side of a ping-pong.
Program ping(Node& me, uint32_t peer, uint32_t size, uint32_t trips, uint64_t& took) {
    const uint64_t before = me.received();
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < trips; ++i) {
        if (me.rank() == 0)
            while (!me.send(peer, size)) co_await me.step();
        while (me.received() == before + i) co_await me.step();
        if (me.rank() != 0)
            while (!me.send(peer, size)) co_await me.step();
    }
    took = me.now() - start;
}

Program send_stream(Node& me, uint32_t peer, uint32_t size, uint32_t messages) {
    for (uint32_t i = 0; i < messages; ++i) {
        while (!me.send(peer, size)) co_await me.step();
        if (i % 16 == 15) co_await me.step();
    }
}

Program receive(Node& me, uint64_t messages, uint64_t& took) {
    const uint64_t end = me.received() + messages;
    const uint64_t start = me.now();
    while (me.received() < end) co_await me.step();
    took = me.now() - start;
}

// Puts, and work of the processor before it waits for them.
Program put_stream(Node& me, uint32_t peer, uint64_t size, uint32_t puts, uint64_t work,
                   uint64_t& took) {
    const uint64_t start = me.now();
    for (uint32_t i = 0; i < puts; ++i)
        while (!me.put(peer, size)) co_await me.step();
    if (work != 0) co_await me.compute(work);
    while (!me.flush()) co_await me.step();
    took = me.now() - start;
}

// Does nothing, but its interface does.
Program idle(Node&) {
    co_return;
}

// To each other rank, the next one first.
Program exchange(Node& me, uint32_t ranks, uint32_t size, uint64_t& took) {
    const uint64_t end = me.received() + ranks - 1;
    const uint64_t start = me.now();
    for (uint32_t i = 1; i < ranks; ++i)
        while (!me.send((me.rank() + i) % ranks, size)) co_await me.step();
    while (me.received() < end) co_await me.step();
    took = me.now() - start;
}

class Measurement {
  public:
    Measurement(const std::string& transport, uint32_t ranks)
        : world_(transport, ranks), ranks_(ranks) {}

    std::vector<Value> run() {
        world_.connect(0, 1);
        (void)half_trip(8, kWarmUp);
        // Buffers grow for long messages.
        (void)stream(std::min(8192U, world_.node(0).most()));
        for (const uint32_t size : {8, 64, 512, 2048, 8192}) {
            if (size > world_.node(0).most()) continue;
            (void)half_trip(size, kSettling);
            add("half round trip", size, "ns", half_trip(size, kTrips));
        }
        // The first stream settles.
        (void)stream(8);
        add("stream", 8, "M/s", kMessages / stream(8) * 1000);
        (void)stream(2048);
        add("stream", 2048, "GB/s", kMessages * 2048.0 / stream(2048));
        for (const uint64_t size : {4 << 10, 64 << 10, 1 << 20}) {
            (void)puts(size, kPuts, 0);  // memory is pinned when it is first used
            add("puts", size, "GB/s", static_cast<double>(kPuts * size) / puts(size, kPuts, 0));
            add("availability of a put", size, "", availability(size));
        }
        add("incast", 4096, "GB/s", incast(4096));
        for (const uint32_t size : {8, 4096}) add("all to all", size, "us", all_to_all(size));
        return std::move(values_);
    }

  private:
    void add(const char* test, uint64_t size, const char* unit, double value) {
        values_.push_back({test, static_cast<double>(size), unit, value});
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
    double puts(uint64_t size, uint32_t puts, uint64_t work) {
        uint64_t took = 0;
        run_all(put_stream(world_.node(0), 1, size, puts, work, took), idle(world_.node(1)));
        return static_cast<double>(took);
    }
    // The method of Sandia: the share of the time of a put that is left to the processor. The work
    // grows until it takes longer than the put.
    double availability(uint64_t size) {
        const double base = puts(size, 1, 0);
        double work = base / 4;
        double whole = puts(size, 1, static_cast<uint64_t>(work));
        while (whole < 1.5 * base) {
            work = std::floor(work * 1.5);
            whole = puts(size, 1, static_cast<uint64_t>(work));
        }
        return 1 - (whole - work) / base;
    }

    double incast(uint32_t size) {
        const uint32_t ranks = std::min(ranks_, kIncastRanks);
        for (uint32_t rank = 1; rank < ranks; ++rank) world_.connect(0, rank);
        double rate = 0;
        // The first time connects.
        for (int time = 0; time < 2; ++time) {
            const uint64_t messages = uint64_t{ranks - 1} * kIncastMessages;
            uint64_t took = 0;
            std::vector<Program> programs;
            programs.push_back(receive(world_.node(0), messages, took));
            for (uint32_t rank = 1; rank < ranks; ++rank)
                programs.push_back(send_stream(world_.node(rank), 0, size, kIncastMessages));
            world_.run(std::move(programs), time != 0);
            rate = static_cast<double>(messages * size) / static_cast<double>(took);
        }
        return rate;
    }

    // Of an exchange: the time of the slowest rank.
    double all_to_all(uint32_t size) {
        for (uint32_t one = 0; one < ranks_; ++one)
            for (uint32_t other = one + 1; other < ranks_; ++other) world_.connect(one, other);
        double sum = 0;
        for (uint32_t i = 0; i < kExchanges; ++i) {
            std::vector<uint64_t> took(ranks_);
            std::vector<Program> programs;
            for (uint32_t rank = 0; rank < ranks_; ++rank)
                programs.push_back(exchange(world_.node(rank), ranks_, size, took[rank]));
            world_.run(std::move(programs), i != 0);
            if (i != 0) sum += static_cast<double>(*std::ranges::max_element(took));
        }
        return sum / (kExchanges - 1) / 1000;
    }

    World world_;
    uint32_t ranks_;
    std::vector<Value> values_;
};

}  // namespace

std::vector<Value> measure(const std::string& transport, uint32_t ranks) {
    return Measurement(transport, ranks).run();
}

}  // namespace bench::sim
