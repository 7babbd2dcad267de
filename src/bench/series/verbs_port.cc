// SPDX-License-Identifier: BSD-3-Clause
// The bare device, which is the limit for all transports; the parts of the cost of long messages;
// and the machine without the device.
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "bench/measure/chain.h"
#include "bench/measure/traffic.h"
#include "bench/series/worker.h"

namespace bench {
namespace {

class VerbsPort : public Port {
  public:
    VerbsPort(Peer& peer, Memory::Kind kind, const DeviceName& name, int gid_index)
        : peer_(peer),
          device_(name),
          wire_(kind, kWire),
          link_(device_, peer, gid_index, wire_.data(), kWire) {
        // The kernel may restrict process_vm_writev to debuggers.
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        if (kind == Memory::Kind::kPrivate) return;
        std::array<char, 64> mine = {};
        wire_.file().copy(mine.data(), mine.size() - 1);
        theirs_.emplace(peer.exchange(mine).data(), kWire);
    }

    Samples run(const Order& order) override {
        if (order.chained && !flag_) flag_.emplace(device_, peer_);
        switch (order.kind) {
            case Order::Kind::kWrites:
                return order.chained ? chain_trips(peer_, link_, *flag_, order)
                                     : write_trips(peer_, link_, order);
            case Order::Kind::kExchanges:
                return order.chained ? chain_exchanges(peer_, link_, *flag_, order)
                                     : write_exchanges(peer_, link_, order);
            case Order::Kind::kSends:
                return send_trips(peer_, link_, order);
            case Order::Kind::kPieces:
                return piece_times(peer_, link_, order);
            case Order::Kind::kCopyCalls:
                return copy_calls(peer_, link_, order);
            case Order::Kind::kCopyTrips:
                return copy_trips(peer_, link_, order);
            case Order::Kind::kStoreTrips:
                if (!theirs_) throw Failure("no memory is shared");
                return store_trips(peer_, link_, theirs_->data() + kWire / 2, order);
            case Order::Kind::kSpacings:
                return message_spacings(peer_, link_, order);
            case Order::Kind::kCopySpacings:
                return copy_spacings(peer_, link_, order);
            case Order::Kind::kOneSided:
                return one_sided_times(peer_, link_, order);
            case Order::Kind::kStream:
                return order.one_sided ? alone(order) : ring_times(peer_, link_, order);
            default:
                return alone(order);
        }
    }

  private:
    // One half for each direction.
    static constexpr size_t kWire = 2 * kLongest;

    // Carries out an order of the process that measures; the other process only waits.
    Samples alone(const Order& order) {
        if (peer_.measures() && order.kind != Order::Kind::kStream && !ground_) {
            ground_.emplace(Memory::Kind::kPrivate, kGround);
            into_.emplace(Memory::Kind::kPrivate, kLongest);
        }
        peer_.meet();
        Samples samples;
        if (peer_.measures()) samples = measure(order);
        peer_.meet();
        return samples;
    }
    Samples measure(const Order& order) {
        switch (order.kind) {
            case Order::Kind::kStream:
                return bursts(order);
            case Order::Kind::kCopies:
                walk_.begin(order);
                return timed(order.count, [&] {
                    std::memcpy(into_->data(), ground_->data() + walk_.step(), order.size);
                });
            case Order::Kind::kPinnings:
                return timed(order.count,
                             [&] { device_.register_memory(ground_->data(), order.size); });
            case Order::Kind::kRegistrations: {
                std::vector<tern::verbs::MemoryRegion> kept;  // deregistration is not timed
                kept.reserve(order.count);
                return timed(order.count, [&] {
                    kept.push_back(device_.register_memory(ground_->data(), order.size));
                });
            }
            case Order::Kind::kPosts: {
                const Samples samples =
                    timed(order.count, [&] { link_.post(IBV_WR_RDMA_WRITE, 0, order.size); });
                link_.reap_until(0);
                return samples;
            }
            default:
                throw Failure("not an order for verbs");
        }
    }
    // Writes with few completions, as in perftest's bandwidth tests.
    Samples bursts(const Order& order) {
        if (order.chained) return chain_bursts(link_, *flag_, order);
        return burst_times(link_, order, [&](uint64_t i, bool last) {
            const uint64_t place = place_of(i, order.size, order.places(), link_.half());
            link_.post(IBV_WR_RDMA_WRITE, place, order.size, last);
        });
    }

    Peer& peer_;
    Device device_;
    Memory wire_;
    Link link_;
    std::optional<Flag> flag_;
    std::optional<Memory> theirs_;  // the peer's wire_, if it is shared
    std::optional<Memory> ground_;
    std::optional<Memory> into_;
    Walk walk_;
};

}  // namespace

std::unique_ptr<Port> open_verbs_port(Peer& peer, const WorkerJob& job) {
    const bool shared = std::strcmp(job.what, "shared") == 0;
    return std::make_unique<VerbsPort>(peer,
                                       shared ? Memory::Kind::kShared : Memory::Kind::kPrivate,
                                       DeviceName(job.device), job.gid_index);
}

}  // namespace bench
