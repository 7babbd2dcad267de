// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets of UCP in registered memory of the target, compared with RDMA writes and reads in
// the same kind of memory: the time of one with a flush, as in OSU's osu_put_latency and
// osu_get_latency, and the bandwidth of many at once, as in osu_put_bw and osu_get_bw.
#include <algorithm>

#include "bench/series/series.h"
#include "bench/tern-bench/arms.h"

namespace bench {
namespace {

// Targets for Tern's ratio to rc_v.
constexpr double kLatency = 1.05;
constexpr double kBandwidth = 0.98;

constexpr uint32_t kShort = 8 << 10;  // up to here, reading the clock each time would show
constexpr uint32_t kMostAtOnce = 64;  // as in OSU's programs
constexpr uint32_t kFewestAtOnce = 4;
constexpr uint32_t kBytesAtOnce = 4 << 20;
constexpr uint64_t kBytes = 16 << 20;  // of an order

constexpr const char* kNotes =
    "latency: one operation and a flush of the endpoint. bandwidth: 64 operations and a flush, "
    "fewer from 128 KiB on.\n"
    "RDMA write, RDMA read: by verbs, in the same kind of memory; the last one of a window is "
    "waited for. `?`: see behind\n"
    "the line; `<`, `>`: misses the target.\n";
constexpr const char* kSharedNote =
    "The software HCA copies into shared memory directly and into private memory by a system call: "
    "the memory of most\n"
    "programs is private; in shared memory the transports' own instructions are seen.\n";

class OneSidedSeries {
  public:
    OneSidedSeries(const Options& options, const Setup& setup)
        : options_(options),
          differs_(shared_memory_differs(setup)),
          series_(setup, options.quick ? 2 : options.rounds, options.quick ? 1 : 2) {
        const std::string tls = options.transport == "rc_verbs" ? "rc_v" : options.transport;
        for (const char* memory : {"private", "shared"}) {
            if (!differs_ && memory != std::string("private")) continue;
            const Arm tern = rma_arm(tls, tls + ",self", memory);
            const Arm verbs = rma_arm("rc_v", "rc_v,self", memory);
            const Arm raw = raw_arm(memory);
            for (const bool reads : {false, true}) {
                for (const bool latency : {true, false}) {
                    for (const uint32_t size : long_sizes(options)) {
                        const Kind kind{memory, reads, latency, size};
                        const Series::Item& mine = add(kind, tls, tern);
                        const Series::Item& yardstick = add(kind, "rc_v", verbs);
                        const Series::Item& limit =
                            add(kind, reads ? "RDMA read" : "RDMA write", raw);
                        series_.compare(mine, yardstick, latency ? kLatency : kBandwidth, latency);
                        series_.compare(mine, limit, kNone, latency);
                        series_.compare(yardstick, limit, kNone, latency);
                    }
                }
            }
        }
    }

    Result run() {
        return matrix_of(series_.run(), std::string(kNotes) + (differs_ ? kSharedNote : ""));
    }

  private:
    struct Kind {
        std::string memory;
        bool reads;
        bool latency;
        uint32_t size;
    };

    const Series::Item& add(const Kind& kind, const std::string& name, const Arm& arm) {
        const uint32_t at_once =
            kind.latency ? 1 : std::clamp(kBytesAtOnce / kind.size, kFewestAtOnce, kMostAtOnce);
        const uint64_t most = kind.latency ? 1000 : 30;
        const uint64_t least = kind.latency ? 10 : 3;
        const uint64_t windows =
            options_.quick ? least : std::clamp(kBytes / kind.size / at_once, least, most);
        Order order;
        order.kind = Order::Kind::kOneSided;
        order.size = kind.size;
        order.count = windows;
        order.per_sample = kind.latency && kind.size <= kShort ? 10 : 1;
        order.one_sided = true;
        order.request = kind.reads ? Order::Request::kRead : Order::Request::kWrite;
        order.window = at_once;
        return series_.add({.test = std::string(kind.reads ? "get " : "put ") +
                                    (kind.latency ? "latency" : "bandwidth") +
                                    (differs_ ? ", " + kind.memory + " memory" : ""),
                            .size = kind.size,
                            .name = name,
                            .arm = series_.add_arm(arm),
                            .order = order,
                            .unit = kind.latency ? "us" : "GB/s",
                            .rate = !kind.latency});
    }

    const Options& options_;
    const bool differs_;
    Series series_;
};

}  // namespace

Result run_onesided(const Options& options, const Setup& setup) {
    return OneSidedSeries(options, setup).run();
}

}  // namespace bench
