// SPDX-License-Identifier: BSD-3-Clause

// Notified writes whose target makes no progress, words that the device sets (RWAPI_POLLED), and
// bursts of both.

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "job.h"

namespace job {
namespace {

constexpr size_t kBytes = 1 << 14;

// Every kind of notification, with short and long data.
void kinds() {
    alignas(8) static std::byte memory[kBytes];
    std::vector<std::byte> source(kBytes);
    rwapi_net own;
    const auto regions = share(memory, kBytes, RWAPI_ALL, &own);
    const int next = (rank() + 1) % size();
    const rwapi_net to = regions[at(next)];
    barrier();
    uint64_t round = 0;
    for (const size_t length : {0, 1, 7, 8, 9, 100, 500, 990, 1100, 4000, 4096, 4097, 9001}) {
        ++round;
        for (uint64_t kind = 0; kind < 2; ++kind) {
            const uint64_t place = 64 + kind + round;
            fill(source.data(), length, 3 * round + kind);
            rwapi_id id = 0;
            if (kind == 0)
                CHECK_OK(
                    rwapi_put_notify(nullptr, to, place, source.data(), length, 5, round, &id));
            if (kind == 1)
                CHECK_OK(rwapi_put_signal(nullptr, to, place, source.data(), length, 8, 1,
                                          RWAPI_SIGNAL_ADD, &id));
            if (kind == 0) {
                uint64_t value = 0;
                CHECK_OK(rwapi_notify_wait(nullptr, 5, &value, kLimit));
                CHECK_EQ(value, round);
                CHECK_EQ(rwapi_notify_reset(nullptr, 5, &value), 1);
            }
            if (kind == 1)
                CHECK_OK(rwapi_signal_wait(nullptr, reinterpret_cast<uint64_t*>(memory + 8), round,
                                           kLimit));
            CHECK(matches(memory + place, length, 3 * round + kind));
            wait(id);
            flush(next);
            barrier();
        }
    }
}

// The words by which two processes tell each other how far they are, without progress.
struct Words {
    std::vector<uint64_t> mine;
    rwapi_net own;
    std::vector<rwapi_net> of;

