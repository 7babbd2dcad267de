// SPDX-License-Identifier: BSD-3-Clause

// Puts and gets of many pieces.

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "job.h"

namespace {

std::atomic<unsigned> registrations;

}  // namespace

// In the place of UCX's function, which it calls: librwapi's registrations are counted.
extern "C" __attribute__((visibility("default"))) int uct_md_mem_reg(void* domain, void* address,
                                                                     size_t length, unsigned flags,
                                                                     void** registered) {
    using Function = decltype(&uct_md_mem_reg);
    static const auto of_ucx = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "uct_md_mem_reg"));
    ++registrations;
    return of_ucx(domain, address, length, flags, registered);
}

namespace job {
namespace {

constexpr size_t kBytes = 1 << 17;
constexpr std::byte kUntouched{0xcc};

// Two memories of each process, whose keys have not come, and a source of which one half is
// registered.
struct Memories {
    std::vector<std::byte> memory[2], source;
    rwapi_net own[2], local;
    std::vector<rwapi_net> nets[2];
    rwapi_context* const context;

    explicit Memories(rwapi_context* of = nullptr) : source(kBytes), context(of) {
        for (size_t i = 0; i < 2; ++i) {
            memory[i].assign(kBytes, kUntouched);
            CHECK_OK(rwapi_register(context, memory[i].data(), kBytes, RWAPI_ALL, &own[i]));
            nets[i] = exchange(own[i], context);
        }
        CHECK_OK(rwapi_register(context, source.data(), kBytes / 2, 0, &local));
        fill(source.data(), kBytes, 1 + at(rank()));
    }
    bool untouched() const {
        return std::ranges::all_of(memory, [](const auto& each) {
            return std::ranges::all_of(each, [](std::byte byte) { return byte == kUntouched; });
        });
    }
    rwapi_element element(int node, size_t which, uint64_t offset, size_t from,
                          size_t length) const {
        return {nets[which][at(node)], offset, &source[from], length};
    }
};

// What a process writes in a round: the target computes the same.
struct Plan {
    struct Part {
        size_t which, offset, from, length;
    };
    std::vector<Part> parts;
    rwapi_blocks blocks{};
    bool strided = false;

    Plan(uint64_t seed, bool is_strided) : strided(is_strided) {
        Random random(seed);
        static constexpr size_t kLengths[] = {0, 1, 8, 30, 200, 1100, 5000, 9000, 20000};
        const auto length = [&] { return kLengths[random.below(std::size(kLengths))]; };
        if (strided) {
            blocks.length = 1 + length();
            blocks.count = 1 + random.below(std::min<size_t>(40, kBytes / blocks.length - 1));
            const size_t room = kBytes / blocks.count;
            blocks.stride = blocks.length + random.below(room - blocks.length + 1);
            blocks.local_stride = random.below(room + 1);
            for (size_t i = 0; i < blocks.count; ++i)
                parts.push_back({1, i * blocks.stride, i * blocks.local_stride, blocks.length});
            const Part& last = parts.back();
            if (last.from + last.length > kBytes) {
                blocks.local_stride = 0;
                for (Part& part : parts) part.from = 0;
            }
        } else {
            size_t end[2] = {};
            for (size_t left = 2 + random.below(12); left > 0; --left) {
                Part part{left == 1 ? 1 : random.below(2), 0, 0, length()};
                part.offset = end[part.which] + random.below(100);
                part.from = random.below(kBytes - part.length);
                if (part.offset + part.length > kBytes) part.offset = part.length = 0;
                end[part.which] = std::max(end[part.which], part.offset + part.length);
                parts.push_back(part);
            }
        }
    }

    int put(const Memories& memories, int node, uint64_t value, rwapi_id* id) const {
        std::vector<rwapi_element> elements;
        for (const Part& part : parts)
            elements.push_back(
                memories.element(node, part.which, part.offset, part.from, part.length));
        const int error = strided ? rwapi_put_strided(nullptr, memories.nets[1][at(node)], 0,
                                                      memories.source.data(), &blocks, id)
                                  : rwapi_put_list(nullptr, elements.data(), elements.size(), id);
        elements.clear();  // it is read in the call only
        if (error != 0) return error;
        return rwapi_put_notify(nullptr, memories.nets[1][at(node)], 0, nullptr, 0, 3, value,
                                nullptr);
    }

