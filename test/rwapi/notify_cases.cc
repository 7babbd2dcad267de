// SPDX-License-Identifier: BSD-3-Clause

// Notifications: slots, signals, and sleeping until they come.

#include <poll.h>
#include <unistd.h>

#include "job.h"

namespace job {
namespace {

void slots() {
    constexpr size_t kBytes = 1 << 16;
    std::vector<std::byte> mine(kBytes * at(size())), source(kBytes);
    rwapi_net own;
    const auto regions = share(mine.data(), mine.size(), RWAPI_ALL, &own);
    // Each process writes to all, itself included; the slot is the writer's number.
    for (uint64_t round = 1; round <= 20; ++round) {
        const size_t length = round * 3000;
        fill(source.data(), length, round + at(rank()));
        for (int node = 0; node < size(); ++node)
            CHECK_OK(rwapi_put_notify(nullptr, regions[at(node)], kBytes * at(rank()),
                                      source.data(), length, 100 + static_cast<uint32_t>(rank()),
                                      round, nullptr));
        for (int left = size(); left > 0; --left) {
            uint32_t slot;
            CHECK_OK(
                rwapi_notify_waitsome(nullptr, 100, static_cast<uint32_t>(size()), &slot, kLimit));
            CHECK(slot >= 100 && slot < 100 + static_cast<uint32_t>(size()));
            uint64_t value = 0;
            CHECK_EQ(is_set(nullptr, slot, &value), 1);
            CHECK_EQ(value, round);
            CHECK_EQ(rwapi_notify_reset(nullptr, slot, &value), 1);
            CHECK(matches(&mine[kBytes * (slot - 100)], length, round + slot - 100));
        }
        for (int node = 0; node < size(); ++node) flush(node);
        barrier();
    }
    CHECK_EQ(is_set(nullptr, 100, nullptr), 0);
    CHECK_EQ(rwapi_notify_reset(nullptr, 100, nullptr), 0);
    uint32_t slot;
    CHECK_EQ(rwapi_notify_waitsome(nullptr, 0, 1024, &slot, 1000), RWAPI_ERR_TIMEOUT);
    CHECK_EQ(rwapi_notify_wait(nullptr, 1024, nullptr, 0), RWAPI_ERR_RANGE);
    barrier();
    // What overwrites a value is counted.
    const int next = (rank() + 1) % size();
    for (uint64_t value = 1; value <= 5; ++value)
        CHECK_OK(rwapi_put_notify(nullptr, regions[at(next)], 0, nullptr, 0, 7, value, nullptr));
    flush(next);
    barrier();
    uint64_t value = 0;
    do CHECK_OK(rwapi_notify_wait(nullptr, 7, &value, kLimit));
    while (value != 5 && rwapi_progress(nullptr) >= 0);
    CHECK_EQ(rwapi_notify_reset(nullptr, 7, &value), 5);
    CHECK_EQ(value, uint64_t{5});
}

void signals() {
    struct Memory {
        uint64_t sum, set;
        uint64_t data[16];
    };
    std::vector<Memory> mine(1);
    rwapi_net own;
    const auto regions = share(mine.data(), sizeof(Memory), RWAPI_ALL, &own);
    constexpr uint64_t kRounds = 100;
    for (uint64_t round = 1; round <= kRounds; ++round) {
        for (int node = 0; node < size(); ++node)
            CHECK_OK(rwapi_put_signal(nullptr, regions[at(node)], 16 + 8 * at(rank()), &round, 8,
                                      offsetof(Memory, sum), 1, RWAPI_SIGNAL_ADD, nullptr));
        CHECK_OK(rwapi_signal_wait(nullptr, &mine[0].sum, round * at(size()), kLimit));
        for (int node = 0; node < size(); ++node) CHECK(mine[0].data[node] >= round);
        barrier();
    }
    CHECK_EQ(rwapi_signal_read(&mine[0].sum), kRounds * at(size()));
    const int next = (rank() + 1) % size();
    CHECK_OK(rwapi_put_signal(nullptr, regions[at(next)], 0, nullptr, 0, 8, 1234, RWAPI_SIGNAL_SET,
                              nullptr));
    CHECK_OK(rwapi_signal_wait(nullptr, &mine[0].set, 1234, kLimit));
    CHECK_EQ(rwapi_signal_wait(nullptr, &mine[0].set, 1235, 1000), RWAPI_ERR_TIMEOUT);
    flush(next);
    barrier();
}

// Words are at multiples of 8 in memory, wherever the region begins.
void signal_places() {
    alignas(8) static std::byte memory[80];
    for (const size_t begin : {0, 4}) {
        rwapi_net own;
        const auto regions = share(memory + begin, 64, RWAPI_ALL, &own);
        const rwapi_net to = regions[at((rank() + 1) % size())];
        const auto signal = [&](uint64_t place) {
            const uint64_t data = 5;
            return rwapi_put_signal(nullptr, to, 16 - begin, &data, 8, place, 1, RWAPI_SIGNAL_ADD,
                                    nullptr);
        };
        std::memset(memory, 0, sizeof memory);
        barrier();
        const size_t last = 56 - begin;  // the last word
        for (unsigned i = 0; i < 50; ++i) {
            CHECK_OK(signal(8 - begin));
            CHECK_OK(signal(last));
            for (const uint64_t wrong : {9 - begin, 12 - begin, last + 1, last + 4})
                CHECK_EQ(signal(wrong), wrong + 8 <= 64 ? RWAPI_ERR_INVALID : RWAPI_ERR_RANGE);
            for (const uint64_t wrong : {last + 8, uint64_t{1} << 50, UINT64_MAX - 7})
                CHECK_EQ(signal(wrong), RWAPI_ERR_RANGE);
        }
        for (const size_t place : {size_t{8}, last + begin})
            CHECK_OK(rwapi_signal_wait(nullptr, reinterpret_cast<uint64_t*>(memory + place), 50,
                                       kLimit));
        CHECK_EQ(rwapi_signal_read(reinterpret_cast<uint64_t*>(memory + 8)), uint64_t{50});
        barrier();
        CHECK_OK(rwapi_deregister(nullptr, own));
    }
}

// Every kind of operation is the first one to its memory, of rwapi_alloc and of rwapi_register: it
// waits for the key, and what follows waits for it.
void first_operations() {
    constexpr size_t kBytes = 4096, kKinds = 4;
    constexpr uint32_t kAddress = 41;
    const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
    static std::byte plain[kBytes];
    for (size_t kind = 0; kind < 2 * kKinds; ++kind) {
        const bool allocated = kind < kKinds;
        rwapi_net mine, there;
        std::byte* memory = plain;
        if (allocated)
            memory = static_cast<std::byte*>(rwapi_alloc(kBytes, &mine));
        else
            CHECK_OK(rwapi_register(nullptr, plain, kBytes, RWAPI_ALL, &mine));
        CHECK(memory != nullptr);
        std::memset(memory, 0, 64);
        fill(memory + 64, kBytes - 64, at(rank()));
        for (uint32_t i = 0; i < 2; ++i) send(before, {kAddress, i, mine.word[i]});
        for (uint64_t& word : there.word) word = receive(next, kAddress).word;
        CHECK_EQ(rwapi_net_node(there), next);

        std::byte got[kBytes];
        const uint64_t value = 1000 + kind;
        rwapi_id id = 0;
        const auto put_first = [&](size_t what) {
            switch (what) {
                case 0:
                    return rwapi_put(nullptr, there, 8, &value, 8, &id);
                case 1:
                    return rwapi_get(nullptr, there, 64, got, kBytes - 64, &id);
                case 2:
                    return rwapi_put_signal(nullptr, there, 16, &value, 8, 24, value,
                                            RWAPI_SIGNAL_SET, &id);
                default:
                    return rwapi_put_notify(nullptr, rwapi_net_add(there, 24), 8, &value, 8, 9,
                                            value, &id);
            }
        };
        rwapi_id ids[kKinds];
        for (size_t i = 0; i < kKinds; ++i) {
            CHECK_OK(put_first((kind + i) % kKinds));
            ids[i] = id;
        }
        for (const rwapi_id each : ids) wait(each);
        flush(next);
        CHECK(matches(got, kBytes - 64, at(next)));
        barrier();
        const auto* const words = reinterpret_cast<const uint64_t*>(memory);
        CHECK_OK(rwapi_notify_wait(nullptr, 9, nullptr, kLimit));
        for (size_t i = 1; i < 5; ++i) CHECK_EQ(words[i], value);
        uint64_t noted = 0;
        CHECK_EQ(rwapi_notify_reset(nullptr, 9, &noted), 1);
        CHECK_EQ(noted, value);
        barrier();
        CHECK_OK(allocated ? rwapi_free(memory) : rwapi_deregister(nullptr, mine));
    }
}

// All processes change words of all, their own included: no addition is lost, and of those that
// swap at the same time one at a time succeeds. They also wait for all their operations at once.
void atomics() {
    constexpr size_t kWords = 4;  // a sum, a lock, what it protects, and one that nobody changes
    constexpr uint64_t kRounds = 200;
    auto shared = allocate(kWords * 8);
    auto* const words = reinterpret_cast<uint64_t*>(shared.memory);
    if (rank() == 0) words[0] = words[3] = 77;
    barrier();
    uint64_t old = 1;
    rwapi_id id = 0;
    const int error = rwapi_fetch_add(nullptr, shared.nets[0], 24, 0, &old, &id);
    if (error == RWAPI_ERR_UNSUPPORTED) {  // all have the same device
        CHECK_EQ(rwapi_compare_swap(nullptr, shared.nets[0], 0, 0, 0, nullptr, nullptr), error);
        std::puts("# the device has no atomic operations");
        return;
    }
    CHECK_OK(error);
    wait(id);
    CHECK_EQ(old, 77u);
    std::vector<uint64_t> before(kRounds);
    std::vector<rwapi_id> ids;
    for (uint64_t round = 0; round < kRounds; ++round) {
        for (const rwapi_net& net : shared.nets) {
            rwapi_id each;
            const bool first = &net == &shared.nets[0];
            CHECK_OK(rwapi_fetch_add(nullptr, net, 0, 3, first ? &before[round] : nullptr, &each));
            ids.push_back(each);
        }
    }
    CHECK_OK(rwapi_wait_all(nullptr, ids.data(), ids.size(), kLimit));
    for (uint64_t round = 1; round < kRounds; ++round)
        CHECK(before[round] >= before[round - 1] + 3);
    // The lock is free if it is 0.
    for (int turn = 0; turn < 20; ++turn) {
        do {
            CHECK_OK(rwapi_compare_swap(nullptr, rwapi_net_add(shared.nets[0], 8), 0, 0,
                                        1 + at(rank()), &old, &id));
            wait(id);
        } while (old != 0);
        uint64_t value = 0;
        CHECK_OK(rwapi_get(nullptr, shared.nets[0], 16, &value, 8, &id));
        wait(id);
        ++value;
        CHECK_OK(rwapi_put(nullptr, shared.nets[0], 16, &value, 8, &id));
        wait(id);
        flush(0);
        CHECK_OK(rwapi_compare_swap(nullptr, shared.nets[0], 8, 1 + at(rank()), 0, &old, &id));
        wait(id);
        CHECK_EQ(old, 1 + at(rank()));
    }
    barrier();
    CHECK_EQ(words[0], 3 * kRounds * at(size()) + (rank() == 0 ? 77 : 0));
    if (rank() == 0) CHECK_EQ(words[2], 20 * at(size()));
    // What is wrong.
    CHECK_OK(rwapi_wait_all(nullptr, nullptr, 0, 0));
    CHECK_EQ(rwapi_wait_all(nullptr, nullptr, 1, 0), RWAPI_ERR_INVALID);
    const rwapi_id wrong[] = {0, 12345, -7};
    CHECK_EQ(rwapi_wait_all(nullptr, wrong, 3, kLimit), RWAPI_ERR_FOREIGN);
    for (const rwapi_net& net : shared.nets) {
        CHECK_EQ(rwapi_fetch_add(nullptr, net, 8 * kWords - 7, 1, &old, &id), RWAPI_ERR_RANGE);
        CHECK_EQ(rwapi_fetch_add(nullptr, net, 4, 1, &old, &id), RWAPI_ERR_INVALID);
    }
    static uint64_t word;
    rwapi_net own;
    const auto others = share(&word, 8, RWAPI_WRITE | RWAPI_SIGNAL, &own);
    for (const rwapi_net& net : others)
        CHECK_EQ(rwapi_compare_swap(nullptr, net, 0, 0, 1, &old, &id), RWAPI_ERR_RIGHTS);
    barrier();
    CHECK_OK(rwapi_deregister(nullptr, own));
    CHECK_EQ(rwapi_fetch_add(nullptr, own, 0, 1, &old, &id), RWAPI_ERR_STALE);
}

// Sleeps until notifications come; then everything that has come is seen.
void sleep_and_wake() {
    std::vector<uint64_t> words(64);
    rwapi_net own;
    const auto regions = share(words.data(), words.size() * 8, RWAPI_ALL, &own);
    int fd;
    CHECK_OK(rwapi_event_fd(nullptr, &fd));
    const auto next = at((rank() + 1) % size());
    for (uint64_t round = 1; round <= 50; ++round) {
        if (rank() == 0)
            CHECK_OK(rwapi_put_notify(nullptr, regions[next], 0, &round, 8, 1, round, nullptr));
        int set;
        while ((set = is_set(nullptr, 1, nullptr)) == 0) {
            const int armed = rwapi_arm(nullptr);
            if (armed == RWAPI_ERR_BUSY) {
                while (rwapi_progress(nullptr) > 0) {
                }
                continue;
            }
            CHECK_OK(armed);
            pollfd entry{fd, POLLIN, 0};
            CHECK(poll(&entry, 1, static_cast<int>(kLimit / 1000)) == 1);
            while (rwapi_progress(nullptr) > 0) {
            }
        }
        CHECK_EQ(set, 1);
        CHECK_EQ(words[0], round);
        CHECK_EQ(rwapi_notify_reset(nullptr, 1, nullptr), 1);
        if (rank() != 0) {
            const uint64_t copy = round;
            rwapi_id id;
            CHECK_OK(rwapi_put_notify(nullptr, regions[next], 0, &copy, 8, 1, copy, &id));
            wait(id);
        }
    }
    barrier();
}

}  // namespace

const std::vector<Case> notify_cases = {{"slots", slots},
                                        {"signals", signals},
                                        {"signal-places", signal_places},
                                        {"first-operations", first_operations},
                                        {"atomics", atomics},
                                        {"sleep", sleep_and_wake}};

}  // namespace job
