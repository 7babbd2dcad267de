// SPDX-License-Identifier: BSD-3-Clause
// The bare device, which is the limit for all transports; the parts of the cost of long messages;
// and the machine without the device.
#include <sys/prctl.h>

#include <array>
#include <cstring>
#include <optional>

#include "bench/measure/exchange.h"
#include "bench/series/worker.h"

namespace bench {
namespace {

// Ways of a numbered message to the other process.

// Writes whose end the receiver polls in memory. The size is a multiple of 8 bytes, or less.
class Writes {
  public:
    Writes(Link& link, const Order& order) : link_(link), size_(order.size), reaps_(order.reaps) {
        Tail(link.in(), size_).store(link.sequence);
    }
    void send(uint64_t number) {
        Tail(link_.out(), size_).store(number);
        link_.post(IBV_WR_RDMA_WRITE, 0, size_);
    }
    void receive(uint64_t number) {
        // The software HCA places due data when it is polled.
        wait_for_end({link_.in(), size_}, number, [this] {
            if (reaps_ && link_.outstanding() != 0) link_.reap();
        });
    }

  private:
    Link& link_;
    const uint32_t size_;
    const bool reaps_;
};

// Sends, whose receiver polls its completion queue.
struct Sends {
    void send(uint64_t) {
        link.post(IBV_WR_SEND, 0, order.size);
        receives.refill();
        link.reap();
    }
    void receive(uint64_t) { receives.wait_for(++taken); }

    Link& link;
    const Order& order;
    Receives receives{link, order.size, order.trips()};
    uint64_t taken = 0;
};

// 8 bytes that the process itself puts into the other one's in(), without the HCA: by
// process_vm_writev, or by a store to where it is mapped.
struct PlainWords {
    void send(uint64_t number) {
        if (there == nullptr) return copy_across(peer, &number, link.remote_in(), kWord);
        word_at(there).store(number, std::memory_order_release);
    }
    void receive(uint64_t number) {
        wait_for_word(link.in(), number, [] {});
    }

    Peer& peer;
    Link& link;
    char* there;
};

// Half round trips.
template <typename Way>
struct WayEnd {
    void progress() { link.reap(); }
    void send(uint32_t) { way.send(++sent); }
    void receive(uint32_t) { way.receive(++link.sequence); }

    Link& link;
    Way& way;
    uint64_t sent = link.sequence;
};
template <typename Way>
Samples trips(Peer& peer, Link& link, const Order& order, Way&& way) {
    WayEnd<std::remove_reference_t<Way>> end{link, way};
    Samples samples = run_messages(peer, end, order);
    link.reap_until(0);
    return samples;
}

// The duration of one process_vm_writev of 8 bytes, while the other process polls these bytes.
Samples copy_calls(Peer& peer, Link& link, const Order& order) {
    peer.meet();
    if (peer.measures()) {
        return timed(order.count, 1, [&] {
            ++link.sequence;
            copy_across(peer, &link.sequence, link.remote_in(), kWord);
        });
    }
    link.sequence += order.count;
    wait_for_word(link.in(), link.sequence, [] {});
    return {};
}

constexpr uint32_t kPage = 4096;

// The time from the post of a long write until the receiver sees its first `bytes`. The receiver
// measures; it polls the pages of the message in order, and its completion queue.
Samples piece_times(Peer& peer, Link& link, const Order& order) {
    Samples samples;
    const auto reap = [&] { link.reap(); };
    peer.meet();
    for (uint64_t i = 0; i < order.count; ++i) {
        ++link.sequence;
        if (peer.measures()) {
            // Requests a write from the peer. The first word of the write holds its time of
            // posting.
            word_at(link.out()).store(link.sequence, std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, kWord);
            for (uint32_t end = kPage; end <= order.size; end += kPage) {
                wait_for_word(link.in() + end - kWord, link.sequence, reap);
                if (end != order.bytes) continue;
                samples.push_back(us_since(word_at(link.in()).load(std::memory_order_relaxed)));
            }
        } else {
            wait_for_word(link.in(), link.sequence, reap);
            for (uint32_t end = kPage; end <= order.size; end += kPage) {
                word_at(link.out() + end - kWord).store(link.sequence, std::memory_order_relaxed);
            }
            word_at(link.out()).store(now_ns(), std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, order.size);
        }
        link.reap_until(0);
    }
    peer.meet();
    return samples;
}

class VerbsPort : public Port {
  public:
    VerbsPort(Peer& peer, const WorkerJob& job)
        : peer_(peer),
          device_(DeviceName(job.device), job.gid_index),
          wire_(job.memory, kWire),
          link_(device_, peer, wire_.data(), kWire) {
        // The kernel may restrict process_vm_writev to debuggers.
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    }