    // Reads the same back to where it came from, in memory like the source.
    int get(const Memories& memories, int node, std::byte* to, rwapi_id* id) const {
        std::vector<rwapi_element> elements;
        for (const Part& part : parts)
            elements.push_back(
                {memories.nets[part.which][at(node)], part.offset, to + part.from, part.length});
        return strided ? rwapi_get_strided(nullptr, memories.nets[1][at(node)], 0, to, &blocks, id)
                       : rwapi_get_list(nullptr, elements.data(), elements.size(), id);
    }
    bool came_back(const Memories& memories, const std::byte* got) const {
        std::vector<std::byte> expected(kBytes, kUntouched);
        for (const Part& part : parts)
            std::copy_n(&memories.source[part.from], part.length, &expected[part.from]);
        return std::equal(expected.begin(), expected.end(), got);
    }

    // Nothing else has changed.
    bool arrived(const Memories& memories, const std::byte* source) const {
        std::vector<std::byte> expected[2];
        for (auto& each : expected) each.assign(kBytes, kUntouched);
        for (const Part& part : parts)
            std::copy_n(&source[part.from], part.length, &expected[part.which][part.offset]);
        return expected[0] == memories.memory[0] && expected[1] == memories.memory[1];
    }
};

// Lists and blocks to the next process, and to this one itself.
void lists() {
    Memories memories;
    const uint64_t common = common_seed();
    barrier();
    constexpr uint64_t kRounds = 60;
    std::vector<std::byte> source(kBytes), got(kBytes);
    rwapi_net local;
    CHECK_OK(rwapi_register(nullptr, got.data(), kBytes / 2, 0, &local));
    for (uint64_t round = 1; round <= kRounds; ++round) {
        const int step = round % 10 != 0;
        const int to = (rank() + step) % size(), from = (rank() + size() - step) % size();
        const bool strided = round % 3 == 0;
        rwapi_id id = 0;
        const Plan going(common + 100 * round + at(rank()), strided);
        CHECK_OK(going.put(memories, to, round, round % 4 == 0 ? nullptr : &id));
        const Plan coming(common + 100 * round + at(from), strided);
        uint64_t value = 0;
        CHECK_OK(rwapi_notify_wait(nullptr, 3, &value, kLimit));
        CHECK_EQ(value, round);
        CHECK_EQ(rwapi_notify_reset(nullptr, 3, nullptr), 1);
        fill(source.data(), kBytes, 1 + at(from));
        CHECK(coming.arrived(memories, source.data()));
        wait(id);
        flush(to);
        std::ranges::fill(got, kUntouched);
        if (strided && going.blocks.count > 1 && going.blocks.local_stride < going.blocks.length) {
            CHECK_EQ(going.get(memories, to, got.data(), &id), RWAPI_ERR_INVALID);
        } else {
            CHECK_OK(going.get(memories, to, got.data(), &id));
            wait(id);
            CHECK(going.came_back(memories, got.data()));
        }
        barrier();
        for (auto& each : memories.memory) std::ranges::fill(each, kUntouched);
        barrier();
    }
}

// One wrong element, whether it is known at the call or only when its key has come: nothing is
// written.
void wrong_lists() {
    Memories memories;
    const int next = (rank() + 1) % size();
    rwapi_net limited[2];
    std::vector<std::byte> constant(kBytes);
    CHECK_OK(rwapi_register(nullptr, constant.data(), kBytes, RWAPI_READ, &limited[0]));
    const auto constants = exchange(limited[0]);
    CHECK_OK(rwapi_register(nullptr, constant.data(), kBytes, RWAPI_WRITE, &limited[1]));
    const auto write_onlys = exchange(limited[1]);
    const auto outcome = [](int error, rwapi_id id) {
        return error != 0 ? error : rwapi_wait(nullptr, id, kLimit);
    };
    const auto put = [&](std::vector<rwapi_element> elements) {
        rwapi_id id = 0;
        const int error = rwapi_put_list(nullptr, elements.data(), elements.size(), &id);
        return outcome(error, id);
    };
    const auto strided = [&](int node, rwapi_blocks blocks, uint64_t offset = 0) {
        rwapi_id id = 0;
        const int error = rwapi_put_strided(nullptr, memories.nets[0][at(node)], offset,
                                            memories.source.data(), &blocks, &id);
        return outcome(error, id);
    };
    // First without keys, then with them, then to this process itself.
    for (const int node : {next, next, rank()}) {
        const auto good = [&](size_t i) {
            return memories.element(node, i % 2, 1000 * i, 10 * i, 100);
        };
        const rwapi_element bad{constants[at(node)], 0, memories.source.data(), 8};
        CHECK_EQ(put({good(0), good(1), bad}), RWAPI_ERR_RIGHTS);
        CHECK_EQ(put({good(0), bad, good(2)}), RWAPI_ERR_RIGHTS);
        CHECK_EQ(put({good(0), memories.element(node, 1, kBytes - 7, 0, 8)}), RWAPI_ERR_RANGE);
        CHECK_EQ(put({good(0), memories.element(node, 1, UINT64_MAX, 0, 8), good(1)}),
                 RWAPI_ERR_RANGE);
        CHECK_EQ(put({good(0), {memories.nets[0][at(node)], 0, nullptr, 1}}), RWAPI_ERR_INVALID);
        CHECK_EQ(put({good(0), {{{1, 2}}, 0, nullptr, 0}}),
                 node == 0 ? RWAPI_ERR_FOREIGN : RWAPI_ERR_NODE);
        rwapi_element forged = good(1);
        forged.net.word[1] ^= uint64_t{1} << 50;
        CHECK_EQ(put({good(0), forged, good(2)}), RWAPI_ERR_FOREIGN);
        CHECK_EQ(put(std::vector<rwapi_element>(1025, good(0))), RWAPI_ERR_RANGE);
        if (size() > 1)
            CHECK_EQ(put({good(0), memories.element((node + 1) % size(), 0, 0, 0, 8)}),
                     RWAPI_ERR_NODE);
        std::vector<std::byte> got(kBytes, kUntouched);
        const auto get = [&](rwapi_element last) {
            const rwapi_element elements[] = {{memories.nets[0][at(node)], 0, got.data(), 100},
                                              last};
            rwapi_id id = 0;
            const int error = rwapi_get_list(nullptr, elements, 2, &id);
            return outcome(error, id);
        };
        CHECK_EQ(get({write_onlys[at(node)], 0, &got[200], 8}), RWAPI_ERR_RIGHTS);
        CHECK_EQ(get({memories.nets[1][at(node)], kBytes - 7, &got[200], 8}), RWAPI_ERR_RANGE);
        CHECK_EQ(get({memories.nets[1][at(node)], 0, nullptr, 8}), RWAPI_ERR_INVALID);
        CHECK(std::ranges::all_of(got, [](std::byte byte) { return byte == kUntouched; }));
        CHECK_OK(get({constants[at(node)], 0, &got[200], 8}));
        CHECK(got[207] == std::byte{0} && got[208] == kUntouched);
        CHECK_EQ(rwapi_put_list(nullptr, nullptr, 2, nullptr), RWAPI_ERR_INVALID);
        CHECK_OK(rwapi_put_list(nullptr, nullptr, 0, nullptr));

        CHECK_EQ(strided(node, {8, kBytes / 16 + 1, 16, 8}), RWAPI_ERR_RANGE);
        CHECK_EQ(strided(node, {8, kBytes / 16, 16, 8}, 9), RWAPI_ERR_RANGE);
        CHECK_EQ(strided(node, {8, UINT64_MAX, 16, 8}), RWAPI_ERR_RANGE);
        CHECK_EQ(strided(node, {8, 3, UINT64_MAX / 2, 8}), RWAPI_ERR_RANGE);
        CHECK_EQ(strided(node, {8, 3, 8, UINT64_MAX / 2 + 1}), RWAPI_ERR_RANGE);
        CHECK_EQ(strided(node, {8, 2, 7, 8}), RWAPI_ERR_INVALID);
        CHECK_OK(strided(node, {8, 0, 0, 0}));
        CHECK_OK(strided(node, {0, 9, 0, 0}));
        CHECK_EQ(rwapi_put_strided(nullptr, memories.nets[0][at(node)], 0, memories.source.data(),
                                   nullptr, nullptr),
                 RWAPI_ERR_INVALID);
        const rwapi_blocks blocks{8, 2, 16, 8};
        CHECK_EQ(
            rwapi_put_strided(nullptr, memories.nets[0][at(node)], 0, nullptr, &blocks, nullptr),
            RWAPI_ERR_INVALID);
    }
    flush(next);
    barrier();
    CHECK(memories.untouched());
    CHECK_OK(rwapi_peer_status(nullptr, next));
    // Memory that is gone.
    CHECK_OK(rwapi_deregister(nullptr, memories.own[1]));
    barrier();
    const rwapi_element gone = memories.element(rank(), 1, 0, 0, 8);
    CHECK_EQ(put({memories.element(rank(), 0, 0, 0, 8), gone}), RWAPI_ERR_STALE);
    CHECK(memories.untouched());
}

// With room for few elements: a list is taken or refused as a whole, and can be sent later.
void full_lists() {
    const Context context({.operations = 4, .full = RWAPI_FULL_AGAIN});
    Memories memories(context.get());
    const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
    const auto put = [&](size_t n, size_t place, rwapi_id* id) {
        std::vector<rwapi_element> elements;
        for (size_t i = 0; i < n; ++i)
            elements.push_back(memories.element(next, i % 2, place + 1000 * i, place, 500));
        return rwapi_put_list(context.get(), elements.data(), n, id);
    };
    rwapi_id id = 0;
    CHECK_EQ(put(5, 0, &id), RWAPI_ERR_RANGE);
    const rwapi_blocks blocks{10, 5, 20, 10};
    const auto put_blocks = [&](size_t place) {
        return rwapi_put_strided(context.get(), memories.nets[0][at(next)], place,
                                 memories.source.data(), &blocks, nullptr);
    };
    // In turns: the others are in no call of this context meanwhile, so that no keys come.
    barrier();
    for (int turn = 0; turn < size(); ++turn) {
        if (turn == rank()) {
            CHECK_OK(put(3, 0, &id));  // waits for the keys
            CHECK(id > 0 || size() == 1);
            if (size() > 1) {
                CHECK_EQ(put(2, 10'000, nullptr), RWAPI_ERR_AGAIN);
                CHECK_OK(put_blocks(20'000));
                CHECK_EQ(put_blocks(30'000), RWAPI_ERR_AGAIN);
            }
        }
        barrier();
    }
    if (size() > 1) wait(id, context.get());
    std::vector<std::byte> expected[2];
    for (auto& each : expected) each.assign(kBytes, kUntouched);
    std::vector<std::byte> source(kBytes);
    fill(source.data(), kBytes, 1 + at(before));
    const auto expect = [&](size_t n, size_t place) {
        for (size_t i = 0; i < n; ++i)
            std::copy_n(&source[place], 500, &expected[i % 2][place + 1000 * i]);
    };
    expect(3, 0);
    for (size_t i = 0; size() > 1 && i < 5; ++i)
        std::copy_n(&source[10 * i], 10, &expected[0][20'000 + 20 * i]);
    for (const size_t place : {40'000, 50'000, 60'000}) {
        int error;
        while ((error = put(4, place, nullptr)) == RWAPI_ERR_AGAIN)
            CHECK(rwapi_progress(context.get()) >= 0);
        CHECK_OK(error);
        expect(4, place);
    }
    int error;
    while ((error = rwapi_flush(context.get(), next, &id)) == RWAPI_ERR_AGAIN)
        CHECK(rwapi_progress(context.get()) >= 0);
    CHECK_OK(error);
    wait(id, context.get());
    CHECK_OK(rwapi_barrier(context.get()));
    CHECK(expected[0] == memories.memory[0] && expected[1] == memories.memory[1]);
    CHECK_OK(rwapi_barrier(context.get()));
}

// A list that finds no place for its operation registers nothing, however often it is begun; when
// there is one, each long element is registered once.
void lists_register_once() {
    if (size() == 1) return;
    constexpr size_t kLong = 20'000;
    const Context context({.operations = 4, .full = RWAPI_FULL_AGAIN});
    Memories memories(context.get());
    const int next = (rank() + 1) % size();
    const auto put = [&] {
        const size_t apart = kBytes / 2;  // is not registered
        const rwapi_element elements[] = {memories.element(next, 0, 0, apart, kLong),
                                          memories.element(next, 1, 0, apart + kLong, kLong)};
        return rwapi_put_list(context.get(), elements, 2, nullptr);
    };
    barrier();
    // The next process is in no call of this context meanwhile, so that no key comes.
    for (int turn = 0; turn < size(); ++turn) {
        if (turn == rank()) {
            for (uint64_t i = 0; i < 4; ++i)
                CHECK_OK(rwapi_put(context.get(), memories.nets[0][at(next)], 50'000 + 8 * i,
                                   memories.source.data(), 8, nullptr));
            const unsigned before = registrations;
            for (int i = 0; i < 20; ++i) {
                CHECK_EQ(put(), RWAPI_ERR_AGAIN);
                CHECK(rwapi_progress(context.get()) >= 0);
            }
            CHECK_EQ(registrations, before);
        }
        barrier();
    }
    const unsigned before = registrations;
    int error;
    while ((error = put()) == RWAPI_ERR_AGAIN) CHECK(rwapi_progress(context.get()) >= 0);
    CHECK_OK(error);
    CHECK_EQ(registrations, before + 2);
    rwapi_id id = 0;
    while ((error = rwapi_flush(context.get(), next, &id)) == RWAPI_ERR_AGAIN)
        CHECK(rwapi_progress(context.get()) >= 0);
    CHECK_OK(error);
    wait(id, context.get());
    CHECK_OK(rwapi_barrier(context.get()));
}

// The last process dies amid lists and reads. They end with its error, and what they held is free
// for the others.
void killed_lists() {
    const Context context({.operations = 64});
    Memories memories(context.get());
    const int victim = size() - 1;
    barrier();
    if (rank() == victim) {
        for (int i = 0; i < 200; ++i) rwapi_progress(context.get());
        kill(getpid(), SIGKILL);
    }
    const auto put = [&](int node, size_t n, rwapi_id* id) {
        std::vector<rwapi_element> elements;
        for (size_t i = 0; i < n; ++i)
            elements.push_back(memories.element(node, i % 2, 1500 * i, 100 * i, i % 3 * 700));
        return rwapi_put_list(context.get(), elements.data(), n, id);
    };
    const rwapi_blocks blocks{3000, 30, 4000, 3001};
    int error = 0;
    while (error == 0) {
        rwapi_id ids[3] = {};
        const auto done = [&](int begun) {
            if (error == 0) error = begun;
        };
        done(put(victim, 40, &ids[0]));
        done(rwapi_put_strided(context.get(), memories.nets[0][at(victim)], 0,
                               memories.source.data(), &blocks, &ids[1]));
        done(rwapi_get(context.get(), memories.nets[0][at(victim)], 0, memories.memory[1].data(),
                       5000, &ids[2]));
        if (error == 0) error = rwapi_wait_all(context.get(), ids, 3, kLimit);
        if (error == 0) error = rwapi_peer_status(context.get(), victim);
    }
    CHECK_EQ(error, RWAPI_ERR_PEER);
    CHECK_EQ(put(victim, 2, nullptr), RWAPI_ERR_PEER);
    const int next = (rank() + 1) % victim;
    for (uint64_t round = 0; round < 5; ++round) {
        rwapi_id id = 0;
        CHECK_OK(put(next, 64, &id));
        wait(id, context.get());
    }
    for (int node = 0; node < victim; ++node) send(node, {3, 0, 0}, context.get());
    for (int node = 0; node < victim; ++node) receive(node, 3, context.get());
}

}  // namespace

const std::vector<Case> list_cases = {{"lists", lists},
                                      {"wrong-lists", wrong_lists},
                                      {"full-lists", full_lists},
                                      {"lists-register-once", lists_register_once},
                                      {"killed-lists", killed_lists}};

}  // namespace job
