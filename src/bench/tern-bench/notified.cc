// SPDX-License-Identifier: BSD-3-Clause
// Notified writes of rwapi, by the three benchmarks of Ben Fredj and Renault, "RWAPI over
// InfiniBand: Design and Performance", section 6: a ping-pong, a ping-pong in both directions at
// once, and bursts. Times are t / n, n messages in the time t, counted in both directions.
#include <algorithm>

#include "bench/series/series.h"
#include "bench/tern-bench/arms.h"

namespace bench {
namespace {

// Targets for 8 bytes, compared with RDMA writes in the same kind of memory.
constexpr double kLatency = 1.10;
constexpr double kRate = 0.9;
constexpr uint32_t kTargetSize = 8;

constexpr uint32_t kShort = 8 << 10;   // up to here, reading the clock each time would show
constexpr uint64_t kBytes = 32 << 20;  // of an order

constexpr const char* kNotes =
    "rwapi: a write, and a notification that the target waits for. RDMA write: the target waits "
    "for the last word in memory;\n"
    "in a burst nobody reads what is written. messages: of UCP with tags, in buffers that are "
    "used again.\n";
constexpr const char* kSharedNote =
    "The software HCA copies into shared memory directly and into private memory by a system call: "
    "compare rwapi with\n"
    "RDMA writes in the same kind of memory. The buffers of messages are private.\n";

class NotifiedSeries {
  public:
    NotifiedSeries(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          series_(setup, options.quick ? 2 : options.rounds, options.quick ? 1 : 2) {
        // Two messages at a time have places of their own.
        if (options.high > kLongest / 2) throw Failure("rwapi: --sizes of at most 8M");
        for (const Test& test : kTests) {
            for (const char* memory : {"private", "shared"}) {
                if (!differs_ && memory != std::string("private")) continue;
                for (const uint32_t size : long_sizes(options)) add(test, memory, size);
            }
        }
    }

    Result run() {
        Result result;
        result.figures = series_.run();
        result.notes = std::string(kNotes) + (differs_ ? kSharedNote : "");
        result.matrix = true;
        return result;
    }

  private:
    struct Test {
        const char* name;
        Order::Kind kind;
    };
    static constexpr Test kTests[] = {{"ping-pong", Order::Kind::kMessages},
                                      {"both ways", Order::Kind::kExchanges},
                                      {"burst", Order::Kind::kStream}};

    void add(const Test& test, const std::string& memory, uint32_t size) {
        const bool burst = test.kind == Order::Kind::kStream;
        const auto item = [&](std::string name, const Arm& arm,
                              Order::Kind kind) -> const Series::Item& {
            return series_.add(
                {.test = std::string(test.name) + (differs_ ? ", " + memory + " memory" : ""),
                 .size = size,
                 .name = std::move(name),
                 .arm = series_.add_arm(arm),
                 .order = order_of(kind, size, arm),
                 .unit = burst ? "GB/s" : "us",
                 .rate = burst});
        };
        const std::string& tls = options_.transport;
        const Series::Item& mine = item(tls, rwapi_arm(tls, memory.c_str()), test.kind);
        const Series::Item& verbs =
            item("rc_verbs", rwapi_arm("rc_verbs", memory.c_str()), test.kind);
        const Series::Item& write =
            item("RDMA write", raw_arm(memory.c_str()),
                 test.kind == Order::Kind::kMessages ? Order::Kind::kWrites : test.kind);
        const double target = size != kTargetSize ? kNone : burst ? kRate : kLatency;
        series_.compare(mine, write, target, !burst);
        series_.compare(mine, verbs, kNone, !burst);
        if (memory != "private") return;
        const std::string ucp = tls == "rc_verbs" ? "rc_v" : tls;
        const Series::Item& messages =
            item("messages, " + ucp, ucp_arm(ucp, ucp + ",self"), test.kind);
        const Series::Item& others =
            item("messages, rc_v", ucp_arm("rc_v", "rc_v,self"), test.kind);
        series_.compare(mine, messages, kNone, !burst);
        series_.compare(mine, others, kNone, !burst);
    }

    Order order_of(Order::Kind kind, uint32_t size, const Arm& arm) const {
        Order order;
        order.kind = kind;
        order.size = size;
        if (kind == Order::Kind::kStream) {
            order.per_sample = std::clamp(kBytes / size, uint64_t{16}, uint64_t{2000});
            order.count = order.per_sample * (options_.quick ? 2 : 5);
        } else {
            order.per_sample = size <= kShort ? 10 : 1;
            const uint64_t most = options_.quick ? 20 : 2000;
            order.count = std::clamp(kBytes / size, 2 * order.per_sample, most);
        }
        if (arm.port == "ucp") order.buffers = Buffers::kReused;
        order.one_sided = arm.port == "raw" && kind == Order::Kind::kStream;
        return order;
    }

    const Options& options_;
    const bool differs_;
    Series series_;
};

}  // namespace

Result run_rwapi(const Options& options, const Setup& setup) {
    return NotifiedSeries(options, setup).run();
}

}  // namespace bench
