// SPDX-License-Identifier: BSD-3-Clause
// Streams of active messages, beside streams of RDMA writes.
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/series.h"

namespace bench {
namespace {

constexpr double kTarget = 1.3;  // messages of 8 bytes, to rc_verbs

class RateSeries {
  public:
    RateSeries(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          series_(setup, options.quick ? 3 : options.rounds, options.quick ? 1 : 3) {
        add(8, "active messages, stream", "M/s", kTarget);
        const std::vector<uint32_t> sizes =
            options.quick ? std::vector<uint32_t>{1024}
                          : std::vector<uint32_t>{64, 256, 1024, 2048, 4096, 8192};
        for (const uint32_t size : sizes) {
            add(size, "active messages, bandwidth", "GB/s", kNone);
        }
    }
    Result run() {
        return {series_.run(), "message size, bytes", differs_ ? kSharedMemoryNote : ""};
    }

  private:
    void add(uint32_t size, const char* test, const char* unit, double target) {
        const auto stream = [&](std::string name, const Arm& arm) -> Series::Item& {
            Series::Item item;
            item.test = test;
            item.size = size;
            item.name = std::move(name);
            item.arm = series_.add_arm(arm);
            item.unit = unit;
            item.rate = true;
            // As many as take a few milliseconds.
            const uint64_t burst = size < 4096 ? 2000 : 500;
            item.order = {Order::Kind::kStream, size, burst * (options_.quick ? 3 : 10), burst};
            return series_.add(std::move(item));
        };
        const Arm tern_arm = uct_arm(options_.transport);
        const Series::Item& tern = stream(tern_arm.name, tern_arm);
        const Series::Item& verbs = stream("rc_verbs", uct_arm("rc_verbs"));
        const Series::Item& write = stream("RDMA write, private", raw_arm("private"));
        series_.compare(tern, verbs, target, false);
        series_.compare(tern, write);
        if (!differs_) return;
        const Arm private_arm = in_private_memory(tern_arm);
        const Series::Item& shared_write = stream("RDMA write, shared", raw_arm("shared"));
        const Series::Item& tern_private = stream(private_arm.name, private_arm);
        series_.compare(tern, shared_write);
        series_.compare(tern_private, verbs, target, false);
        series_.compare(tern_private, write);
    }

    const Options& options_;
    const bool differs_;
    Series series_;
};

}  // namespace

Result run_rate(const Options& options, const Setup& setup) {
    return RateSeries(options, setup).run();
}

}  // namespace bench
