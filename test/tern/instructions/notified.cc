// SPDX-License-Identifier: BSD-3-Clause
// Writes by rwapi, most of them notified and of 8 bytes. The job's two processes are two contexts
// of this one.
#include <rwapi.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "counted.h"

INSTRUCTIONS_SAMPLE(notify)
INSTRUCTIONS_SAMPLE(take)
INSTRUCTIONS_SAMPLE(signal)
INSTRUCTIONS_SAMPLE(take_signal)
INSTRUCTIONS_SAMPLE(notify_1k)
INSTRUCTIONS_SAMPLE(notify_4k)
INSTRUCTIONS_SAMPLE(set)
INSTRUCTIONS_SAMPLE(set_apart)
INSTRUCTIONS_SAMPLE(set_1k)
INSTRUCTIONS_SAMPLE(set_4k)
INSTRUCTIONS_SAMPLE(write)
INSTRUCTIONS_SAMPLE(write_1k)
INSTRUCTIONS_SAMPLE(take_1)
INSTRUCTIONS_SAMPLE(take_signal_1)
INSTRUCTIONS_SAMPLE(progress)
INSTRUCTIONS_SAMPLE(look)
INSTRUCTIONS_SAMPLE(repeat)
INSTRUCTIONS_SAMPLE(take_repeats)
INSTRUCTIONS_SAMPLE(repeat_1k)
INSTRUCTIONS_SAMPLE(repeat_4k)
INSTRUCTIONS_SAMPLE(take_repeat_1)

namespace instructions {
namespace {

constexpr unsigned kWarmUp = 300;
constexpr unsigned kWrites = 16;  // of a sample
// Of a sample of notifications: some 1 in 20 of them finds the peer's chunk full, which is dear.
// Few enough that most samples have none.
constexpr unsigned kFewWrites = 4;
constexpr uint64_t kSignal = 128;  // offset of the word that is added to

void check(int result, const char* what) {
    if (result < 0) fail(std::string(what) + ": " + rwapi_strerror(result));
}

// The start-up of a job of two threads.
class StartUp {
  public:
    struct Rank {
        StartUp* job;
        uint32_t rank;
    };

    rwapi_bootstrap table(Rank& rank) {
        return {&rank,
                rank.rank,
                2,
                [](void* context, const void* mine, size_t bytes, void* all) {
                    const Rank& own = *static_cast<Rank*>(context);
                    own.job->exchange(own.rank, mine, bytes, all);
                    return 0;
                },
                [](void* context) {
                    ++static_cast<Rank*>(context)->job->ends_;
                    return 0;
                },
                [](void* context) { return static_cast<Rank*>(context)->job->ends_ == 2 ? 1 : 0; }};
    }

