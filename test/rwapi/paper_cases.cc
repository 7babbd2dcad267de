// SPDX-License-Identifier: BSD-3-Clause

// The paper's ten calls, and plain puts and gets.

#include <fstream>

#include "job.h"

namespace job {
namespace {

// Each process writes to the next one and to the one behind that; sizes around all limits.
void writes() {
    constexpr size_t kBytes = 1 << 20, kGuard = 64;
    const Shared from = allocate(kBytes);
    const Shared to = allocate(2 * (kBytes + kGuard));
    for (const size_t length :
         {size_t{1}, size_t{8}, size_t{63}, size_t{64}, size_t{65}, size_t{128}, size_t{129},
          size_t{4096}, size_t{8256}, size_t{8257}, size_t{65536}, kBytes}) {
        fill(from.memory, length, static_cast<uint64_t>(rank()) + length);
        std::memset(to.memory, 0xee, 2 * (kBytes + kGuard));
        barrier();
        std::vector<rwapi_id> ids;
        for (int step : {1, 2}) {
            const int node = (rank() + step) % size();
            const size_t place = static_cast<size_t>(step - 1) * (kBytes + kGuard);
            ids.push_back(rwapi_write(node, from.nets[static_cast<size_t>(rank())],
                                      rwapi_net_add(to.nets[static_cast<size_t>(node)], place),
                                      length));
            CHECK(ids.back() >= 0);
        }
        // In any order: each id is exact.
        for (size_t i = ids.size(); i-- > 0;) {
            int sent;
            while ((sent = rwapi_issent(ids[i])) == 0) {
            }
            CHECK_EQ(sent, 1);
        }
        for (int step : {1, 2}) flush((rank() + step) % size());
        barrier();
        for (int step : {1, 2}) {
            const int writer = (rank() + size() * 2 - step) % size();
            const std::byte* got = to.memory + static_cast<size_t>(step - 1) * (kBytes + kGuard);
            CHECK(matches(got, length, static_cast<uint64_t>(writer) + length));
            for (size_t i = length; i < length + kGuard; ++i) CHECK(got[i] == std::byte{0xee});
        }
        barrier();
    }
    CHECK_OK(rwapi_free(from.memory));
    CHECK_EQ(rwapi_free(from.memory), RWAPI_ERR_INVALID);
}

// Memory of rwapi_alloc is private to the process, and asks for huge pages if it is long.
void allocated() {
    rwapi_net net;
    for (const size_t length : {size_t{4096}, size_t{4} << 20}) {
        void* const memory = rwapi_alloc(length, &net);
        CHECK(memory != nullptr);
        std::ifstream maps("/proc/self/smaps");
        bool here = false;
        std::string line, access, flags;
        while (flags.empty() && std::getline(maps, line)) {
            unsigned long begin, end;
            char rights[5];
            const auto place = reinterpret_cast<unsigned long>(memory);
            if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) == 3) {
                here = begin <= place && place < end;
                if (here) access = rights;
            } else if (here && line.starts_with("VmFlags:")) {
                flags = line;
            }
        }
        CHECK(access == "rw-p");
        if (!flags.empty()) CHECK_EQ(flags.find(" hg") != std::string::npos, length > 4096);
        CHECK_OK(rwapi_free(memory));
    }
}

