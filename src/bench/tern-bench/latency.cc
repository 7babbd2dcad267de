// SPDX-License-Identifier: BSD-3-Clause
// Half round trips.
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/series.h"

namespace bench {
namespace {

// 8 bytes are what the targets are about.
constexpr double kUctToVerbs = 0.75;
constexpr double kUctToWrite = 1.25;
constexpr double kUcpToVerbs = 0.85;
constexpr uint32_t kTargetSize = 8;

constexpr const char* kUctTest = "UCT active messages, half round trip";
constexpr const char* kUcpTest = "UCP tagged messages, half round trip";

class LatencySeries {
  public:
    LatencySeries(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          series_(setup, options.quick ? 3 : options.rounds, options.quick ? 1 : 3) {
        const std::vector<uint32_t> sizes =
            options.quick ? std::vector<uint32_t>{8, 1024}
                          : std::vector<uint32_t>{8, 64, 256, 1024, 2048, 4096, 8192};
        // A UCT message of 8 KiB and a header would be two.
        for (const uint32_t size : sizes) add_uct(size);
        for (const uint32_t size : sizes) add_ucp(size);
    }
    Result run() {
        return {series_.run(), "message size, bytes", differs_ ? kSharedMemoryNote : ""};
    }

  private:
    Series::Item& add(const char* test, uint32_t size, std::string name, const Arm& arm,
                      Order::Kind kind) {
        Series::Item item;
        item.test = test;
        item.size = size;
        item.name = std::move(name);
        item.arm = series_.add_arm(arm);
        item.unit = "us";
        item.order = {kind, size, uint64_t{options_.quick ? 500U : 2000U}, 10};
        return series_.add(std::move(item));
    }

    void add_uct(uint32_t size) {
        const bool with_target = size == kTargetSize;
        const auto messages = [&](const Arm& arm) -> Series::Item& {
            return add(kUctTest, size, arm.name, arm, Order::Kind::kMessages);
        };
        const auto raw = [&](const char* what, const char* memory,
                             Order::Kind kind) -> Series::Item& {
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
        // What any transport could reach that receives by completion queue.
        const Series::Item& shared_send = raw("send/recv", "shared", Order::Kind::kSends);
        raw("send/recv", "private", Order::Kind::kSends);
        series_.compare(tern, shared_send);
    }

    void add_ucp(uint32_t size) {
        const auto messages = [&](const Arm& arm) -> Series::Item& {
            return add(kUcpTest, size, arm.name, arm, Order::Kind::kMessages);
        };
        const double target = size == kTargetSize ? kUcpToVerbs : kNone;
        // rc_v is rc_verbs with what UCP needs to connect it.
        const std::string name = options_.transport == "rc_verbs" ? "rc_v" : options_.transport;
        const Arm tern_arm = ucp_arm(name, name + ",self");
        const Series::Item& tern = messages(tern_arm);
        const Series::Item& verbs = messages(ucp_arm("rc_v", "rc_v,self"));
        series_.compare(tern, verbs, target);
        if (!differs_) return;
        const Series::Item& tern_private = messages(in_private_memory(tern_arm));
        series_.compare(tern_private, verbs, target);
    }

    const Options& options_;
    const bool differs_;
    Series series_;
};

}  // namespace

Result run_latency(const Options& options, const Setup& setup) {
    return LatencySeries(options, setup).run();
}

}  // namespace bench
