// SPDX-License-Identifier: BSD-3-Clause
// Notified writes of rwapi, by the three benchmarks of Ben Fredj and Renault, "RWAPI over
// InfiniBand: Design and Performance", section 6: a ping-pong, and bursts. Times are t / n, n
// messages in the time t, counted in both directions. And what a put with a signal costs.
#include <algorithm>
#include <cmath>
#include <set>

#include "bench/measure/mark.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

constexpr uint64_t kBurstBytes = 16 << 20;  // of a burst

constexpr const char* kRwapiNotes =
    "tern, rc_verbs: of rwapi, a write and a notification that the target waits for. RDMA write: "
    "the target waits for the end of\n"
    "the data in memory; in a burst nobody reads what it writes. rwapi_put: the same by rwapi. put "
    "and signal: rwapi_put_signal.\n"
    "`?`: doubtful; the file of --json says why.\n";
constexpr const char* kRwapiSharedNote =
    "The software HCA copies into shared memory directly and into private memory by a system call: "
    "compare lines of the\n"
    "same kind. The memory of the program's data is meant; Tern's own is shared, that of rc_verbs "
    "is private.\n";

// Multiples of a word, or less than a word, in equal steps of about options.step, including all
// powers of two.
std::vector<uint32_t> sizes_of(const Options& options) {
    const double step = options.quick ? std::max(options.step, 8.0) : options.step;
    const double doublings = std::log2(step);
    const double wide = doublings < 1 ? 1 / std::round(1 / doublings) : std::round(doublings);
    std::set<uint32_t> sizes;
    for (double power = std::ceil(std::log2(options.low) / wide - 1e-9) * wide;; power += wide) {
        const double size = std::exp2(power);
        const auto whole =
            static_cast<uint32_t>(size < 8 ? std::round(size) : std::round(size / 8) * 8);
        if (whole > options.high) break;
        sizes.insert(whole);
    }
    if (sizes.empty()) sizes.insert(options.low < 8 ? options.low : options.low / 8 * 8);
    if (options.low <= kWord && kWord <= options.high) sizes.insert(kWord);
    return {sizes.begin(), sizes.end()};
}

struct NotifiedTest {
    const char* name;
    Order::Kind kind;
    bool signals;
};
constexpr NotifiedTest kNotifiedTests[] = {{"ping-pong", Order::Kind::kMessages, false},
                                           {"burst", Order::Kind::kStream, false},
                                           {"put and signal", Order::Kind::kMessages, true},
                                           {"puts and signals", Order::Kind::kStream, true}};

// One line of a table.
struct NotifiedLine {
    NotifiedTest test;
    std::string memory;
    uint32_t size;
    bool quick;

    bool burst() const { return test.kind == Order::Kind::kStream; }
    Order order() const {
        Order order;
        order.kind = test.kind;
        order.size = size;
        if (test.signals) order.request = Order::Request::kSignal;
        if (burst()) {
            order.per_sample = std::clamp(kBurstBytes / size, uint64_t{4}, uint64_t{2000});
            order.count = order.per_sample * (quick ? 2 : 5);
        } else {
            order.per_sample = size <= kShort ? 10 : 1;
            const uint64_t most = quick ? 20 : 2000;
            order.count = std::clamp(kOrderBytes / size, 2 * order.per_sample, most);
        }
        return order;
    }
    Order raw_order() const {
        Order raw = order();
        if (raw.kind == Order::Kind::kMessages) raw.kind = Order::Kind::kWrites;
        raw.one_sided = burst();
        // Modeled writes are placed by those who poll completion queues.
        raw.reaps = device_profile() != "ideal";
        return raw;
    }
};

void add_line(Group& group, const Options& options, const NotifiedLine& line) {
    const std::string& tls = options.transport;
    group.add(tls, rwapi_arm(tls, line.memory), line.order(), {"RDMA write", "rc_verbs"});
    group.add("rc_verbs", rwapi_arm("rc_verbs", line.memory), line.order());
    group.add("RDMA write", raw_arm(line.memory), line.raw_order());
    if (line.burst() || line.test.signals) return;
    Order put = line.order();
    put.request = Order::Request::kPut;
    group.add(tls + ", rwapi_put", rwapi_arm(tls, line.memory), put, {"RDMA write"});
}

}  // namespace

Result run_rwapi(const Options& options, const Setup& setup) {
    // Two messages at a time have places of their own.
    if (options.high > kLongest / 2) throw Failure("rwapi: --sizes of at most 8M");
    const bool differs = shared_memory_differs(setup);
    Series series = make_series(options, setup, 2, 2);
    for (const NotifiedTest& test : kNotifiedTests) {
        for (const std::string& memory : kinds_of_memory(setup)) {
            for (const uint32_t size : sizes_of(options)) {
                const NotifiedLine line{test, memory, size, options.quick};
                Group& group = series.add({.test = test.name + memory_text(setup, memory),
                                           .size = size,
                                           .unit = line.burst() ? "MB/s" : "us"});
                add_line(group, options, line);
            }
        }
    }
    const std::vector<Figure> figures = series.run();
    return {figures, as_matrix(figures),
            kRwapiNotes + std::string(differs ? kRwapiSharedNote : "")};
}

}  // namespace bench
