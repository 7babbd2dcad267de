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

Order trips(const Options& options, Kind kind, uint32_t size) {
    return {kind, size, options.quick ? 500U : 2000U, 10};
}

void add_uct(Group& group, const Options& options, bool differs) {
    const bool with_target = group.size == kTargetSize;
    const double to_verbs = with_target ? kUctToVerbs : kNone;
    const double to_write = with_target ? kUctToWrite : kNone;
    const Order messages = trips(options, Kind::kMessages, group.size);
    const Order writes = trips(options, Kind::kWrites, group.size);
    const Order sends = trips(options, Kind::kSends, group.size);
    const Arm tern = uct_arm(options.transport);
    const Arm tern_private = in_private_memory(tern);
    const std::vector<Group::Against> limits = {{"rc_verbs", to_verbs},
                                                {"RDMA write, private", to_write}};
    group.add(tern.name, tern, messages, limits);
    group.add("rc_verbs", uct_arm("rc_verbs"), messages);
    group.add("RDMA write, private", raw_arm("private"), writes);
    if (!differs) return;
    group.add("RDMA write, shared", raw_arm("shared"), writes);
    group.compare(tern.name, "RDMA write, shared", to_write);
    group.add(tern_private.name, tern_private, messages, limits);
    if (!with_target) return;
    // The limit for transports that receive by a completion queue.
    group.add("send/recv, shared", raw_arm("shared"), sends);
    group.add("send/recv, private", raw_arm("private"), sends);
    group.compare(tern.name, "send/recv, shared");
}

// Tern, rc_verbs, and Tern in the memory that rc_verbs has. `target` is for 8 bytes.
void add_both(Group& group, const Arm& tern, const Arm& verbs, const Order& order, double target,
              bool differs) {
    const std::vector<Group::Against> yardsticks = {
        {verbs.name, group.size == kTargetSize ? target : kNone}};
    group.add(tern.name, tern, order, yardsticks);
    group.add(verbs.name, verbs, order);
    const Arm like = in_private_memory(tern);
    if (differs) group.add(like.name, like, order, yardsticks);
}

void add_ucp(Group& group, const Options& options, bool differs) {
    add_both(group, ucp_arm(ucp_name(options)), ucp_arm("rc_v"),
             trips(options, Kind::kMessages, group.size), kUcpToVerbs, differs);
}

void add_stream(Group& group, const Options& options, bool differs) {
    const uint64_t burst = group.size < 4096 ? 2000 : 500;  // of a few milliseconds
    const Order stream = {Kind::kStream, group.size, burst * (options.quick ? 3 : 10), burst};
    Order alone = stream;
    alone.one_sided = true;
    Order copied = stream;
    copied.copied = true;
    const Arm tern = uct_arm(options.transport);
    const auto compare_with_writes = [&](const std::string& mine, const std::string& memory) {
        const auto add = [&](const std::string& what, const Order& order) {
            group.add("RDMA write, " + memory + what, raw_arm(memory), order);
            group.compare(mine, "RDMA write, " + memory + what);
        };
        add("", alone);
        add(", read", stream);
        // A transport copies what is too long for the work request into registered memory.
        if (group.size > kInline) add(", copied", copied);
    };
    add_both(group, tern, uct_arm("rc_verbs"), stream, kRateToVerbs, differs);
    if (differs) compare_with_writes(tern.name, "shared");
    compare_with_writes(differs ? in_private_memory(tern).name : tern.name, "private");
}

// A test with messages of several sizes, and what adds its entries.
struct ShortTest {
    const char* name;
    std::vector<uint32_t> sizes;
    void (*add)(Group& group, const Options& options, bool differs);
    const char* unit = "us";
};
Result run_tests(const Options& options, const Setup& setup, const std::vector<ShortTest>& tests) {
    const bool differs = shared_memory_differs(setup);
    Series series = make_series(options, setup, 3, 3);
    for (const auto& [name, sizes, add, unit] : tests) {
        for (const uint32_t size : sizes)
            add(series.add({.test = name, .size = size, .unit = unit}), options, differs);
    }
    return table_of(series.run(), differs ? kSharedMemoryNote : "");
}

}  // namespace

Result run_latency(const Options& options, const Setup& setup) {
    // The sizes of UCT messages include the header: 8 KiB plus a header would need two messages.
    std::vector<uint32_t> sizes = {8, 64, 256, 1024, 2048, 4096, 8192};
    if (options.quick) sizes = {8, 1024};
    return run_tests(options, setup,
                     {{"UCT active messages, half round trip", sizes, add_uct},
                      {"UCP tagged messages, half round trip", sizes, add_ucp}});
}

Result run_rate(const Options& options, const Setup& setup) {
    std::vector<uint32_t> sizes = {64, 256, 1024, 2048, 4096, 8192};
    if (options.quick) sizes = {1024};
    return run_tests(options, setup,
                     {{"active messages, stream", {kTargetSize}, add_stream, "M/s"},
                      {"active messages, bandwidth", sizes, add_stream, "GB/s"}});
}

}  // namespace bench
