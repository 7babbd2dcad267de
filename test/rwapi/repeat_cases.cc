// SPDX-License-Identifier: BSD-3-Clause

// Notified writes that repeat the notification of earlier ones: over Tern, each is one write with
// immediate data.

#include "job.h"

namespace job {
namespace {

// Slots and signals, of short, copied and registered data; now and then another message,
// a jump of the value, or a burst.
void repeats() {
    struct Memory {
        uint64_t sum;
        std::byte data[3][4096];
    };
    constexpr size_t kLengths[] = {8, 1000, 4096};
    constexpr uint64_t kRounds = 400;
    const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
    alignas(8) static Memory mine, source;
    rwapi_net own, local;
    const auto regions = share(&mine, sizeof mine, RWAPI_ALL, &own);
    CHECK_OK(rwapi_register(nullptr, &source, sizeof source, 0, &local));
    barrier();
    uint64_t value = 0, sum = 0;
    for (uint64_t round = 1; round <= kRounds; ++round) {
        value += round % 50 == 0 ? 10000 : 1 + round % 3;
        for (size_t i = 0; i < 3; ++i) {
            const size_t length = kLengths[i];
            fill(source.data[i], length, value + at(rank()) + i);
            CHECK_OK(rwapi_put_notify(nullptr, regions[at(next)],
                                      offsetof(Memory, data[0]) + 4096 * i, source.data[i], length,
                                      static_cast<uint32_t>(i), value, nullptr));
        }
        // A burst, of more than a peer allows at a time.
        const uint64_t burst = round % 20 == 0 ? 40 : 1;
        for (uint64_t i = 0; i < burst; ++i)
            CHECK_OK(rwapi_put_signal(nullptr, regions[at(next)], offsetof(Memory, data[0]),
                                      source.data[0], 8, 0, 2, RWAPI_SIGNAL_ADD, nullptr));
        sum += 2 * burst;
        if (round % 10 == 0) send(next, {51, static_cast<uint32_t>(round), 0});
        for (uint32_t i = 0; i < 3; ++i) {
            uint64_t got = 0;
            CHECK_OK(rwapi_notify_wait(nullptr, i, &got, kLimit));
            CHECK_EQ(got, value);
            CHECK_EQ(rwapi_notify_reset(nullptr, i, nullptr), 1);
            CHECK(matches(mine.data[i], kLengths[i], value + at(before) + i));
        }
        CHECK_OK(rwapi_signal_wait(nullptr, &mine.sum, sum, kLimit));
        if (round % 10 == 0) CHECK_EQ(receive(before, 51).number, static_cast<uint32_t>(round));
        flush(next);
        barrier();
    }
    CHECK_EQ(mine.sum, sum);
    barrier();
}

// The owner has deregistered the memory in this context, and has it registered in another one, so
// that its device accepts the writes. The notifications are refused, and the writer is told.
void stale_repeats() {
    if (size() == 1) return;
    alignas(8) static std::byte memory[4096];
    const Context other({});
    rwapi_net own, others_own;
    const auto regions = share(memory, sizeof memory, RWAPI_ALL, &own);
    share(memory, sizeof memory, RWAPI_ALL, &others_own, other.get());
    const int next = (rank() + 1) % size();
    const uint64_t data = 1;
    const auto notify = [&](uint64_t value) {
        return rwapi_put_notify(nullptr, regions[at(next)], 0, &data, sizeof data, 5, value,
                                nullptr);
    };
    for (uint64_t value = 1; value <= 10; ++value) {
        CHECK_OK(notify(value));
        CHECK_OK(rwapi_notify_wait(nullptr, 5, nullptr, kLimit));
        CHECK_EQ(rwapi_notify_reset(nullptr, 5, nullptr), 1);
        barrier();
    }
    CHECK_OK(rwapi_deregister(nullptr, own));
    barrier();
    CHECK_OK(notify(11));
    int error;
    while ((error = flushed(next)) == 0) CHECK(rwapi_progress(nullptr) >= 0);
    CHECK_EQ(error, RWAPI_ERR_STALE);
    barrier();
    CHECK_EQ(is_set(nullptr, 5, nullptr), 0);
    CHECK_EQ(notify(12), RWAPI_ERR_STALE);
    CHECK_OK(rwapi_peer_status(nullptr, next));
    barrier();
}

}  // namespace

const std::vector<Case> repeat_cases = {{"repeats", repeats}, {"stale-repeats", stale_repeats}};

}  // namespace job
