// SPDX-License-Identifier: BSD-3-Clause
// Half round trips of messages of up to 8 KiB, and streams of active messages, compared with RDMA
// writes.
#include "bench/series/series.h"
#include "bench/tern-bench/arms.h"

namespace bench {
namespace {

// Targets for messages of 8 bytes.
constexpr double kUctToVerbs = 0.75;
constexpr double kUctToWrite = 1.25;
constexpr double kUcpToVerbs = 0.85;
constexpr double kRateToVerbs = 1.3;
constexpr uint32_t kTargetSize = 8;
constexpr uint32_t kInline = 128;  // bytes that most devices take within a work request

constexpr const char* kUctTest = "UCT active messages, half round trip";
constexpr const char* kUcpTest = "UCP tagged messages, half round trip";

class ShortSeries {
  public:
    ShortSeries(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          series_(setup, options.quick ? 3 : options.rounds, options.quick ? 1 : 3) {}

    void add_latencies() {
        const std::vector<uint32_t> sizes =
            options_.quick ? std::vector<uint32_t>{8, 1024}
                           : std::vector<uint32_t>{8, 64, 256, 1024, 2048, 4096, 8192};
        // The sizes of UCT messages include the header: 8 KiB plus a header would need two
        // messages.
        for (const uint32_t size : sizes) add_uct(size);
        for (const uint32_t size : sizes) add_ucp(size);
    }
    void add_rates() {
        add_stream(8, "active messages, stream", "M/s", kRateToVerbs);
        const std::vector<uint32_t> sizes =
            options_.quick ? std::vector<uint32_t>{1024}
                           : std::vector<uint32_t>{64, 256, 1024, 2048, 4096, 8192};
        for (const uint32_t size : sizes) {
            add_stream(size, "active messages, bandwidth", "GB/s", kNone);
        }
    }
    Result run() { return {series_.run(), differs_ ? kSharedMemoryNote : ""}; }

  private:
    const Series::Item& add(const char* test, uint32_t size, std::string name, const Arm& arm,
                            Order::Kind kind) {
        return series_.add({.test = test,
                            .size = size,
                            .name = std::move(name),
                            .arm = series_.add_arm(arm),
                            .order = {kind, size, options_.quick ? 500U : 2000U, 10}});
    }

    void add_uct(uint32_t size) {
        const bool with_target = size == kTargetSize;
        const auto messages = [&](const Arm& arm) -> const Series::Item& {
            return add(kUctTest, size, arm.name, arm, Order::Kind::kMessages);
        };
        const auto raw = [&](const char* what, const char* memory,
                             Order::Kind kind) -> const Series::Item& {
            return add(kUctTest, size, std::string(what) + ", " + memory, raw_arm(memory), kind);
        };
        const double verbs_target = with_target ? kUctToVerbs : kNone;
        const double write_target = with_target ? kUctToWrite : kNone;
        const Series::Item& tern = messages(uct_arm(options_.transport));
        const Series::Item& verbs = messages(uct_arm("rc_verbs"));
        const Series::Item& write = raw("RDMA write", "private", Order::Kind::kWrites);
        series_.compare(tern, verbs, verbs_target);
        series_.compare(tern, write, write_target);
        if (!differs_) return;
        const Series::Item& shared_write = raw("RDMA write", "shared", Order::Kind::kWrites);
        const Series::Item& tern_private = messages(in_private_memory(uct_arm(options_.transport)));
        series_.compare(tern, shared_write, write_target);
        series_.compare(tern_private, verbs, verbs_target);
        series_.compare(tern_private, write, write_target);
        if (!with_target) return;
        // The limit for transports that receive by a completion queue.
        const Series::Item& shared_send = raw("send/recv", "shared", Order::Kind::kSends);
        raw("send/recv", "private", Order::Kind::kSends);
        series_.compare(tern, shared_send);
    }

    void add_ucp(uint32_t size) {
        const auto messages = [&](const Arm& arm) -> const Series::Item& {
            return add(kUcpTest, size, arm.name, arm, Order::Kind::kMessages);
        };
        const double target = size == kTargetSize ? kUcpToVerbs : kNone;
        // rc_v is rc_verbs together with the transports that UCP needs to connect it.
        const std::string name = options_.transport == "rc_verbs" ? "rc_v" : options_.transport;
        const Arm tern_arm = ucp_arm(name, name + ",self");
        const Series::Item& tern = messages(tern_arm);
        const Series::Item& verbs = messages(ucp_arm("rc_v", "rc_v,self"));
        series_.compare(tern, verbs, target);
        if (!differs_) return;
        const Series::Item& tern_private = messages(in_private_memory(tern_arm));
        series_.compare(tern_private, verbs, target);
    }

    void add_stream(uint32_t size, const char* test, const char* unit, double target) {
        const auto stream = [&](std::string name, const Arm& arm, bool one_sided = false,
                                bool copied = false) -> const Series::Item& {
            // A burst of a few milliseconds.
            const uint64_t burst = size < 4096 ? 2000 : 500;
            return series_.add({.test = test,
                                .size = size,
                                .name = std::move(name),
                                .arm = series_.add_arm(arm),
                                .order = {.kind = Order::Kind::kStream,
                                          .size = size,
                                          .count = burst * (options_.quick ? 3 : 10),
                                          .per_sample = burst,
                                          .one_sided = one_sided,
                                          .copied = copied},
                                .unit = unit,
                                .rate = true});
        };
        // Nobody reads what a write alone writes, which keeps it in one processor's cache.
        const auto compare_with_writes = [&](const Series::Item& tern, const char* memory) {
            const Arm arm = raw_arm(memory);
            const std::string name = std::string("RDMA write, ") + memory;
            series_.compare(tern, stream(name, arm, true));
            series_.compare(tern, stream(name + ", read", arm));
            // A transport copies what is too long for the work request into registered memory.
            if (size > kInline) series_.compare(tern, stream(name + ", copied", arm, false, true));
        };
        const Arm tern_arm = uct_arm(options_.transport);
        const Series::Item& tern = stream(tern_arm.name, tern_arm);
        const Series::Item& verbs = stream("rc_verbs", uct_arm("rc_verbs"));
        series_.compare(tern, verbs, target, false);
        if (!differs_) {
            compare_with_writes(tern, "private");
            return;
        }
        const Arm private_arm = in_private_memory(tern_arm);
        const Series::Item& tern_private = stream(private_arm.name, private_arm);
        series_.compare(tern_private, verbs, target, false);
        compare_with_writes(tern, "shared");
        compare_with_writes(tern_private, "private");
    }

    const Options& options_;
    const bool differs_;
    Series series_;
};

}  // namespace

Result run_latency(const Options& options, const Setup& setup) {
    ShortSeries series(options, setup);
    series.add_latencies();
    return series.run();
}

Result run_rate(const Options& options, const Setup& setup) {
    ShortSeries series(options, setup);
    series.add_rates();
    return series.run();
}

}  // namespace bench
