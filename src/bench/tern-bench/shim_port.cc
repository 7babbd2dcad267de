// SPDX-License-Identifier: BSD-3-Clause
// Messages of MPI, and puts with signals of MPI and OpenSHMEM, by a library that was compiled when
// the benchmark began (shim.h).
#include <dlfcn.h>

#include <exception>

#include "bench/measure/exchange.h"
#include "bench/tern-bench/command.h"
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

// Messages have their places in the memory that the other process may put into.
class ShimPort : public Port {
  public:
    ShimPort(Peer& peer, const WorkerJob& job)
        : peer_(peer),
          shim_(load(job.what)),
          own_(job.memory, kBothWays),
          memory_(shim_.open(own_.data(), kBothWays)) {
        // The other process may need this one's progress to finish what it has begun.
        meet_in_progress(peer, *this);
    }
    ~ShimPort() override {
        // The other process may be gone.
        if (std::uncaught_exceptions() == 0) shim_.close();
    }

    Samples run(const Order& order) override {
        const bool streams = order.kind == Order::Kind::kStream;
        signals_ = order.request == Order::Request::kSignal || shim_.send == nullptr;
        numbers_.begin(order, !streams);
        Samples samples = streams && !signals_ ? many(order) : run_messages(peer_, *this, order);
        numbers_.check();
        return samples;
    }

    void progress() { shim_.progress(); }

    void send(uint32_t size) {
        const size_t place = numbers_.outgoing(size);
        char* const from = memory_ + place;
        numbers_.give(from, size);
        if (signals_)
            shim_.put_signal(kLongest + place, from, size, kSignalAt, numbers_.sent);
        else
            shim_.send(from, size);
    }
    void receive(uint32_t size) {
        char* const into = memory_ + numbers_.incoming(size);
        if (signals_)
            shim_.wait_signal(kSignalAt, numbers_.taken + 1);
        else
            shim_.receive(into, size);
        numbers_.take(into, size);
    }

  private:
    // stream(), with many messages under way.
    Samples many(const Order& order) {
        const size_t places = std::min<uint64_t>(order.places(), kLongest / order.size);
        meet_in_progress(peer_, *this);
        Samples samples;
        for (uint64_t burst = 0; burst < order.count / order.per_sample; ++burst) {
            if (peer_.measures()) {
                const uint64_t begin = now_ns();
                shim_.many(memory_, nullptr, order.size, places, order.per_sample);
                shim_.receive(memory_ + kLongest, kWord);
                samples.push_back(us_since(begin) / static_cast<double>(order.per_sample));
            } else {
                shim_.many(nullptr, memory_ + kLongest, order.size, places, order.per_sample);
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
    Numbers numbers_;
};

}  // namespace

// `what` is the path of the library.
const PortKind kShimPort = {"shim", open<ShimPort>};

}  // namespace bench