  private:
    void exchange(uint32_t rank, const void* mine, size_t bytes, void* all) {
        parts_[rank].resize(bytes);
        std::memcpy(parts_[rank].data(), mine, bytes);
        meet();
        for (size_t i = 0; i < 2; ++i)
            std::memcpy(static_cast<char*>(all) + i * bytes, parts_[i].data(), bytes);
        meet();
    }
    void meet() {
        std::unique_lock lock(mutex_);
        const unsigned mine = ++calls_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return calls_ >= mine + mine % 2; });
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    unsigned calls_ = 0;
    std::atomic<unsigned> ends_{0};
    std::array<std::vector<char>, 2> parts_;
};

// Calls operation(0) and operation(1) at the same time.
void on_both(const std::function<void(unsigned)>& operation) {
    std::thread other([&] { operation(1); });
    operation(0);
    other.join();
}

// The two contexts, and memory of the second one with different rights.
class Job {
  public:
    Job() {
        on_both([&](unsigned rank) {
            rwapi_params params = {};
            params.size = sizeof params;
            params.bootstrap = &tables_[rank];
            check(rwapi_context_create(&params, &contexts_[rank]), "rwapi_context_create");
        });
        check(rwapi_register(origin(), from.data(), sizeof from, 0, &local), "rwapi_register");
        share(plain, RWAPI_ALL);
        share(polled, RWAPI_ALL | RWAPI_POLLED);
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    ~Job() {
        settle();
        for (const rwapi_net& net : {plain, polled})
            check(rwapi_deregister(target(), net), "rwapi_deregister");
        check(rwapi_deregister(origin(), local), "rwapi_deregister");
        on_both([&](unsigned rank) {
            check(rwapi_context_destroy(contexts_[rank]), "rwapi_context_destroy");
        });
    }

    rwapi_context* origin() const { return contexts_[0]; }
    rwapi_context* target() const { return contexts_[1]; }

    void put(const rwapi_net& to_memory, size_t length) {
        check(rwapi_put_notify(origin(), to_memory, 0, from.data(), length, 0, ++sent, nullptr),
              "rwapi_put_notify");
    }
    void take() {
        check(rwapi_progress(target()), "rwapi_progress");
        const int count = rwapi_notify_reset(target(), 0, nullptr);
        check(count, "rwapi_notify_reset");
        taken += static_cast<unsigned>(count);
    }
    void progress_both() {
        check(rwapi_progress(origin()), "rwapi_progress");
        take();
    }
    void take_all() {
        until([&] { return taken == sent; }, [&] { progress_both(); }, "a notification");
    }
    // With one notification more, so that the samples begin at all places of the peer's chunk.
    void settle() {
        put(plain, sizeof from[0]);
        take_all();
        for (int i = 0; i < 100; ++i) progress_both();
    }

    alignas(64) std::array<uint64_t, 512> from{};
    alignas(64) std::array<uint64_t, 520> to{};
    rwapi_net local = {}, plain = {}, polled = {};
    uint64_t sent = 0, taken = 0;

  private:
    void share(rwapi_net& net, int rights) {
        check(rwapi_register(target(), to.data(), sizeof to, rights, &net), "rwapi_register");
    }

    StartUp start_up_;
    std::array<StartUp::Rank, 2> ranks_{{{&start_up_, 0}, {&start_up_, 1}}};
    std::array<rwapi_bootstrap, 2> tables_{start_up_.table(ranks_[0]), start_up_.table(ranks_[1])};
    std::array<rwapi_context*, 2> contexts_{};
};

}  // namespace

void notified() {
    Job job;
    rwapi_context* const origin = job.origin();
    rwapi_context* const target = job.target();
    std::array<uint64_t, 512>& from = job.from;
    std::array<uint64_t, 520>& to = job.to;
    const Step write = [&] { job.put(job.plain, sizeof from[0]); };
    const auto write_long = [&](size_t length) { job.put(job.plain, length); };
    uint64_t signals = 0;
    const Step signal = [&] {
        check(rwapi_put_signal(origin, job.plain, 0, from.data(), sizeof from[0], kSignal, 1,
                               RWAPI_SIGNAL_ADD, nullptr),
              "rwapi_put_signal");
        ++signals;
    };
    const Step progress = [&] { check(rwapi_progress(target), "rwapi_progress"); };
    const auto set = [&](uint64_t length, uint64_t word) {
        check(rwapi_put_signal(origin, job.polled, 0, from.data(), length, word, 1,
                               RWAPI_SIGNAL_SET, nullptr),
              "rwapi_put_signal");
    };
    const auto plain_write = [&](size_t length) {
        check(rwapi_put(origin, job.plain, 0, from.data(), length, nullptr), "rwapi_put");
    };
    const Step take = [&] { job.take(); };
    const auto settle = [&] { job.settle(); };
    set(8, 8);  // fetches the key
    for (unsigned i = 0; i < kWarmUp; ++i) {
        write();
        job.take_all();
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle();
        sample_notify(kFewWrites, write);
        for (unsigned j = kFewWrites; j < kWrites; ++j) write();
        sample_take(1, take);
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle();
        sample_signal(kWrites, signal);
        sample_take_signal(1, progress);
        require(rwapi_signal_read(&to[kSignal / 8]) == signals, "a poll that takes all signals");
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle();
        sample_notify_1k(kFewWrites, [&] { write_long(1000); });
        settle();
        sample_notify_4k(kFewWrites, [&] { write_long(sizeof from); });
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle();
        sample_set(kWrites, [&] { set(8, 8); });
        settle();
        sample_set_apart(kWrites, [&] { set(8, 64); });
        settle();
        sample_set_1k(kWrites, [&] { set(1000, 1000); });
        settle();
        sample_set_4k(kWrites, [&] { set(sizeof from, sizeof from); });
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle();
        sample_write(kWrites, [&] { plain_write(sizeof from[0]); });
        settle();
        sample_write_1k(kWrites, [&] { plain_write(1000); });
    }
    // Polls that take one thing, or nothing.
    for (unsigned i = 0; i < kSamples; ++i) {
        settle();
        write();
        sample_take_1(1, take);
        require(job.taken == job.sent, "a poll that takes the notification");
        settle();
        const uint64_t before = rwapi_signal_read(&to[kSignal / 8]);
        signal();
        sample_take_signal_1(1, progress);
        require(rwapi_signal_read(&to[kSignal / 8]) == before + 1, "a poll that takes the signal");
        settle();
        sample_progress(1, progress);
        sample_look(1,
                    [&] { check(rwapi_notify_reset(target, 0, nullptr), "rwapi_notify_reset"); });
    }
}

// Notified writes that repeat earlier ones.
void repeated() {
    Job job;
    const auto put = [&](size_t length) { job.put(job.plain, length); };
    const Step write = [&] { put(sizeof job.from[0]); };
    const Step take = [&] { job.take(); };
    for (unsigned i = 0; i < kWarmUp; ++i) {
        for (const size_t length : {sizeof job.from[0], size_t{1000}, sizeof job.from}) put(length);
        job.take_all();
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        job.settle();
        sample_repeat(kFewWrites, write);
        job.settle();
        write();
        sample_take_repeat_1(1, take);
        require(job.taken == job.sent, "a poll that takes the notification");
        job.settle();
        for (unsigned j = 0; j < kWrites; ++j) write();
        sample_take_repeats(1, take);
        require(job.taken == job.sent, "a poll that takes all notifications");
        job.settle();
        sample_repeat_1k(kFewWrites, [&] { put(1000); });
        job.settle();
        sample_repeat_4k(kFewWrites, [&] { put(sizeof job.from); });
    }
}

}  // namespace instructions