// Puts and gets, from and into memory that is registered, and that is not.
void puts_and_gets() {
    constexpr size_t kBytes = 300'000;
    std::vector<std::byte> mine(kBytes), registered(kBytes), plain(kBytes);
    rwapi_net own, local;
    const auto regions = share(mine.data(), kBytes, RWAPI_ALL, &own);
    CHECK_OK(rwapi_register(nullptr, registered.data(), kBytes, 0, &local));
    const int next = (rank() + 1) % size();
    const rwapi_net region = regions[static_cast<size_t>(next)];
    CHECK_EQ(rwapi_net_node(region), next);
    uint64_t round = 0;
    for (const size_t length : {size_t{1}, size_t{17}, size_t{64}, size_t{65}, size_t{200},
                                size_t{8256}, size_t{8300}, size_t{100'000}, kBytes - 5}) {
        for (std::vector<std::byte>* buffer : {&registered, &plain}) {
            ++round;
            fill(buffer->data(), length, round);
            rwapi_id id;
            CHECK_OK(rwapi_put(nullptr, region, 5, buffer->data(), length, &id));
            wait(id);
            // The buffer may be reused, and what follows a flush finds the data.
            std::memset(buffer->data(), 0, length);
            flush(next);
            CHECK_OK(rwapi_get(nullptr, region, 5, buffer->data(), length, &id));
            wait(id);
            CHECK(matches(buffer->data(), length, round));
        }
    }
    rwapi_id ids[2];
    CHECK_OK(rwapi_get(nullptr, region, 5, registered.data(), 100'000, &ids[0]));
    CHECK_OK(rwapi_get(nullptr, region, 5, plain.data(), 100'000, &ids[1]));
    size_t index = 9;
    CHECK_OK(rwapi_wait_any(nullptr, ids, 2, &index, kLimit));
    CHECK(index < 2);
    wait(ids[1 - index]);
    CHECK(matches(plain.data(), 100'000, round));
    rwapi_id all;
    CHECK_OK(rwapi_flush_all(nullptr, &all));
    wait(all);
    barrier();
    CHECK_OK(rwapi_deregister(nullptr, local));
}

// A receiver that does not look loses nothing, and the sender is told when to stop.
void small_messages() {
    constexpr uint32_t kMessages = 2000, kType = 77;
    std::vector<std::byte> memory(64);
    rwapi_net own;
    const auto regions = share(memory.data(), memory.size(), RWAPI_ALL, &own);
    barrier();
    if (rank() == 0) {
        // Each of the others says that it was told to stop.
        for (uint32_t slot = 1; slot < static_cast<uint32_t>(size()); ++slot)
            CHECK_OK(rwapi_notify_wait(nullptr, slot, nullptr, kLimit));
        std::vector<uint32_t> next(static_cast<size_t>(size()));
        for (uint32_t i = 0; i < kMessages * static_cast<uint32_t>(size() - 1);) {
            int node = kAny;
            Small message;
            if (!try_receive(kType, &node, &message)) continue;
            CHECK_EQ(message.number, next[static_cast<size_t>(node)]++);
            CHECK_EQ(message.word, message.number * 3 + static_cast<uint64_t>(node));
            ++i;
        }
    } else {
        uint32_t sent = 0, refused = 0;
        while (sent < kMessages) {
            const Small message{kType, sent, sent * 3 + static_cast<uint64_t>(rank())};
            rwapi_small small;
            std::memcpy(&small, &message, sizeof small);
            const int error = rwapi_send(0, &small);
            if (error == 0) {
                ++sent;
                continue;
            }
            CHECK_EQ(error, RWAPI_ERR_AGAIN);
            if (refused++ == 0)
                CHECK_OK(rwapi_put_notify(nullptr, regions[0], 0, nullptr, 0,
                                          static_cast<uint32_t>(rank()), 1, nullptr));
            CHECK(rwapi_progress(nullptr) >= 0);
        }
        CHECK(refused > 0);
    }
    barrier();
    // To oneself, the same.
    rwapi_small small{};
    int error, count = 0;
    while ((error = rwapi_send(rank(), &small)) == 0) CHECK(++count <= 64);
    CHECK_EQ(error, RWAPI_ERR_AGAIN);
    CHECK_EQ(count, 64);
    int node;
    while (rwapi_receive(&node, &small) == 1) --count;
    CHECK_EQ(count, 0);
    // Others wait, asleep: rank 0 receives all.
    const Context waits({.credit = 2, .wait = RWAPI_WAIT_SLEEP});
    constexpr uint32_t kEach = 200;
    if (rank() == 0) {
        for (uint32_t i = 0; i < kEach * static_cast<uint32_t>(size() - 1); ++i)
            receive(kAny, kType, waits.get());
    } else {
        const Small message{kType, 0, 0};
        std::memcpy(&small, &message, sizeof small);
        for (uint32_t i = 0; i < kEach; ++i) CHECK_OK(rwapi_context_send(waits.get(), 0, &small));
    }
    barrier();
}

// More operations than there are places wait for room.
void full_queue() {
    std::vector<uint64_t> words(4096), sources(4096);
    rwapi_net own;
    const auto regions = share(words.data(), words.size() * 8, RWAPI_ALL, &own);
    const auto next = static_cast<size_t>((rank() + 1) % size());
    std::vector<rwapi_id> ids;
    for (size_t i = 0; i < words.size(); ++i) {
        sources[i] = i + 1;
        rwapi_id id;
        CHECK_OK(rwapi_put(nullptr, regions[next], i * 8, &sources[i], 8, &id));
        ids.push_back(id);
    }
    for (const rwapi_id id : ids) wait(id);
    flush(static_cast<int>(next));
    barrier();
    for (size_t i = 0; i < words.size(); ++i) CHECK_EQ(words[i], i + 1);
}

// More peers than operations: a flush of all of them takes what places there are, and several at
// once get on, too.
void flush_of_all() {
    for (const uint32_t operations : {1, 2, 3}) {
        rwapi_params params{};
        params.size = sizeof params;
        params.operations = operations;
        rwapi_context* context = nullptr;
        CHECK_OK(rwapi_context_create(&params, &context));
        const auto count = static_cast<size_t>(size());
        std::vector<uint64_t> words(count);
        uint64_t source = 0;
        rwapi_net own;
        const auto regions = share(words.data(), 8 * count, RWAPI_ALL, &own, context);
        for (uint64_t round = 1; round <= 50; ++round) {
            source = round;
            for (size_t node = 0; node < count; ++node) {
                CHECK_OK(rwapi_put(context, regions[node], 8 * static_cast<size_t>(rank()), &source,
                                   8, nullptr));
            }
            rwapi_id ids[3];
            for (rwapi_id& id : ids) CHECK_OK(rwapi_flush_all(context, &id));
            wait(ids[0], context);
            barrier();
            for (const uint64_t word : words) CHECK(word >= round);
            for (const rwapi_id id : ids) wait(id, context);
        }
        CHECK_OK(rwapi_context_destroy(context));
    }
}

// A small message comes after what was written before it: long writes, from registered memory and
// from other memory, and one that waits for its key.
void write_then_send() {
    constexpr size_t kBytes = 4 << 20;
    const auto node = static_cast<size_t>((rank() + 1) % size());
    const Shared from = allocate(kBytes), to = allocate(kBytes);
    std::vector<std::byte> plain(kBytes);
    for (uint32_t round = 1; round <= 10; ++round) {
        std::byte* const source = round % 2 == 0 ? plain.data() : from.memory;
        source[0] = source[kBytes - 1] = static_cast<std::byte>(round);
        rwapi_id id = 0;
        if (round % 2 == 0)
            CHECK_OK(rwapi_put(nullptr, to.nets[node], 0, source, kBytes, &id));
        else
            id = rwapi_write(static_cast<int>(node), from.nets[static_cast<size_t>(rank())],
                             to.nets[node], kBytes);
        CHECK(id >= 0);
        send(static_cast<int>(node), {7, round, 0});
        CHECK_EQ(receive((rank() + size() - 1) % size(), 7).number, round);
        CHECK(to.memory[0] == static_cast<std::byte>(round));
        CHECK(to.memory[kBytes - 1] == static_cast<std::byte>(round));
        wait(id);
        barrier();
    }
}

}  // namespace

const std::vector<Case> paper_cases = {{"writes", writes},
                                       {"allocated", allocated},
                                       {"write-then-send", write_then_send},
                                       {"puts-and-gets", puts_and_gets},
                                       {"small-messages", small_messages, RWAPI_FULL_AGAIN},
                                       {"full-queue", full_queue},
                                       {"flush-of-all", flush_of_all}};

}  // namespace job
