// SPDX-License-Identifier: BSD-3-Clause
// Half round trips of messages of up to 8 KiB, and streams of active messages, compared with RDMA
// writes.
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

// Targets for messages of 8 bytes.
constexpr double kUctToVerbs = 0.75;
constexpr double kUctToWrite = 1.25;
constexpr double kUcpToVerbs = 0.85;
constexpr double kRateToVerbs = 1.3;
constexpr uint32_t kInline = 128;  // bytes that most devices take within a work request

using Kind = Order::Kind;

class ShortMessages {
  public:
    ShortMessages(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          series_(make_series(options, setup, 3, 3)) {}

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
    Result run() { return table_of(series_.run(), differs_ ? kSharedMemoryNote : ""); }

  private:
    Order trips(Kind kind, uint32_t size) const {
        return {kind, size, options_.quick ? 500U : 2000U, 10};
    }

    void add_uct(uint32_t size) {
        const bool with_target = size == kTargetSize;
        const double to_verbs = with_target ? kUctToVerbs : kNone;
        const double to_write = with_target ? kUctToWrite : kNone;
        const Order messages = trips(Kind::kMessages, size);
        const Order writes = trips(Kind::kWrites, size);
        const Order sends = trips(Kind::kSends, size);
        const Arm tern = uct_arm(options_.transport);
        const Arm tern_private = in_private_memory(tern);
        const std::vector<Group::Against> limits = {{"rc_verbs", to_verbs},
                                                    {"RDMA write, private", to_write}};
        Group& group = series_.add({.test = "UCT active messages, half round trip", .size = size});
        group.add(tern.name, tern, messages, limits);
        group.add("rc_verbs", uct_arm("rc_verbs"), messages);
        group.add("RDMA write, private", raw_arm("private"), writes);
        if (!differs_) return;
        group.add("RDMA write, shared", raw_arm("shared"), writes);
        group.compare(tern.name, "RDMA write, shared", to_write);
        group.add(tern_private.name, tern_private, messages, limits);
        if (!with_target) return;
        // The limit for transports that receive by a completion queue.
        group.add("send/recv, shared", raw_arm("shared"), sends);
        group.add("send/recv, private", raw_arm("private"), sends);
        group.compare(tern.name, "send/recv, shared");
    }

    void add_ucp(uint32_t size) {
        const double target = size == kTargetSize ? kUcpToVerbs : kNone;
        const Order messages = trips(Kind::kMessages, size);
        const Arm tern = ucp_arm(ucp_name(options_));
        const Arm tern_private = in_private_memory(tern);
        Group& group = series_.add({.test = "UCP tagged messages, half round trip", .size = size});
        group.add(tern.name, tern, messages, {{"rc_v", target}});
        group.add("rc_v", ucp_arm("rc_v"), messages);
        if (differs_) group.add(tern_private.name, tern_private, messages, {{"rc_v", target}});
    }

    void add_stream(uint32_t size, const char* test, const char* unit, double target) {
        Order stream;
        stream.kind = Kind::kStream;
        stream.size = size;
        stream.per_sample = size < 4096 ? 2000 : 500;  // a burst of a few milliseconds
        stream.count = stream.per_sample * (options_.quick ? 3 : 10);
        Order alone = stream;
        alone.one_sided = true;
        Order copied = stream;
        copied.copied = true;
        const Arm tern = uct_arm(options_.transport);
        const Arm tern_private = in_private_memory(tern);
        Group& group = series_.add({.test = test, .size = size, .unit = unit});
        const auto compare_with_writes = [&](const std::string& mine, const std::string& memory) {
            const auto add = [&](const std::string& what, const Order& order) {
                group.add("RDMA write, " + memory + what, raw_arm(memory), order);
                group.compare(mine, "RDMA write, " + memory + what);
            };
            add("", alone);
            add(", read", stream);
            // A transport copies what is too long for the work request into registered memory.
            if (size > kInline) add(", copied", copied);
        };
        group.add(tern.name, tern, stream, {{"rc_verbs", target}});
        group.add("rc_verbs", uct_arm("rc_verbs"), stream);
        if (differs_) group.add(tern_private.name, tern_private, stream, {{"rc_verbs", target}});
        if (differs_) compare_with_writes(tern.name, "shared");
        compare_with_writes(differs_ ? tern_private.name : tern.name, "private");
    }

    const Options& options_;
    const bool differs_;
    Series series_;
};

}  // namespace

Result run_latency(const Options& options, const Setup& setup) {
    ShortMessages messages(options, setup);
    messages.add_latencies();
    return messages.run();
}

Result run_rate(const Options& options, const Setup& setup) {
    ShortMessages messages(options, setup);
    messages.add_rates();
    return messages.run();
}

}  // namespace bench
