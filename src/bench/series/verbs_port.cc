// SPDX-License-Identifier: BSD-3-Clause
// The bare device, which is the limit for all transports; the parts of the cost of long messages.
#include <optional>

#include "bench/measure/exchange.h"
#include "bench/series/worker.h"

namespace bench {
namespace {

// Half round trips of numbered writes whose end the receiver polls in memory. The size is a
// multiple of 8 bytes, or less.
class Writes {
  public:
    Writes(Link& link, const Order& order) : link_(link), reaps_(order.reaps) {
        Tail(link.in(), order.size).store(link.sequence);
    }
    void progress() { link_.reap(); }
    void send(uint32_t size) {
        Tail(link_.out(), size).store(++sent_);
        link_.write(0, size);
    }
    void receive(uint32_t size) {
        const uint64_t number = ++link_.sequence;
        // The software HCA places due data when it is polled.
        wait_until(
            "a word in memory", [&] { return Tail(link_.in(), size).has(number); },
            [&] {
                if (reaps_ && link_.outstanding() != 0) link_.reap();
            });
    }

  private:
    Link& link_;
    const bool reaps_;
    uint64_t sent_ = link_.sequence;
};

class VerbsPort : public Port {
  public:
    VerbsPort(Peer& peer, const WorkerJob& job)
        : peer_(peer),
          device_(DeviceName(job.device), job.gid_index),
          wire_(job.memory, kWire),
          link_(device_, peer, wire_.data(), kWire) {}

    Samples run(const Order& order) override {
        if (order.kind != Order::Kind::kWrites) return alone(order);
        Writes end(link_, order);
        Samples samples = run_messages(peer_, end, order);
        link_.reap_until(0);
        return samples;
    }

  private:
    static constexpr size_t kWire = 2 * kLongest;  // one half for each direction

    // Carries out an order of the process that measures; the other process only waits.
    Samples alone(const Order& order) {
        if (peer_.measures() && order.kind == Order::Kind::kPinnings && !ground_)
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
            case Order::Kind::kSpacings:
                return message_spacings(link_, order);
            case Order::Kind::kPinnings:
                return timed(order.count, 1,
                             [&] { device_.register_memory(ground_->data(), order.size); });
            case Order::Kind::kPosts: {
                Samples samples = timed(order.count, 1, [&] { link_.write(0, order.size); });
                link_.reap_until(0);
                return samples;
            }
            default:
                throw Failure("not an order for verbs");
        }
    }
    // Writes with few completions, as in perftest's bandwidth tests: the time of one message of a
    // burst, which ends when all its requests are done.
    Samples bursts(const Order& order) {
        return timed(order.count / order.per_sample, order.per_sample, [&] {
            for (uint64_t i = 1; i <= order.per_sample; ++i) {
                link_.write(place_of(i, order.size, order.places(), link_.half()), order.size,
                            i == order.per_sample);
                if (order.reaps) link_.reap();
            }
            link_.reap_until(0);
        });
    }

    Peer& peer_;
    Device device_;
    Memory wire_;
    Link link_;
    std::optional<Memory> ground_;
};

}  // namespace

std::unique_ptr<Port> open_verbs_port(Peer& peer, const WorkerJob& job) {
    return open<VerbsPort>(peer, job);
}

}  // namespace bench
