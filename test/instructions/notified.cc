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
INSTRUCTIONS_SAMPLE(carry)
INSTRUCTIONS_SAMPLE(take_carried)
INSTRUCTIONS_SAMPLE(set)
INSTRUCTIONS_SAMPLE(set_apart)
INSTRUCTIONS_SAMPLE(set_1k)
INSTRUCTIONS_SAMPLE(set_4k)
INSTRUCTIONS_SAMPLE(carry_1k)
INSTRUCTIONS_SAMPLE(write)
INSTRUCTIONS_SAMPLE(write_1k)
INSTRUCTIONS_SAMPLE(take_1)
INSTRUCTIONS_SAMPLE(take_carried_1)
INSTRUCTIONS_SAMPLE(take_signal_1)
INSTRUCTIONS_SAMPLE(progress)
INSTRUCTIONS_SAMPLE(look)

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

}  // namespace

void notified() {
    StartUp start_up;
    std::array<StartUp::Rank, 2> ranks{{{&start_up, 0}, {&start_up, 1}}};
    const std::array<rwapi_bootstrap, 2> tables{start_up.table(ranks[0]), start_up.table(ranks[1])};
    std::array<rwapi_context*, 2> contexts{};
    on_both([&](unsigned rank) {
        rwapi_params params = {};
        params.size = sizeof params;
        params.bootstrap = &tables[rank];
        check(rwapi_context_create(&params, &contexts[rank]), "rwapi_context_create");
    });
    rwapi_context* const origin = contexts[0];
    rwapi_context* const target = contexts[1];

    alignas(64) static std::array<uint64_t, 512> from;
    alignas(64) static std::array<uint64_t, 520> to;
    rwapi_net local, plain, carrying, polled;
    check(rwapi_register(origin, from.data(), sizeof from, 0, &local), "rwapi_register");
    const auto share = [&](rwapi_net& net, int rights) {
        check(rwapi_register(target, to.data(), sizeof to, rights, &net), "rwapi_register");
    };
    share(plain, RWAPI_ALL);
    share(carrying, RWAPI_ALL | RWAPI_CARRY);
    share(polled, RWAPI_ALL | RWAPI_POLLED);

    uint64_t sent = 0, taken = 0;
    const Step write = [&] {
        check(rwapi_put_notify(origin, plain, 0, from.data(), sizeof from[0], 0, ++sent, nullptr),
              "rwapi_put_notify");
    };
    const auto carry_bytes = [&](size_t length) {
        check(rwapi_put_notify(origin, carrying, 0, from.data(), length, 0, ++sent, nullptr),
              "rwapi_put_notify");
    };
    const Step carry = [&] { carry_bytes(sizeof from[0]); };
    const auto write_long = [&](size_t length) {
        check(rwapi_put_notify(origin, plain, 0, from.data(), length, 0, ++sent, nullptr),
              "rwapi_put_notify");
    };
    uint64_t signals = 0;
    const Step signal = [&] {
        check(rwapi_put_signal(origin, plain, 0, from.data(), sizeof from[0], kSignal, 1,
                               RWAPI_SIGNAL_ADD, nullptr),
              "rwapi_put_signal");
        ++signals;
    };
    const Step progress = [&] { check(rwapi_progress(target), "rwapi_progress"); };
    const auto set = [&](uint64_t length, uint64_t word) {
        check(rwapi_put_signal(origin, polled, 0, from.data(), length, word, 1, RWAPI_SIGNAL_SET,
                               nullptr),
              "rwapi_put_signal");
    };
    const auto plain_write = [&](size_t length) {
        check(static_cast<int>(rwapi_context_write(origin, 1, local, plain, length)),
              "rwapi_context_write");
    };
    const Step take = [&] {
        check(rwapi_progress(target), "rwapi_progress");
        const int count = rwapi_notify_reset(target, 0, nullptr);
        check(count, "rwapi_notify_reset");
        taken += static_cast<unsigned>(count);
    };
    const Step both = [&] {
        check(rwapi_progress(origin), "rwapi_progress");
        take();
    };
    // With one notification more, so that the samples begin at all places of the peer's chunk.
    const Step settle = [&] {
        write();
        until([&] { return taken == sent; }, both, "a notification");
        for (int i = 0; i < 100; ++i) both();
    };
    carry();  // fetches the keys
    set(8, 8);
    for (unsigned i = 0; i < kWarmUp; ++i) {
        write();
        until([&] { return taken == sent; }, both, "a notification");
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
        sample_carry(kWrites, carry);
        sample_take_carried(1, take);
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
        sample_carry_1k(kFewWrites, [&] { carry_bytes(1000); });
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
        settle();
        carry();
        sample_take_carried_1(1, take);
        require(taken == sent, "a poll that takes the notification");
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
    settle();

    for (const rwapi_net& net : {plain, carrying, polled})
        check(rwapi_deregister(target, net), "rwapi_deregister");
    check(rwapi_deregister(origin, local), "rwapi_deregister");
    on_both([&](unsigned rank) {
        check(rwapi_context_destroy(contexts[rank]), "rwapi_context_destroy");
    });
}

}  // namespace instructions
