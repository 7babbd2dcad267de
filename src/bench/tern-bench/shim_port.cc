// SPDX-License-Identifier: BSD-3-Clause
// Messages of MPI, and puts with signals of MPI and OpenSHMEM, by a library that was compiled when
// the benchmark began (shim.h).
#include <dlfcn.h>

#include <cstring>
#include <exception>

#include "bench/measure/machine.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/exchange.h"
#include "bench/tern-bench/shim.h"

namespace bench {
namespace {

// Open MPI loads components that need its own symbols. The library stays until the process ends.
const tern_bench_calls& load(const char* path) {
    void* const library = ::dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw Failure(::dlerror());
    const void* const shim = ::dlsym(library, "tern_bench_shim");
    if (shim == nullptr) throw Failure(::dlerror());
    return *static_cast<const tern_bench_calls*>(shim);
}

// One half of the memory for what goes, the other for what comes; behind them the signal's word.
class ShimPort : public Port {
  public:
    ShimPort(Peer& peer, Memory::Kind kind, const char* path)
        : peer_(peer),
          shim_(load(path)),
          own_(kind, kSize),
          memory_(shim_.open(own_.data(), kSize)) {
        // The other process may need this one's progress to finish what it has begun.
        meet_in_progress(peer, *this);
    }
    ~ShimPort() override {
        // The other process may be gone.
        if (std::uncaught_exceptions() == 0) shim_.close();
    }

    Samples run(const Order& order) override {
        signals_ = order.request == Order::Request::kSignal || shim_.send == nullptr;
        marks_ = order.kind != Order::Kind::kStream;
        places_ = order.places();
        const Samples samples =
            order.kind == Order::Kind::kMessages    ? ping_pong(peer_, *this, order)
            : order.kind == Order::Kind::kExchanges ? both_ways(peer_, *this, order)
            : signals_                              ? stream(peer_, *this, order)
                                                    : many(order);
        if (wrong_ != 0) throw Failure("messages came out of order or were damaged");
        return samples;
    }

    void progress() { shim_.progress(); }

    void send(uint32_t size) {
        const size_t place = place_of(sent_, size, places_, kLongest);
        if (marks_) mark(memory_ + place, size, sent_);
        ++sent_;
        if (signals_) {
            shim_.put_signal(kLongest + place, memory_ + place, size, kWordAt, sent_);
        } else {
            shim_.send(memory_ + place, size);
        }
    }
    void receive(uint32_t size) {
        char* const into = memory_ + kLongest + place_of(taken_, size, places_, kLongest);
        if (signals_) {
            shim_.wait_signal(kWordAt, taken_ + 1);
        } else {
            shim_.receive(into, size);
        }
        take(into, size);
    }
    void exchange(uint32_t size) {
        if (signals_) {
            send(size);
            return receive(size);
        }
        char* const from = memory_ + place_of(sent_, size, places_, kLongest);
        char* const into = memory_ + kLongest + place_of(taken_, size, places_, kLongest);
        mark(from, size, sent_++);
        shim_.exchange(from, into, size);
        take(into, size);
    }

  private:
    static constexpr size_t kWordAt = 2 * kLongest;
    static constexpr size_t kSize = kWordAt + 4096;

    void take(const char* message, uint32_t size) {
        if (marks_ && !is_marked(message, size, taken_)) ++wrong_;
        ++taken_;
    }
    // stream(), with many messages under way.
    Samples many(const Order& order) {
        const size_t places = std::min<uint64_t>(order.places(), kLongest / order.size);
        meet_in_progress(peer_, *this);
        Samples samples;
        for (uint64_t burst = 0; burst < order.count / order.per_sample; ++burst) {
            if (peer_.measures()) {
                const uint64_t begin = now_ns();
                shim_.send_many(memory_, order.size, places, order.per_sample);
                shim_.receive(memory_ + kLongest, kWord);
                samples.push_back(us_since(begin) / static_cast<double>(order.per_sample));
            } else {
                shim_.receive_many(memory_ + kLongest, order.size, places, order.per_sample);
                shim_.send(memory_, kWord);
            }
        }
        return samples;
    }

    Peer& peer_;
    const tern_bench_calls& shim_;
    Memory own_;
    char* const memory_;
    bool signals_ = false;
    uint32_t places_ = 0;
    bool marks_ = false;
    uint64_t sent_ = 0;
    uint64_t taken_ = 0;
    uint64_t wrong_ = 0;
};

}  // namespace

// `what` is the kind of memory and the path of the library.
std::unique_ptr<Port> open_shim_port(Peer& peer, const WorkerJob& job) {
    const char* const space = std::strchr(job.what, ' ');
    if (space == nullptr) throw Failure("no library is named");
    const bool shared =
        std::strncmp(job.what, "shared", static_cast<size_t>(space - job.what)) == 0;
    return std::make_unique<ShimPort>(peer, shared ? Memory::Kind::kShared : Memory::Kind::kPrivate,
                                      space + 1);
}

}  // namespace bench