    Samples run(const Order& order) override {
        switch (order.kind) {
            case Order::Kind::kWrites:
                return trips(peer_, link_, order, Writes(link_, order));
            case Order::Kind::kSends:
                return trips(peer_, link_, order, Sends{link_, order});
            case Order::Kind::kPieces:
                return piece_times(peer_, link_, order);
            case Order::Kind::kCopyCalls:
                return copy_calls(peer_, link_, order);
            case Order::Kind::kCopyTrips:
                return word_trips(order, nullptr);
            case Order::Kind::kStoreTrips:
                if (!theirs_) map_theirs();
                return word_trips(order, theirs_->data() + kWire / 2);
            case Order::Kind::kSpacings:
                return message_spacings(peer_, link_, order);
            case Order::Kind::kCopySpacings:
                return copy_spacings(peer_, link_, order);
            default:
                return alone(order);
        }
    }

  private:
    static constexpr size_t kWire = 2 * kLongest;  // one half for each direction

    // Memory of the kind that can be shared.
    void map_theirs() {
        std::array<char, 64> mine = {};
        wire_.path().copy(mine.data(), mine.size() - 1);
        theirs_.emplace(peer_.exchange(mine).data(), kWire);
    }

    // Carries out an order of the process that measures; the other process only waits.
    Samples alone(const Order& order) {
        if (peer_.measures() && order.kind != Order::Kind::kStream && !ground_)
            ground_.emplace(Memory::Kind::kPrivate, kLongest);
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
            case Order::Kind::kPinnings:
                return timed(order.count, 1,
                             [&] { device_.register_memory(ground_->data(), order.size); });
            case Order::Kind::kRegistrations: {
                std::vector<tern::verbs::MemoryRegion> kept;  // deregistration is not timed
                kept.reserve(order.count);
                return timed(order.count, 1, [&] {
                    kept.push_back(device_.register_memory(ground_->data(), order.size));
                });
            }
            case Order::Kind::kPosts: {
                Samples samples =
                    timed(order.count, 1, [&] { link_.post(IBV_WR_RDMA_WRITE, 0, order.size); });
                link_.reap_until(0);
                return samples;
            }
            default:
                throw Failure("not an order for verbs");
        }
    }
    Samples word_trips(const Order& order, char* there) {
        word_at(link_.in()).store(link_.sequence, std::memory_order_relaxed);
        return trips(peer_, link_, order, PlainWords{peer_, link_, there});
    }
    // Writes with few completions, as in perftest's bandwidth tests: the time of one message of a
    // burst, which ends when all its requests are done.
    Samples bursts(const Order& order) {
        return timed(order.count / order.per_sample, order.per_sample, [&] {
            for (uint64_t i = 1; i <= order.per_sample; ++i) {
                link_.post(IBV_WR_RDMA_WRITE, place_of(i, order.size, order.places(), link_.half()),
                           order.size, i == order.per_sample);
                if (order.reaps) link_.reap();
            }
            link_.reap_until(0);
        });
    }

    Peer& peer_;
    Device device_;
    Memory wire_;
    Link link_;
    std::optional<Memory> theirs_;  // the peer's wire_, if it is shared
    std::optional<Memory> ground_;
};

}  // namespace

std::unique_ptr<Port> open_verbs_port(Peer& peer, const WorkerJob& job) {
    return open<VerbsPort>(peer, job);
}

}  // namespace bench
