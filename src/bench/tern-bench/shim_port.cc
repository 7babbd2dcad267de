// SPDX-License-Identifier: BSD-3-Clause
// Messages, all-to-alls, puts and gets of MPI, and puts with signals of MPI and OpenSHMEM, by a
// library that was compiled when the benchmark began (shim.h).
#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <optional>

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

// The buffers of one order, mapped for it alone: one for each operation, or one for all of them.
class OwnBuffers {
  public:
    OwnBuffers(uint64_t buffers, uint64_t size)
        : stride_(buffers == 1 ? 0 : stride_of(size)),
          memory_(Memory::Kind::kPrivate, std::max(size, buffers * stride_)) {}

    char* at(uint64_t number) { return memory_.data() + number * stride_; }

  private:
    const uint64_t stride_;
    Memory memory_;
};

// Messages have their places in the memory that the other process may put into, or buffers of their
// own.
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
        signals_ = order.request == Order::Request::kSignal || shim_.send == nullptr;
        numbers_.begin(order, order.kind != Order::Kind::kStream);
        Samples samples =
            order.buffers == Buffers::kOne ? carry_out(order) : carry_out_in_own_buffers(order);
        numbers_.check();
        return samples;
    }
    std::string library() const override {
        char text[128];
        shim_.name(text, sizeof text);
        return text;
    }

    void progress() { shim_.progress(); }

    void send(uint32_t size) {
        char* const from = outgoing();
        numbers_.give(from, size);
        if (!signals_) return shim_.send(from, size);
        const auto place = static_cast<size_t>(from - memory_);
        shim_.put_signal(kLongest + place, from, size, kSignalAt, numbers_.sent);
    }
    void receive(uint32_t size) {
        char* const into = incoming();
        if (signals_) {
            shim_.wait_signal(kSignalAt, numbers_.taken + 1);
        } else {
            shim_.receive(into, size);
        }
        numbers_.take(into, size);
    }
    void exchange(uint32_t size) {
        if (signals_) {
            send(size);
            return receive(size);
        }
        char* const from = outgoing();
        char* const into = incoming();
        give_parts(from, size);
        (all_to_all_ ? shim_.all_to_all : shim_.exchange)(from, into, size);
        take_parts(into, size);
    }

    // For window_times().
    static size_t half() { return kLongest; }
    void begin(uint64_t offset, uint32_t size, bool) {
        if (reads_) {
            shim_.get(offset, in_->at(windows_) + offset, size);
        } else {
            shim_.put(kLongest + offset, out_->at(windows_) + offset, size);
        }
    }
    void flush() {
        shim_.flush();
        ++windows_;
    }

  private:
    char* outgoing() {
        if (out_) return out_->at(numbers_.sent - first_);
        return memory_ + numbers_.outgoing(size_);
    }
    char* incoming() {
        if (in_) return in_->at(numbers_.taken - first_);
        return memory_ + numbers_.incoming(size_);
    }
    // All messages of a buffer have one number.
    void give_parts(char* messages, uint32_t size) {
        for (uint32_t part = 1; part < parts_; ++part)
            mark(messages + part * size, size, numbers_.sent);
        numbers_.give(messages, size);
    }
    void take_parts(const char* messages, uint32_t size) {
        for (uint32_t part = 1; part < parts_; ++part)
            numbers_.wrong += !is_marked(messages + part * size, size, numbers_.taken);
        numbers_.take(messages, size);
    }

    Samples carry_out(const Order& order) {
        size_ = order.size;
        if (order.kind == Order::Kind::kStream && !signals_) return many(order);
        return run_messages(peer_, *this, order);
    }
    // stream(), with many messages under way.
    Samples many(const Order& order) {
        const size_t places =
            out_ ? parts_ : std::min<uint64_t>(order.places(), kLongest / order.size);
        meet_in_progress(peer_, *this);
        Samples samples;
        for (uint64_t burst = 0; burst < order.count / order.per_sample; ++burst) {
            if (peer_.measures()) {
                char* const from = out_ ? outgoing() : memory_;
                if (out_) give_parts(from, order.size);
                const uint64_t begin = now_ns();
                shim_.many(from, nullptr, order.size, places, order.per_sample);
                shim_.receive(memory_ + kLongest, kWord);
                samples.push_back(us_since(begin) / static_cast<double>(order.per_sample));
            } else {
                char* const into = in_ ? incoming() : memory_ + kLongest;
                shim_.many(nullptr, into, order.size, places, order.per_sample);
                shim_.send(memory_, kWord);
                if (in_) take_parts(into, order.size);
            }
        }
        return samples;
    }

    // Messages of whole words in buffers of their own. Every byte is checked.
    Samples carry_out_in_own_buffers(const Order& order) {
        const bool windows = order.kind == Order::Kind::kOneSided;
        all_to_all_ = order.kind == Order::Kind::kAllToAll;
        reads_ = order.request == Order::Request::kRead;
        parts_ =
            windows ? static_cast<uint32_t>(std::min<uint64_t>(order.window, kLongest / order.size))
            : order.kind == Order::Kind::kStream ? static_cast<uint32_t>(order.per_sample)
                                                 : (all_to_all_ ? 2 : 1);
        numbers_.marks = true;
        first_ = numbers_.sent = numbers_.taken = std::max(numbers_.sent, numbers_.taken);
        windows_ = 0;
        const uint64_t buffers = order.buffers == Buffers::kFresh ? order.warm_up + order.count : 1;
        out_.emplace(buffers, parts_ * order.size);
        in_.emplace(buffers, parts_ * order.size);
        for (uint64_t i = 0; i < buffers; ++i) paint_parts(out_->at(i), order.size);
        Order first = order;
        first.count = order.warm_up;
        first.per_sample = 1;
        Samples samples;
        if (windows) {
            samples = one_sided(order);
        } else {
            if (order.kind != Order::Kind::kStream) carry_out(first);
            samples = carry_out(order);
            const bool receives = order.kind != Order::Kind::kStream || !peer_.measures();
            const uint64_t used = std::min(buffers, numbers_.taken - first_);
            for (uint64_t i = 0; receives && i < used; ++i) check(in_->at(i), order, i);
        }
        out_.reset();
        in_.reset();
        parts_ = 1;
        if (all_to_all_) {
            // run_messages() has half of the time.
            for (double& sample : samples) sample *= 2;
        }
        all_to_all_ = false;
        return samples;
    }
    void paint_parts(char* messages, uint32_t size) const {
        for (uint32_t part = 0; part < parts_; ++part) paint(messages + part * size, size);
    }
    void check(const char* messages, const Order& order, uint64_t number) const {
        for (uint32_t part = 0; part < parts_; ++part) {
            const char* const message = messages + part * order.size;
            const uint32_t at =
                find_damage(message, order.size, order.kind != Order::Kind::kOneSided);
            if (at == order.size) continue;
            unsigned long long found;
            std::memcpy(&found, message + at, sizeof found);
            throw Failure(formatted("message %llu is wrong: byte %u begins %#llx",
                                    static_cast<unsigned long long>(number), at, found));
        }
    }
    // Only the worker that measures moves bytes; the other one is the target.
    Samples one_sided(const Order& order) {
        const uint32_t size = order.size;
        char* const target = memory_ + (reads_ ? 0 : kLongest);
        if (!peer_.measures()) {
            std::memset(target, 0, size_t{parts_} * size);
            if (reads_) paint_parts(target, size);
        }
        meet_in_progress(peer_, *this);
        Samples samples;
        if (peer_.measures()) samples = window_times(*this, order);
        meet_in_progress(peer_, *this);
        if (peer_.measures() != reads_) return samples;
        // What was put, or was got into all buffers that were used.
        const uint64_t used = reads_ && order.buffers == Buffers::kFresh ? windows_ : 1;
        for (uint64_t i = 0; i < used; ++i) check(reads_ ? in_->at(i) : target, order, i);
        return samples;
    }

    Peer& peer_;
    const tern_bench_calls& shim_;
    Memory own_;
    char* const memory_;
    std::optional<OwnBuffers> out_;
    std::optional<OwnBuffers> in_;
    bool signals_ = false;
    bool all_to_all_ = false;
    bool reads_ = false;
    uint32_t size_ = 0;
    uint32_t parts_ = 1;    // messages of a buffer
    uint64_t first_ = 0;    // the number of the order's first message
    uint64_t windows_ = 0;  // of the order, done
    Numbers numbers_;
};

}  // namespace

// `what` is the path of the library.
const PortKind kShimPort = {"shim", open<ShimPort>};

}  // namespace bench
