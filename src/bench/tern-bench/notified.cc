// SPDX-License-Identifier: BSD-3-Clause
// Notified writes of rwapi, by the three benchmarks of Ben Fredj and Renault, "RWAPI over
// InfiniBand: Design and Performance", section 6: a ping-pong, a ping-pong in both directions at
// once, and bursts. Times are t / n, n messages in the time t, counted in both directions. And what
// a put with a signal costs, compared with puts, flushes and fences of MPI and OpenSHMEM.
#include <algorithm>

#include "bench/series/series.h"
#include "bench/tern-bench/arms.h"

namespace bench {
namespace {

// Targets for 8 bytes: compared with RDMA writes in the same kind of memory, and of the time of a
// put with a signal compared with MPI's and OpenSHMEM's.
constexpr double kLatency = 1.10;
constexpr double kRate = 0.9;
constexpr double kMpiTime = 0.6;
constexpr double kOpenShmemTime = 0.7;
constexpr uint32_t kTargetSize = 8;
// Of bursts on the model of the paper's cluster, compared with RDMA writes.
constexpr double kThroughput = 0.97;
constexpr uint32_t kThroughputSize = 4 << 10;

constexpr uint32_t kShort = 8 << 10;        // up to here, reading the clock each time would show
constexpr uint64_t kBytes = 16 << 20;       // of an order
constexpr uint64_t kBurstBytes = 16 << 20;  // of a burst

constexpr const char* kNotes =
    "tern, rc_verbs: of rwapi, a write and a notification that the target waits for; small: "
    "rwapi_send of 16 bytes. RDMA write:\n"
    "the target waits for the end of the data in memory. in a chain: and then a write of a word in "
    "other memory, which is shared;\n"
    "the target waits for that word. In a burst nobody reads what these two write. Of MPI, "
    "messages.\n"
    "put and signal: rwapi_put_signal; MPI: put, flush, put of a word, flush; OpenSHMEM: put, "
    "fence, put of a word.\n"
    "`?`: see behind the line; `<`, `>`: misses the target.\n";
constexpr const char* kSharedNote =
    "The software HCA copies into shared memory directly and into private memory by a system call: "
    "compare lines of the\n"
    "same kind. The memory of the program's data is meant; Tern's own is shared, that of rc_verbs "
    "and rc_v is private.\n";

std::vector<uint32_t> sizes_of(const Options& options) {
    std::vector<uint32_t> sizes = long_sizes(options);
    if (options.low <= kTargetSize && kTargetSize <= options.high) sizes.push_back(kTargetSize);
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

class NotifiedSeries {
  public:
    NotifiedSeries(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          libraries_(compile_shims(&left_out_)),
          series_(setup, options.quick ? 2 : options.rounds, options.quick ? 1 : 2) {
        for (const Test& test : kTests) {
            for (const char* memory : {"private", "shared"}) {
                if (!differs_ && memory != std::string("private")) continue;
                for (const uint32_t size : sizes_of(options)) add({test, memory, size});
            }
        }
    }

    Result run() {
        return matrix_of(series_.run(),
                         kNotes + std::string(differs_ ? kSharedNote : "") + left_out_);
    }

  private:
    struct Test {
        const char* name;
        Order::Kind kind;
        bool signals;
    };
    static constexpr Test kTests[] = {{"ping-pong", Order::Kind::kMessages, false},
                                      {"both ways", Order::Kind::kExchanges, false},
                                      {"burst", Order::Kind::kStream, false},
                                      {"put and signal", Order::Kind::kMessages, true},
                                      {"puts and signals", Order::Kind::kStream, true}};

    // One line of a table.
    struct Line {
        Test test;
        std::string memory;
        uint32_t size;

        bool burst() const { return test.kind == Order::Kind::kStream; }
    };

    void add(const Line& line) {
        const std::string& tls = options_.transport;
        const Arm arm = rwapi_arm(tls, line.memory.c_str());
        const Series::Item& mine = item(line, tls, arm, order_of(line));
        const Series::Item& verbs =
            item(line, "rc_verbs", rwapi_arm("rc_verbs", line.memory.c_str()), order_of(line));
        const Series::Item& write =
            item(line, "RDMA write", raw_arm(line.memory.c_str()), raw_order_of(line, false));
        const Series::Item& chain =
            item(line, "in a chain", raw_arm(line.memory.c_str()), raw_order_of(line, true));
        compare(line, mine, write, line.test.signals ? kNone : target_of(line));
        compare(line, mine, chain, kNone);
        compare(line, mine, verbs, kNone);
        if (has_small(line)) {
            Order order = order_of(line);
            order.request = Order::Request::kSend;
            compare(line, item(line, tls + ", small", arm, order), write, target_of(line));
        }
        for (const ShimLibrary& library : libraries_) add(line, mine, library);
    }

    // Small messages go through the transport's own memory, which is shared.
    bool has_small(const Line& line) const {
        return line.size == kTargetSize && !line.test.signals &&
               line.test.kind != Order::Kind::kExchanges && (!differs_ || line.memory == "shared");
    }

    void add(const Line& line, const Series::Item& mine, const ShimLibrary& library) {
        if (!line.test.signals && !library.has_messages) return;
        const std::string tls = options_.transport == "rc_verbs" ? "rc_v" : options_.transport;
        double target = kNone;
        if (line.test.signals && line.size == kTargetSize) {
            const double time = library.has_messages ? kMpiTime : kOpenShmemTime;
            target = line.burst() ? 1 / time : time;
        }
        const auto item_of = [&](const Arm& arm) -> const Series::Item& {
            return item(line, arm.name, arm, order_of(line));
        };
        const Arm arm = shim_arm(library, tls, line.memory);
        // Messages go through the transport's own memory, which is shared. Like with like:
        const bool copied = differs_ && !line.test.signals && line.memory == "private";
        if (copied && tls != "rc_v") item_of(arm);
        if (tls != "rc_v")
            compare(line, mine, item_of(copied ? in_private_memory(arm) : arm), target);
        compare(line, mine, item_of(shim_arm(library, "rc_v", line.memory)), target);
    }

    const Series::Item& item(const Line& line, const std::string& name, const Arm& arm,
                             const Order& order) {
        return series_.add(
            {.test = std::string(line.test.name) + (differs_ ? ", " + line.memory + " memory" : ""),
             .size = line.size,
             .name = name,
             .arm = series_.add_arm(arm),
             .order = order,
             .unit = line.burst() ? "MB/s" : "us",
             .rate = line.burst()});
    }

    void compare(const Line& line, const Series::Item& mine, const Series::Item& other,
                 double target) {
        series_.compare(mine, other, target, !line.burst());
    }

    // Of the ratio to RDMA writes.
    double target_of(const Line& line) const {
        if (line.size == kTargetSize) return line.burst() ? kRate : kLatency;
        return line.burst() && device_profile() == "muse" && line.size >= kThroughputSize
                   ? kThroughput
                   : kNone;
    }

    Order order_of(const Line& line) const {
        Order order;
        order.kind = line.test.kind;
        order.size = line.size;
        if (line.test.signals) order.request = Order::Request::kSignal;
        if (line.burst()) {
            order.per_sample = std::clamp(kBurstBytes / line.size, uint64_t{4}, uint64_t{2000});
            order.count = order.per_sample * (options_.quick ? 2 : 5);
        } else {
            order.per_sample = line.size <= kShort ? 10 : 1;
            const uint64_t most = options_.quick ? 20 : 2000;
            order.count = std::clamp(kBytes / line.size, 2 * order.per_sample, most);
        }
        return order;
    }
    Order raw_order_of(const Line& line, bool chained) const {
        Order order = order_of(line);
        if (order.kind == Order::Kind::kMessages) order.kind = Order::Kind::kWrites;
        order.one_sided = line.burst();
        order.chained = chained;
        // Modeled writes are placed by those who poll completion queues.
        order.reaps = device_profile() != "ideal";
        return order;
    }

    const Options& options_;
    const bool differs_;
    std::string left_out_;
    const std::deque<ShimLibrary> libraries_;
    Series series_;
};

}  // namespace

Result run_rwapi(const Options& options, const Setup& setup) {
    // Two messages at a time have places of their own.
    if (options.high > kLongest / 2) throw Failure("rwapi: --sizes of at most 8M");
    return NotifiedSeries(options, setup).run();
}

}  // namespace bench
