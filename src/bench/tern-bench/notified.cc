// SPDX-License-Identifier: BSD-3-Clause
// Notified writes of rwapi, by the three benchmarks of Ben Fredj and Renault, "RWAPI over
// InfiniBand: Design and Performance", section 6: a ping-pong, a ping-pong in both directions at
// once, and bursts. Times are t / n, n messages in the time t, counted in both directions. And what
// a put with a signal costs, compared with puts, flushes and fences of MPI and OpenSHMEM.
#include <algorithm>

#include "bench/tern-bench/command.h"

namespace bench {
namespace {

// Targets for 8 bytes: compared with RDMA writes in the same kind of memory, and of the time of a
// put with a signal compared with MPI's and OpenSHMEM's.
constexpr double kNotifiedToWrite = 1.10;
constexpr double kNotifiedRateToWrite = 0.9;
constexpr double kMpiTime = 0.6;
constexpr double kOpenShmemTime = 0.7;
// Of bursts on the model of the paper's cluster, compared with RDMA writes.
constexpr double kThroughput = 0.97;
constexpr uint32_t kThroughputSize = 4 << 10;

constexpr uint64_t kBurstBytes = 16 << 20;  // of a burst

constexpr const char* kRwapiNotes =
    "tern, rc_verbs: of rwapi, a write and a notification that the target waits for; small: "
    "rwapi_send of 16 bytes. RDMA write:\n"
    "the target waits for the end of the data in memory. in a chain: and then a write of a word in "
    "other memory, which is shared;\n"
    "the target waits for that word. In a burst nobody reads what these two write. Of MPI, "
    "messages.\n"
    "put and signal: rwapi_put_signal; MPI: put, flush, put of a word, flush; OpenSHMEM: put, "
    "fence, put of a word.\n"
    "`?`: see behind the line; `<`, `>`: misses the target.\n";
constexpr const char* kRwapiSharedNote =
    "The software HCA copies into shared memory directly and into private memory by a system call: "
    "compare lines of the\n"
    "same kind. The memory of the program's data is meant; Tern's own is shared, that of rc_verbs "
    "and rc_v is private.\n";

std::vector<uint32_t> notified_sizes(const Options& options) {
    std::vector<uint32_t> sizes = long_sizes(options);
    if (options.low <= kTargetSize && kTargetSize <= options.high) sizes.push_back(kTargetSize);
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

struct NotifiedTest {
    const char* name;
    Order::Kind kind;
    bool signals;
};
constexpr NotifiedTest kNotifiedTests[] = {{"ping-pong", Order::Kind::kMessages, false},
                                           {"both ways", Order::Kind::kExchanges, false},
                                           {"burst", Order::Kind::kStream, false},
                                           {"put and signal", Order::Kind::kMessages, true},
                                           {"puts and signals", Order::Kind::kStream, true}};

// One line of a table.
struct NotifiedLine {
    NotifiedTest test;
    std::string memory;
    uint32_t size;

    bool burst() const { return test.kind == Order::Kind::kStream; }
    bool is_shared() const { return memory == "shared"; }
};

class NotifiedSeries {
  public:
    NotifiedSeries(const Options& options, const Setup& setup)
        : options_(options),
          setup_(setup),
          differs_(shared_memory_differs(setup)),
          libraries_(compile_shims(&left_out_)),
          series_(make_series(options, setup, 2, 2)) {
        for (const NotifiedTest& test : kNotifiedTests) {
            for (const std::string& memory : kinds_of_memory(setup)) {
                for (const uint32_t size : notified_sizes(options)) add({test, memory, size});
            }
        }
    }

    Result run() {
        return matrix_of(series_.run(),
                         kRwapiNotes + std::string(differs_ ? kRwapiSharedNote : "") + left_out_);
    }

  private:
    using Line = NotifiedLine;

    void add(const Line& line) {
        const std::string& tls = options_.transport;
        const Order order = order_of(line);
        Group& group = series_.add({.test = line.test.name + memory_text(setup_, line.memory),
                                    .size = line.size,
                                    .unit = line.burst() ? "MB/s" : "us"});
        group.add(tls, rwapi_arm(tls, line.memory), order,
                  {{"RDMA write", line.test.signals ? kNone : target_of(line)},
                   {"in a chain"},
                   {"rc_verbs"}});
        group.add("rc_verbs", rwapi_arm("rc_verbs", line.memory), order);
        group.add("RDMA write", raw_arm(line.memory), raw_order_of(line, false));
        group.add("in a chain", raw_arm(line.memory), raw_order_of(line, true));
        if (has_small(line)) {
            Order small = order;
            small.request = Order::Request::kSend;
            group.add(tls + ", small", rwapi_arm(tls, line.memory), small,
                      {{"RDMA write", target_of(line)}});
        }
        for (const ShimLibrary& library : libraries_) add_library(group, line, library);
    }

    // Small messages go through the transport's own memory, which is shared.
    bool has_small(const Line& line) const {
        return line.size == kTargetSize && !line.test.signals &&
               line.test.kind != Order::Kind::kExchanges && (!differs_ || line.is_shared());
    }

    void add_library(Group& group, const Line& line, const ShimLibrary& library) const {
        if (!line.test.signals && !library.has_messages) return;
        double target = kNone;
        if (line.test.signals && line.size == kTargetSize) {
            const double time = library.has_messages ? kMpiTime : kOpenShmemTime;
            target = line.burst() ? 1 / time : time;
        }
        const auto compare = [&](const Arm& arm) {
            group.add(arm.name, arm, order_of(line));
            group.compare(options_.transport, arm.name, target);
        };
        const std::string tls = ucp_name(options_);
        if (tls != "rc_v") {
            const Arm arm = shim_arm(library, tls, line.memory);
            // Messages go through the transport's own memory, which is shared. Like with like:
            const bool is_copied = differs_ && !line.test.signals && !line.is_shared();
            if (is_copied) group.add(arm.name, arm, order_of(line));
            compare(is_copied ? in_private_memory(arm) : arm);
        }
        compare(shim_arm(library, "rc_v", line.memory));
    }

    // Of the ratio to RDMA writes.
    static double target_of(const Line& line) {
        if (line.size == kTargetSize) return line.burst() ? kNotifiedRateToWrite : kNotifiedToWrite;
        const bool is_of_paper = line.burst() && device_profile() == "muse";
        return is_of_paper && line.size >= kThroughputSize ? kThroughput : kNone;
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
            order.count = std::clamp(kOrderBytes / line.size, 2 * order.per_sample, most);
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
    const Setup& setup_;
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
