// SPDX-License-Identifier: BSD-3-Clause
// The device by itself: what any transport on it can reach at best.
#include "bench/measure/clock.h"
#include "bench/measure/latency.h"
#include "bench/measure/link.h"
#include "bench/measure/memory.h"
#include "bench/tern-bench/device_name.h"
#include "bench/tern-bench/port.h"

namespace bench {
namespace {

constexpr size_t kMemory = size_t{2} << 20;

class RawPort : public Port {
  public:
    RawPort(Peer& peer, Memory::Kind kind, const DeviceName& name, int gid_index)
        : peer_(peer),
          device_(name.device, name.port),
          memory_(kind, kMemory),
          link_(device_, peer, gid_index, memory_.data(), kMemory) {}

    Samples run(const Order& order) override {
        const Trips trips(order.count, order.size, order.per_sample);
        switch (order.kind) {
            case Order::Kind::kWrites:
                return write_latency(peer_, link_, trips, Waiting::polls_memory);
            case Order::Kind::kSends:
                return send_latency(peer_, link_, trips);
            case Order::Kind::kStream:
                return stream_writes(order);
            default:
                throw Failure("not an order for raw verbs");
        }
    }

  private:
    // Few completions, as perftest's bandwidth tests have it. The peer has nothing to do.
    Samples stream_writes(const Order& order) {
        constexpr uint64_t kPlaces = 64;
        Samples samples;
        peer_.meet();
        for (uint64_t burst = 0; peer_.measures() && burst < order.count / order.per_sample;
             ++burst) {
            const uint64_t begin = now_ns();
            for (uint64_t i = 1; i <= order.per_sample; ++i) {
                link_.post(IBV_WR_RDMA_WRITE, i % kPlaces * order.size, order.size,
                           i == order.per_sample);
            }
            link_.reap_until(0);
            const auto ns = static_cast<double>(now_ns() - begin);
            samples.push_back(ns / 1000 / static_cast<double>(order.per_sample));
        }
        peer_.meet();
        return samples;
    }

    Peer& peer_;
    Device device_;
    Memory memory_;
    Link link_;
};

}  // namespace

std::unique_ptr<Port> open_raw_port(Peer& peer, const std::string& memory,
                                    const std::string& device, int gid_index) {
    const auto kind = memory == "shared" ? Memory::Kind::shared : Memory::Kind::private_;
    return std::make_unique<RawPort>(peer, kind, DeviceName(device), gid_index);
}

}  // namespace bench
