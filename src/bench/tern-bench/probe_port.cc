// SPDX-License-Identifier: BSD-3-Clause
// What the costs of long messages are made of, in us: copies, registrations, posts, and the wire.
#include <cstring>

#include "bench/measure/clock.h"
#include "bench/measure/latency.h"
#include "bench/measure/memory.h"
#include "bench/measure/stream.h"
#include "bench/tern-bench/device_name.h"
#include "bench/tern-bench/port.h"
#include "bench/tern-bench/walk.h"

namespace bench {
namespace {

constexpr uint32_t kWindow = 8;  // messages under way behind one another

template <typename Action>
Samples timed(uint64_t count, Action&& action) {
    Samples samples;
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t begin = now_ns();
        action();
        samples.push_back(static_cast<double>(now_ns() - begin) / 1000);
    }
    return samples;
}

class ProbePort : public Port {
  public:
    ProbePort(Peer& peer, Memory::Kind kind, const DeviceName& name, int gid_index)
        : peer_(peer),
          device_(name.device, name.port),
          wire_(kind, 2 * kLongest),
          memory_(Memory::Kind::private_, kGround),
          into_(Memory::Kind::private_, kLongest),
          link_(device_, peer, gid_index, wire_.data(), 2 * kLongest) {}

    Samples run(const Order& order) override {
        if (order.kind == Order::Kind::kWrites) {
            return write_latency(peer_, link_, {order.count, order.size, 1},
                                 Waiting::polls_completions_too);
        }
        peer_.meet();
        Samples samples;
        if (peer_.measures()) samples = alone(order);
        if (order.kind == Order::Kind::kSpacings) samples = spacings(order);
        peer_.meet();
        return samples;
    }

  private:
    Samples alone(const Order& order) {
        switch (order.kind) {
            case Order::Kind::kCopies:
                walk_.begin(order);
                return timed(order.count, [&] {
                    std::memcpy(into_.data(), memory_.data() + walk_.step(), order.size);
                });
            case Order::Kind::kRegistrations:
                return timed(order.count,
                             [&] { device_.register_memory(memory_.data(), order.size); });
            case Order::Kind::kPosts: {
                const Samples samples =
                    timed(order.count, [&] { link_.post(IBV_WR_RDMA_WRITE, 0, order.size); });
                link_.reap_until(0);
                return samples;
            }
            default:
                return {};
        }
    }
    Samples spacings(const Order& order) {
        Samples samples;
        const Stream stream{IBV_WR_RDMA_WRITE, order.size, kWindow, 3 * kWindow};
        for (uint64_t i = 0; i < order.count; ++i) {
            const double ns = message_spacing(peer_, link_, stream);
            if (peer_.measures()) samples.push_back(ns / 1000);
        }
        return samples;
    }
    Peer& peer_;
    Device device_;
    Memory wire_;
    Memory memory_;
    Memory into_;
    Walk walk_;
    Link link_;
};

}  // namespace

std::unique_ptr<Port> open_probe_port(Peer& peer, const std::string& memory,
                                      const std::string& device, int gid_index) {
    const auto kind = memory == "shared" ? Memory::Kind::shared : Memory::Kind::private_;
    return std::make_unique<ProbePort>(peer, kind, DeviceName(device), gid_index);
}

}  // namespace bench