    Words() : mine(8), of(share(mine.data(), 64, RWAPI_ALL, &own)) {}
    void set(int node, uint64_t value) {
        CHECK_OK(rwapi_put(nullptr, of[at(node)], 0, &value, sizeof value, nullptr));
    }
    bool is(uint64_t value) const { return rwapi_signal_read(mine.data()) >= value; }
    // This process tells `node`, and makes no progress until that one has answered.
    void stand_still(int node) {
        set(node, 1);
        while (!is(1)) usleep(10);
    }
    void wait_for_stillness() const {
        while (!is(1)) CHECK(rwapi_progress(nullptr) >= 0);
    }
};

// A notified write needs no progress of the target: a flush of it ends, and the data are there.
// Programs rely on it that wait for each other by other means than rwapi.
void flush_alone() {
    if (size() == 1) return;
    alignas(8) static std::byte memory[kBytes];
    rwapi_net own;
    const auto regions = share(memory, kBytes, RWAPI_ALL, &own);
    Words words;
    const uint64_t value = 0x1111;
    if (rank() == 0) {
        words.wait_for_stillness();
        for (const size_t length : {8, 2000})
            for (uint32_t slot = 0; slot < 3; ++slot) {
                const std::vector<uint64_t> source(length / 8, value);
                CHECK_OK(rwapi_put_notify(nullptr, regions[1], 0, source.data(), length, slot, 1,
                                          nullptr));
                flush(1);
            }
        words.set(1, 1);
    } else if (rank() == 1) {
        words.stand_still(0);
        uint64_t seen[2];
        std::memcpy(&seen[0], memory, 8);
        std::memcpy(&seen[1], memory + 1992, 8);
        for (const uint64_t each : seen) CHECK_EQ(each, value);
        for (uint32_t slot = 0; slot < 3; ++slot)
            CHECK_OK(rwapi_notify_wait(nullptr, slot, nullptr, kLimit));
    }
    barrier();
}

// A program that calls nothing but puts fills the send queue. They make progress then, so what is
// behind it goes, too. put(last): begins one, the last of which ends with the target's last word.
void fill_send_queue(uint64_t puts, const std::function<int(bool last, rwapi_id* id)>& put,
                     const uint64_t& last_word) {
    Words words;
    if (rank() == 0) {
        words.wait_for_stillness();
        for (uint64_t i = 0; i < puts; ++i) {
            if (i > puts / 2) usleep(100);
            rwapi_id id = 0;
            CHECK_OK(put(i + 1 == puts, &id));
        }
        while (!words.is(2)) usleep(10);  // no progress here, either
        flush(1);
        words.set(1, 1);
    } else if (rank() == 1) {
        words.set(0, 1);
        const auto patience = time(nullptr) + kLimit / 1'000'000;
        while (rwapi_signal_read(&last_word) != 7) CHECK(time(nullptr) < patience);
        words.set(0, 2);
        while (!words.is(1)) CHECK(rwapi_progress(nullptr) >= 0);
    }
    barrier();
}

void puts_alone() {
    if (size() == 1) return;
    static uint64_t memory[512], source[512];
    std::ranges::fill(source, 7);
    rwapi_net own, local;
    const auto regions = share(memory, sizeof memory, RWAPI_ALL, &own);
    CHECK_OK(rwapi_register(nullptr, source, sizeof source, 0, &local));
    const auto most = [](bool last) { return last ? sizeof source : 4000; };
    const auto refill = [&](uint64_t puts, const std::function<int(bool, rwapi_id*)>& put) {
        fill_send_queue(puts, put, memory[511]);
        memory[511] = 0;
        barrier();
    };
    refill(800, [&](bool last, rwapi_id* id) {
        return rwapi_put(nullptr, regions[1], 0, source, most(last), id);
    });
    refill(400, [&](bool last, rwapi_id* id) {
        const rwapi_element elements[] = {{regions[1], 0, source, 4000},
                                          {regions[1], 0, source, most(last)}};
        return rwapi_put_list(nullptr, elements, 2, id);
    });
    refill(800, [&](bool last, rwapi_id* id) {
        const rwapi_blocks blocks{most(last) / 2 - 8, 2, most(last) / 2 + 8, 8};
        return rwapi_put_strided(nullptr, regions[1], 0, source, &blocks, id);
    });
    CHECK_OK(rwapi_deregister(nullptr, local));
}

// Signals that the device itself writes: the target sees data and word without any call.
void polled() {
    struct Memory {
        uint64_t data[1024], word, other;
    };
    alignas(8) static Memory memory;
    rwapi_net own;
    const auto regions = share(&memory, sizeof memory, RWAPI_ALL | RWAPI_POLLED, &own);
    const int next = (rank() + 1) % size();
    const auto to = regions[at(next)];
    std::vector<uint64_t> plain(1024), registered(1024);
    rwapi_net local;
    CHECK_OK(rwapi_register(nullptr, registered.data(), 8 * registered.size(), 0, &local));
    barrier();
    uint64_t round = 0;
    // Directly before the word, elsewhere, and without data; short and long, and in registered
    // memory; twice, as the peer is new at first.
    for (const size_t count : {1, 0, 1, 2, 30, 100, 1000, 1, 1, 1, 100, 500, 1024, 1}) {
        for (const bool adjacent : {true, false, true, false}) {
            ++round;
            std::vector<uint64_t>& source = round % 4 < 2 ? plain : registered;
            for (size_t i = 0; i < count; ++i) source[i] = 10000 * round + i;
            const size_t begin = adjacent ? 1024 - count : std::min<size_t>(3, 1024 - count);
            CHECK_OK(rwapi_put_signal(nullptr, to, 8 * begin, source.data(), 8 * count,
                                      offsetof(Memory, word), round, RWAPI_SIGNAL_SET, nullptr));
            // What waits behind others is sent only by calls; the target needs none.
            flush(next);
            const auto patience = time(nullptr) + kLimit / 1'000'000;
            while (rwapi_signal_read(&memory.word) < round) CHECK(time(nullptr) < patience);
            CHECK_EQ(rwapi_signal_read(&memory.word), round);
            for (size_t i = 0; i < count; ++i) CHECK_EQ(memory.data[begin + i], source[i]);
            barrier();
        }
    }
    CHECK_OK(rwapi_put_signal(nullptr, to, 0, nullptr, 0, offsetof(Memory, other), 5,
                              RWAPI_SIGNAL_ADD, nullptr));
    CHECK_OK(rwapi_signal_wait(nullptr, &memory.other, 5, kLimit));
    CHECK_EQ(rwapi_put_signal(nullptr, to, 0, nullptr, 0, 4, 5, RWAPI_SIGNAL_SET, nullptr),
             RWAPI_ERR_INVALID);
    flush(next);
    CHECK_OK(rwapi_deregister(nullptr, local));
    barrier();
}

// Long ones, one behind the other into places of a ring, as fast as the target empties them.
void polled_stream() {
    constexpr uint64_t kPlaces = 8, kWrites = 500;
    struct Place {
        uint64_t data[1023], word;
    };
    alignas(8) static Place ring[kPlaces], source[kPlaces];
    rwapi_net own, local;
    const auto regions = share(ring, sizeof ring, RWAPI_ALL | RWAPI_POLLED, &own);
    CHECK_OK(rwapi_register(nullptr, source, sizeof source, 0, &local));
    const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
    barrier();
    for (uint64_t i = 1; i <= kWrites; ++i) {
        Place& from = source[i % kPlaces];
        // The rest of a place, up to its word.
        const size_t begin = i % 5 * 200;
        for (size_t at = begin; at < 1023; ++at) from.data[at] = 1000 * i + at;
        rwapi_id id = 0;
        CHECK_OK(rwapi_put_signal(
            nullptr, regions[at(next)], sizeof(Place) * (i % kPlaces) + 8 * begin,
            &from.data[begin], 8 * (1023 - begin),
            sizeof(Place) * (i % kPlaces) + offsetof(Place, word), i, RWAPI_SIGNAL_SET, &id));
        const Place& to = ring[i % kPlaces];
        CHECK_OK(rwapi_signal_wait(nullptr, &to.word, i, kLimit));
        for (size_t at = begin; at < 1023; ++at) CHECK_EQ(to.data[at], 1000 * i + at);
        // The one before may write this place again.
        if (i % kPlaces == 0) {
            send(before, {static_cast<uint32_t>(i), 0, 0});
            receive(next, static_cast<uint32_t>(i));
        }
    }
    flush(next);
    CHECK_OK(rwapi_deregister(nullptr, local));
    barrier();
}

// Many, faster than the target looks, some of which wait for room: the last value stays.
void polled_burst() {
    alignas(8) static uint64_t words[2];
    rwapi_net own;
    const auto regions = share(words, sizeof words, RWAPI_ALL | RWAPI_POLLED, &own);
    const int next = (rank() + 1) % size();
    constexpr uint64_t kLast = 20000;
    std::vector<uint64_t> source(kLast + 1);  // some are read later than in the call
    for (uint64_t i = 0; i <= kLast; ++i) source[i] = i;
    for (uint64_t i = 1; i <= kLast; ++i) {
        CHECK_OK(rwapi_put_signal(nullptr, regions[at(next)], 0, &source[i], 8, 8, i,
                                  RWAPI_SIGNAL_SET, nullptr));
        const uint64_t word = rwapi_signal_read(&words[1]);
        CHECK(rwapi_signal_read(&words[0]) >= word);
    }
    flush(next);
    CHECK_OK(rwapi_signal_wait(nullptr, &words[1], kLast, kLimit));
    CHECK_EQ(words[0], kLast);
    barrier();
    CHECK_EQ(rwapi_signal_read(&words[1]), kLast);
}

// Bursts, which the next process answers with one write each.
void bursts() {
    constexpr uint64_t kPlaces = 64, kBurst = 2000;
    alignas(8) static uint64_t memory[2 * kPlaces];
    rwapi_net own;
    // The first writes wait for the keys.
    CHECK_OK(rwapi_register(nullptr, memory, sizeof memory, RWAPI_ALL | RWAPI_POLLED, &own));
    const auto regions = exchange(own);
    const int peer = rank() ^ 1;
    if (peer >= size()) return barrier();
    const std::vector<uint64_t> source(1, 7);
    uint64_t sent = 0, came = 0;
    const auto send_one = [&](bool polled) {
        const uint64_t place = 16 * (sent++ % kPlaces);
        CHECK_OK(polled ? rwapi_put_signal(nullptr, regions[at(peer)], place, source.data(), 8,
                                           place + 8, sent, RWAPI_SIGNAL_SET, nullptr)
                        : rwapi_put_notify(nullptr, regions[at(peer)], place, source.data(), 8, 9,
                                           sent, nullptr));
    };
    const auto receive_to = [&](uint64_t number, bool polled) {
        const auto patience = time(nullptr) + kLimit / 1'000'000;
        while (came < number) {
            CHECK(rwapi_progress(nullptr) >= 0);
            if (polled)
                came = std::max(came, rwapi_signal_read(&memory[2 * ((number - 1) % kPlaces) + 1]));
            else
                came += static_cast<uint64_t>(rwapi_notify_reset(nullptr, 9, nullptr));
            CHECK(time(nullptr) < patience);
        }
    };
    uint64_t expected = 0;
    for (const bool polled : {false, true, false, true}) {
        for (int burst = 0; burst < 3; ++burst) {
            if (rank() < peer) {
                for (uint64_t i = 0; i < kBurst; ++i) send_one(polled);
                receive_to(++expected, polled);
            } else {
                for (uint64_t i = 0; i < kBurst; ++i) receive_to(++expected, polled);
                send_one(polled);
            }
        }
        flush(peer);
    }
    barrier();
}

}  // namespace

const std::vector<Case> polled_cases = {
    {"kinds", kinds},   {"flush-alone", flush_alone},   {"puts-alone", puts_alone},
    {"polled", polled}, {"polled-burst", polled_burst}, {"polled-stream", polled_stream},
    {"bursts", bursts}};

}  // namespace job
