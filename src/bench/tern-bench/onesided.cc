// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets of UCP in registered memory of the target, compared with RDMA writes and reads in
// the same kind of memory: the time of one with a flush, as in OSU's osu_put_latency and
// osu_get_latency, and the bandwidth of many at once, as in osu_put_bw and osu_get_bw.
#include <algorithm>

#include "bench/tern-bench/command.h"

namespace bench {
namespace {

constexpr uint32_t kMostAtOnce = 64;  // as in OSU's programs
constexpr uint32_t kFewestAtOnce = 4;

constexpr const char* kOneSidedNotes =
    "latency: one operation and a flush of the endpoint. bandwidth: 64 operations and a flush, "
    "fewer from 128 KiB on.\n"
    "RDMA write, RDMA read: by verbs, in the same kind of memory; the last one of a window is "
    "waited for. `?`: see behind\n"
    "the line; `<`, `>`: misses the target.\n";
constexpr const char* kOneSidedSharedNote =
    "The software HCA copies into shared memory directly and into private memory by a system call: "
    "the memory of most\n"
    "programs is private; in shared memory the transports' own instructions are seen.\n";

Order one_sided_order(bool reads, bool latency, uint32_t size, bool quick) {
    const uint64_t most = latency ? 1000 : 30;
    const uint64_t least = latency ? 10 : 3;
    const uint32_t window =
        latency ? 1 : std::clamp(kBytesAtOnce / size, kFewestAtOnce, kMostAtOnce);
    return {.kind = Order::Kind::kOneSided,
            .size = size,
            .count = quick ? least : std::clamp(kOrderBytes / size / window, least, most),
            .per_sample = latency && size <= kShort ? 10U : 1U,
            .one_sided = true,
            .request = reads ? Order::Request::kRead : Order::Request::kWrite,
            .window = window};
}

}  // namespace

Result run_onesided(const Options& options, const Setup& setup) {
    const std::string tls = ucp_name(options);
    Series series = make_series(options, setup, 2, 2);
    const auto add = [&](const std::string& memory, bool reads, bool latency, uint32_t size) {
        const Order order = one_sided_order(reads, latency, size, options.quick);
        const std::string limit = reads ? "RDMA read" : "RDMA write";
        Group& group =
            series.add({.test = std::string(reads ? "get " : "put ") +
                                (latency ? "latency" : "bandwidth") + memory_text(setup, memory),
                        .size = size,
                        .unit = latency ? "us" : "GB/s"});
        group.add(tls, rma_arm(tls, memory), order,
                  {{"rc_v", latency ? kTimeToVerbs : kBandwidthToVerbs}, {limit}});
        group.add("rc_v", rma_arm("rc_v", memory), order, {{limit}});
        group.add(limit, raw_arm(memory), order);
    };
    for (const std::string& memory : kinds_of_memory(setup)) {
        for (const bool reads : {false, true}) {
            for (const bool latency : {true, false}) {
                for (const uint32_t size : long_sizes(options)) add(memory, reads, latency, size);
            }
        }
    }
    return matrix_of(series.run(), std::string(kOneSidedNotes) +
                                       (shared_memory_differs(setup) ? kOneSidedSharedNote : ""));
}

}  // namespace bench
