// SPDX-License-Identifier: BSD-3-Clause
// Half round trips of messages of up to 8 KiB, compared with RDMA writes.
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

using Kind = Order::Kind;

Order trips(const Options& options, Kind kind, uint32_t size) {
    return {kind, size, options.quick ? 500U : 2000U, 10};
}

void add_uct(Group& group, const Options& options, bool differs) {
    const Order messages = trips(options, Kind::kMessages, group.size);
    const Order writes = trips(options, Kind::kWrites, group.size);
    const Arm tern = uct_arm(options.transport);
    const Arm tern_private = in_private_memory(tern);
    const std::vector<std::string> limits = {"rc_verbs", "RDMA write, private"};
    group.add(tern.name, tern, messages, limits);
    group.add("rc_verbs", uct_arm("rc_verbs"), messages);
    group.add("RDMA write, private", raw_arm("private"), writes);
    if (!differs) return;
    group.add("RDMA write, shared", raw_arm("shared"), writes);
    group.compare(tern.name, "RDMA write, shared");
    group.add(tern_private.name, tern_private, messages, limits);
}

// Tern, rc_v, and Tern in the memory that rc_v has.
void add_ucp(Group& group, const Options& options, bool differs) {
    const Arm tern = ucp_arm(ucp_name(options));
    const Arm like = in_private_memory(tern);
    const Order order = trips(options, Kind::kMessages, group.size);
    group.add(tern.name, tern, order, {"rc_v"});
    group.add("rc_v", ucp_arm("rc_v"), order);
    if (differs) group.add(like.name, like, order, {"rc_v"});
}

}  // namespace

Result run_latency(const Options& options, const Setup& setup) {
    // The sizes of UCT messages include the header: 8 KiB plus a header would need two messages.
    std::vector<uint32_t> sizes = {8, 64, 256, 1024, 2048, 4096, 8192};
    if (options.quick) sizes = {8, 1024};
    const bool differs = shared_memory_differs(setup);
    Series series = make_series(options, setup, 3, 3);
    for (const uint32_t size : sizes)
        add_uct(series.add({.test = "UCT active messages, half round trip", .size = size}), options,
                differs);
    for (const uint32_t size : sizes)
        add_ucp(series.add({.test = "UCP tagged messages, half round trip", .size = size}), options,
                differs);
    return table_of(series.run(), differs ? kSharedMemoryNote : "");
}

}  // namespace bench
