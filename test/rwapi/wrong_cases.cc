// SPDX-License-Identifier: BSD-3-Clause

// Wrong use: a clear error at the caller, and nothing written anywhere.

#include <sys/mman.h>

#include "job.h"

namespace job {
namespace {

constexpr size_t kBytes = 4096;

int put(rwapi_net net, uint64_t offset, size_t length) {
    static std::byte source[2 * kBytes];
    return rwapi_put(nullptr, net, offset, source, length, nullptr);
}

int signal(rwapi_net net, uint64_t place) {
    return rwapi_put_signal(nullptr, net, 0, nullptr, 0, place, 1, RWAPI_SIGNAL_SET, nullptr);
}

// Where there is no memory.
void* unmapped(size_t length) {
    void* const nothing =
        mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(nothing != MAP_FAILED);
    munmap(nothing, length);
    return nothing;
}

// Bounds, rights and addresses. The memory is in the middle of memory that must stay as it is.
void regions() {
    struct alignas(64) {
        std::byte before[kBytes], memory[kBytes], after[kBytes];
    } area;
    std::memset(&area, 0x5a, sizeof area);
    rwapi_net own, own_read, own_write;
    const auto all = share(area.memory, kBytes, RWAPI_ALL, &own);
    const auto readable = share(area.memory, kBytes, RWAPI_READ, &own_read);
    const auto writable = share(area.memory, kBytes, RWAPI_WRITE, &own_write);
    for (int step = 0; step < 2; ++step) {  // this process's own memory, then another's
        const size_t node = at((rank() + step) % size());
        const rwapi_net region = all[node];
        CHECK_EQ(put(region, 0, kBytes + 1), RWAPI_ERR_RANGE);
        CHECK_EQ(put(region, kBytes, 1), RWAPI_ERR_RANGE);
        CHECK_EQ(put(region, UINT64_MAX, 2), RWAPI_ERR_RANGE);
        CHECK_EQ(put(region, UINT64_MAX - 3, 8), RWAPI_ERR_RANGE);
        CHECK_EQ(put(region, 1, SIZE_MAX), RWAPI_ERR_RANGE);
        CHECK_EQ(put(rwapi_net_add(region, 1), kBytes - 8, 8), RWAPI_ERR_RANGE);
        CHECK_EQ(put(rwapi_net_add(region, 1), UINT64_MAX, 1), RWAPI_ERR_RANGE);
        CHECK_EQ(put(rwapi_net_add(region, SIZE_MAX), SIZE_MAX, 1), RWAPI_ERR_RANGE);
        CHECK_EQ(signal(rwapi_net_add(region, 8), kBytes - 8), RWAPI_ERR_RANGE);
        CHECK_EQ(signal(rwapi_net_add(region, 4), kBytes - 16), RWAPI_ERR_INVALID);
        CHECK_OK(put(region, kBytes, 0));
        CHECK_EQ(signal(region, kBytes - 7), RWAPI_ERR_RANGE);
        CHECK_EQ(signal(region, kBytes), RWAPI_ERR_RANGE);
        CHECK_EQ(signal(region, 4), RWAPI_ERR_INVALID);
        std::byte buffer[8];
        CHECK_EQ(rwapi_get(nullptr, region, kBytes - 7, buffer, 8, nullptr), RWAPI_ERR_RANGE);
        // Too many notifications: the target has 1024 slots.
        CHECK_EQ(rwapi_put_notify(nullptr, region, 0, buffer, 8, 1024, 1, nullptr),
                 RWAPI_ERR_RANGE);
        CHECK_EQ(rwapi_put_notify(nullptr, region, 0, buffer, 8, 1, 0, nullptr), RWAPI_ERR_INVALID);
        CHECK_EQ(rwapi_put(nullptr, region, 0, nullptr, 8, nullptr), RWAPI_ERR_INVALID);
        CHECK_EQ(put(readable[node], 0, 8), RWAPI_ERR_RIGHTS);
        CHECK_EQ(rwapi_put_notify(nullptr, readable[node], 0, nullptr, 0, 1, 1, nullptr),
                 RWAPI_ERR_RIGHTS);
        CHECK_EQ(rwapi_get(nullptr, writable[node], 0, buffer, 8, nullptr), RWAPI_ERR_RIGHTS);
        CHECK_EQ(signal(writable[node], 0), RWAPI_ERR_RIGHTS);
    }
    rwapi_net none;
    CHECK_EQ(rwapi_register(nullptr, unmapped(kBytes), kBytes, RWAPI_ALL, &none), RWAPI_ERR_MEMORY);
    // Addresses that are made up, and of memory that is given back.
    const rwapi_net peers = all[at((rank() + 1) % size())];
    CHECK_EQ(put({}, 0, 8), RWAPI_ERR_FOREIGN);
    for (const rwapi_net net : {own, peers}) {
        rwapi_net forged = net;
        forged.word[0] += 1;
        CHECK_EQ(put(forged, 0, 8), RWAPI_ERR_FOREIGN);
        for (unsigned bit = 44; bit < 64; ++bit) {
            forged = net;
            forged.word[1] ^= uint64_t{1} << bit;
            CHECK_EQ(put(forged, 0, 8), RWAPI_ERR_FOREIGN);
        }
    }
    if (size() > 1) CHECK_EQ(rwapi_deregister(nullptr, peers), RWAPI_ERR_NODE);
    barrier();
    for (const rwapi_net region : {own_read, own_write, own}) {
        CHECK_OK(rwapi_deregister(nullptr, rwapi_net_add(region, 5)));
        CHECK_EQ(put(region, 0, 8), RWAPI_ERR_STALE);
        CHECK_EQ(rwapi_deregister(nullptr, region), RWAPI_ERR_STALE);
    }
    barrier();
    for (const auto* part : {area.before, area.memory, area.after}) {
        for (size_t i = 0; i < kBytes; ++i) CHECK(part[i] == std::byte{0x5a});
    }
}

// Network addresses: of another node, made up, out of bounds, of memory that was freed.
void addresses() {
    const Shared target = allocate(kBytes);
    const Shared freed = allocate(kBytes);
    std::memset(target.memory, 0x5a, kBytes);
    CHECK_OK(rwapi_free(freed.memory));
    barrier();
    const int next = (rank() + 1) % size(), behind = (rank() + 2) % size();
    const rwapi_net here = target.nets[at(rank())], there = target.nets[at(next)];
    CHECK_EQ(rwapi_write(behind, here, there, 8), RWAPI_ERR_NODE);
    CHECK_EQ(rwapi_write(next, there, there, 8), RWAPI_ERR_NODE);
    CHECK_EQ(rwapi_write(size(), here, there, 8), RWAPI_ERR_NODE);
    CHECK_EQ(rwapi_write(-1, here, there, 8), RWAPI_ERR_NODE);
    CHECK_EQ(rwapi_write(next, freed.nets[at(rank())], there, 8), RWAPI_ERR_STALE);
    CHECK_EQ(rwapi_write(rank(), here, freed.nets[at(rank())], 8), RWAPI_ERR_STALE);
    CHECK_EQ(rwapi_write(next, here, rwapi_net{{1, 2}}, 8), RWAPI_ERR_FOREIGN);
    rwapi_net forged = there;
    forged.word[0] += 1;
    CHECK_EQ(rwapi_write(next, here, forged, 8), RWAPI_ERR_FOREIGN);
    CHECK_EQ(rwapi_write(next, rwapi_net_add(here, kBytes - 7), there, 8), RWAPI_ERR_RANGE);
    CHECK_EQ(rwapi_write(next, rwapi_net_add(here, SIZE_MAX), there, 8), RWAPI_ERR_RANGE);
    // What is wrong at the peer is known when its key has come: here, or at the operation.
    const auto outcome = [](rwapi_id id) {
        return id < 0 ? static_cast<int>(id) : rwapi_wait(nullptr, id, kLimit);
    };
    CHECK_EQ(outcome(rwapi_write(next, here, freed.nets[at(next)], 8)), RWAPI_ERR_STALE);
    for (int twice = 0; twice < 2; ++twice) {
        CHECK_EQ(outcome(rwapi_write(next, here, rwapi_net_add(there, kBytes - 7), 8)),
                 RWAPI_ERR_RANGE);
        CHECK_EQ(outcome(rwapi_write(next, here, rwapi_net_add(there, SIZE_MAX), 8)),
                 RWAPI_ERR_RANGE);
    }
    CHECK_EQ(outcome(rwapi_write(next, here, freed.nets[at(next)], 8)), RWAPI_ERR_STALE);
    // Other peers and later writes are not affected.
    CHECK_EQ(outcome(rwapi_write(next, here, there, 8)), 0);
    CHECK_OK(rwapi_peer_status(nullptr, next));
    barrier();
    CHECK(target.memory[0] == std::byte{0x5a} && target.memory[kBytes - 1] == std::byte{0x5a});
    CHECK_EQ(tested(nullptr, 12345), RWAPI_ERR_FOREIGN);
    CHECK_EQ(tested(nullptr, -7), RWAPI_ERR_INVALID);
    CHECK_EQ(tested(nullptr, 0), 1);
    CHECK_EQ(rwapi_test(nullptr, 0, nullptr), RWAPI_ERR_INVALID);
    // Ids that are left out.
    rwapi_id three[] = {RWAPI_ID_NONE, 0, 0};
    size_t index = 9;
    CHECK_OK(rwapi_wait_any(nullptr, three, 3, &index, kLimit));
    CHECK_EQ(index, 1u);
    three[index] = RWAPI_ID_NONE;
    CHECK_OK(rwapi_wait_any(nullptr, three, 3, &index, kLimit));
    CHECK_EQ(index, 2u);
    three[index] = RWAPI_ID_NONE;
    CHECK_EQ(rwapi_wait_any(nullptr, three, 3, &index, kLimit), RWAPI_ERR_INVALID);
    CHECK_OK(rwapi_wait_all(nullptr, three, 3, kLimit));
    CHECK_EQ(rwapi_peer_status(nullptr, size()), RWAPI_ERR_NODE);
    rwapi_small small{};
    CHECK_EQ(rwapi_send(size(), &small), RWAPI_ERR_NODE);
    CHECK_EQ(rwapi_send(next, nullptr), RWAPI_ERR_INVALID);
}

// What a peer's memory does not permit, before its key has come: the error is the operation's, or
// that of the next flush, and what is wrong does not stop what is right.
void unknown_rights() {
    alignas(8) static std::byte memory[kBytes], source[kBytes];
    rwapi_net own;
    const int next = (rank() + 1) % size();
    const auto flushed = [=] {
        rwapi_id id;
        CHECK_OK(rwapi_flush(nullptr, next, &id));
        return rwapi_wait(nullptr, id, kLimit);
    };
    struct Wrong {
        int rights, error;
        int (*begin)(rwapi_net net, rwapi_id* id);
    };
    const Wrong wrongs[] = {
        {RWAPI_ALL, RWAPI_ERR_RANGE,
         [](rwapi_net net, rwapi_id* id) {
             return rwapi_put(nullptr, net, kBytes - 7, source, 8, id);
         }},
        {RWAPI_ALL, RWAPI_ERR_RANGE,
         [](rwapi_net net, rwapi_id* id) {
             return rwapi_get(nullptr, net, 1, source, kBytes, id);
         }},
        {RWAPI_WRITE, RWAPI_ERR_RIGHTS,
         [](rwapi_net net, rwapi_id* id) { return rwapi_get(nullptr, net, 0, source, 8, id); }},
        {RWAPI_READ, RWAPI_ERR_RIGHTS,
         [](rwapi_net net, rwapi_id* id) { return rwapi_put(nullptr, net, 0, source, 8, id); }},
        {RWAPI_READ, RWAPI_ERR_RIGHTS,
         [](rwapi_net net, rwapi_id* id) {
             return rwapi_put_notify(nullptr, net, 0, nullptr, 0, 1, 1, id);
         }},
        {RWAPI_READ | RWAPI_WRITE, RWAPI_ERR_RIGHTS,
         [](rwapi_net net, rwapi_id* id) {
             return rwapi_put_signal(nullptr, net, 0, source, 8, 8, 1, RWAPI_SIGNAL_ADD, id);
         }},
        {RWAPI_ALL, RWAPI_ERR_INVALID,
         [](rwapi_net net, rwapi_id* id) {
             return rwapi_put_signal(nullptr, net, 0, source, 8, 12, 1, RWAPI_SIGNAL_SET, id);
         }},
        {RWAPI_ALL, RWAPI_ERR_RANGE,
         [](rwapi_net net, rwapi_id* id) {
             return rwapi_put_notify(nullptr, net, 0, source, 8, 1024, 1, id);
         }},
    };
    std::memset(source, 0x11, kBytes);
    for (const Wrong& wrong : wrongs) {
        for (const bool asked : {true, false}) {
            CHECK_OK(rwapi_register(nullptr, memory, kBytes, wrong.rights, &own));
            for (uint32_t i = 0; i < 2; ++i)
                send((rank() + size() - 1) % size(), {31, i, own.word[i]});
            rwapi_net there;
            for (uint64_t& word : there.word) word = receive(next, 31).word;
            rwapi_id id = 0;
            int error = wrong.begin(there, asked ? &id : nullptr);
            if (size() > 1) CHECK_OK(error);
            if (error == 0) error = asked ? rwapi_wait(nullptr, id, kLimit) : flushed();
            CHECK_EQ(error, wrong.error);
            CHECK_OK(flushed());
            CHECK_EQ(wrong.begin(there, nullptr), wrong.error);  // now it is known
            barrier();
            CHECK_OK(rwapi_deregister(nullptr, own));
        }
    }
    CHECK_OK(rwapi_peer_status(nullptr, next));
    CHECK_EQ(is_set(nullptr, 1, nullptr), 0);
    for (const std::byte each : memory) CHECK(each == std::byte{0});
    barrier();
}

// A key that is older than its region: notifications to it change nothing, even if they are sent.
// The sender is told by a flush, once, and by later uses of the key.
void stale_notification() {
    if (size() == 1) return;
    alignas(8) static std::byte memory[kBytes];
    std::vector<uint64_t> words(8);
    rwapi_net own, own_words;
    const auto all = share(memory, kBytes, RWAPI_ALL, &own);
    const auto words_of = share(words.data(), words.size() * 8, RWAPI_ALL, &own_words);
    const int next = (rank() + 1) % size();
    const rwapi_net peers = all[at(next)];
    CHECK_OK(rwapi_deregister(nullptr, own));
    barrier();
    CHECK_OK(signal(peers, 0));
    CHECK_OK(rwapi_put_notify(nullptr, peers, 0, nullptr, 0, 3, 1, nullptr));
    int error;
    while ((error = flushed(next)) == 0) CHECK(rwapi_progress(nullptr) >= 0);
    CHECK_EQ(error, RWAPI_ERR_STALE);
    // The second one may have an answer of its own, which is sent before what follows.
    const int before = (rank() + size() - 1) % size();
    send(next, {21, 0, 0});
    receive(before, 21);
    send(before, {22, 0, 0});
    receive(next, 22);
    flushed(next);
    CHECK_OK(flushed(next));
    CHECK_EQ(signal(peers, 0), RWAPI_ERR_STALE);
    CHECK_EQ(put(peers, 0, 8), RWAPI_ERR_STALE);
    CHECK_EQ(rwapi_get(nullptr, peers, 0, words.data(), 8, nullptr), RWAPI_ERR_STALE);
    // Nothing else is affected.
    CHECK_OK(rwapi_put_signal(nullptr, words_of[at(next)], 0, nullptr, 0, 8, 1, RWAPI_SIGNAL_SET,
                              nullptr));
    CHECK_OK(rwapi_signal_wait(nullptr, &words[1], 1, kLimit));
    CHECK_OK(flushed(next));
    barrier();
    for (const std::byte each : memory) CHECK(each == std::byte{0});
    CHECK_EQ(is_set(nullptr, 3, nullptr), 0);
    CHECK_OK(rwapi_peer_status(nullptr, next));
    barrier();
}

// Keys of network addresses that are replaced while a write with them is under way (with late
// completions) stay valid until it is complete. rwapi_order.sh counts those that are released.
void replaced_keys() {
    constexpr uint32_t kAddress = 11, kWritten = 12;
    constexpr uint64_t kRounds = 40;
    const size_t length = 1 << 16;
    const Shared from = allocate(length);
    const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
    if (size() == 1) return;
    uint64_t under_way = 0;
    for (uint64_t round = 1; round <= kRounds; ++round) {
        rwapi_net mine;
        auto* const memory = static_cast<uint64_t*>(rwapi_alloc(length, &mine));
        CHECK(memory != nullptr);
        for (uint32_t i = 0; i < 2; ++i) send(before, {kAddress, i, mine.word[i]});
        rwapi_net there;
        for (uint64_t& word : there.word) word = receive(next, kAddress).word;
        std::memcpy(from.memory + length - 8, &round, 8);
        const rwapi_id id = rwapi_write(next, from.nets[at(rank())], there, length);
        CHECK(id >= 0);
        // The data are there before the writer knows it.
        CHECK_OK(rwapi_signal_wait(nullptr, &memory[length / 8 - 1], round, kLimit));
        send(before, {kWritten, 0, 0});
        receive(next, kWritten);
        under_way += tested(nullptr, id) == 0;
        CHECK_OK(rwapi_free(memory));
    }
    std::printf("# %llu of %llu keys were in use when they were replaced\n",
                static_cast<unsigned long long>(under_way),
                static_cast<unsigned long long>(kRounds));
    flush(next);
    barrier();
}

// The first process writes data to memory that the second one has given back. The first learns of
// it, nothing is written, and the others do not notice. A new context connects the two again.
void freed_memory() {
    static std::byte memory[kBytes];
    std::vector<uint64_t> words(8);
    rwapi_net own, own_words;
    const auto all = share(memory, kBytes, RWAPI_ALL, &own);
    const auto words_of = share(words.data(), words.size() * 8, RWAPI_ALL, &own_words);
    const std::vector<std::byte> source(kBytes, std::byte{1});
    if (rank() == 1) CHECK_OK(rwapi_deregister(nullptr, own));
    barrier();
    if (rank() == 0) {
        rwapi_id id = 0;
        int error = rwapi_put_notify(nullptr, all[1], 0, source.data(), kBytes, 3, 1, &id);
        if (error == 0) error = rwapi_wait(nullptr, id, kLimit);
        if (error == 0) error = rwapi_flush(nullptr, 1, &id);
        if (error == 0) error = rwapi_wait(nullptr, id, kLimit);
        CHECK_EQ(error, RWAPI_ERR_PEER);
        while ((error = rwapi_peer_status(nullptr, 1)) == 0) CHECK(rwapi_progress(nullptr) >= 0);
        CHECK_EQ(error, RWAPI_ERR_PEER);
    }
    if (rank() == 1) {  // the connection ends for the owner, too, which learns it by a probe
        int error;
        while ((error = rwapi_peer_status(nullptr, 0)) == 0) CHECK(rwapi_progress(nullptr) >= 0);
        CHECK_EQ(error, RWAPI_ERR_PEER);
    }
    // All but the connection of the two goes on: each tells the last process.
    const int last = size() - 1;
    for (uint64_t round = 1; round <= 50; ++round) {
        rwapi_id id;
        CHECK_OK(rwapi_put_signal(nullptr, words_of[at(last)], 8 * at(rank()), &round, 8, 56, 1,
                                  RWAPI_SIGNAL_ADD, &id));
        wait(id);
    }
    flush(last);
    if (rank() == last) CHECK_OK(rwapi_signal_wait(nullptr, &words[7], 50 * at(size()), kLimit));
    send(last, {4, 0, 0});
    for (int node = 0; rank() == last && node < size(); ++node) receive(node, 4);
    for (const std::byte each : memory) CHECK(each == std::byte{0});
    CHECK_EQ(is_set(nullptr, 3, nullptr), 0);
    rwapi_context* context = nullptr;
    CHECK_OK(rwapi_context_create(nullptr, &context));
    for (int node = 0; node < size(); ++node) send(node, {5, 0, at(rank())}, context);
    for (int node = 0; node < size(); ++node) CHECK_EQ(receive(node, 5, context).word, at(node));
    CHECK_OK(rwapi_context_destroy(context));
}

// Before and after. The context goes on to be known, so that its use is an error.
void after_the_end() {
    CHECK_EQ(rwapi_init(nullptr, nullptr), RWAPI_ERR_STATE);
    rwapi_net region;
    std::byte memory[64];
    CHECK_OK(rwapi_register(nullptr, memory, sizeof memory, RWAPI_ALL, &region));
    CHECK_OK(rwapi_finalize());
    rwapi_small small{};
    rwapi_net net{};
    int node;
    CHECK_EQ(rwapi_finalize(), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_size(), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_rank(), RWAPI_ERR_STATE);
    CHECK(rwapi_alloc(64, &net) == nullptr);
    CHECK_EQ(rwapi_free(memory), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_send(0, &small), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_receive(&node, &small), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_write(0, net, net, 1), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_issent(1), RWAPI_ERR_STATE);
    CHECK_EQ(put(region, 0, 8), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_notify_wait(nullptr, 0, nullptr, -1), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_progress(nullptr), RWAPI_ERR_STATE);
}

// Addresses, handles and ids of before a finalize are nobody's after the next init, whose first
// regions have the same numbers.
void another_start() {
    std::vector<rwapi_net> past;
    rwapi_net region;
    rwapi_id id;
    static std::byte memory[64];
    const int next = (rank() + 1) % size();
    {
        const Shared first = allocate(kBytes);
        past = first.nets;
        CHECK_OK(rwapi_register(nullptr, memory, sizeof memory, RWAPI_ALL, &region));
        id = rwapi_write(next, past[at(rank())], past[at(next)], 64);
        wait(id);
        flush(next);
        barrier();
    }
    CHECK_OK(rwapi_finalize());
    CHECK_OK(rwapi_init(nullptr, nullptr));
    const Shared second = allocate(kBytes);
    rwapi_net again;
    CHECK_OK(rwapi_register(nullptr, memory, sizeof memory, RWAPI_ALL, &again));
    std::memset(second.memory, 0x5a, kBytes);
    barrier();
    const rwapi_net here = second.nets[at(rank())], there = second.nets[at(next)];
    for (int twice = 0; twice < 2; ++twice) {
        CHECK_EQ(rwapi_write(next, here, past[at(next)], 8), RWAPI_ERR_FOREIGN);
        CHECK_EQ(rwapi_write(next, past[at(rank())], there, 8), RWAPI_ERR_FOREIGN);
        CHECK_EQ(rwapi_write(rank(), here, past[at(rank())], 8), RWAPI_ERR_FOREIGN);
        wait(rwapi_write(next, rwapi_net_add(here, 64), rwapi_net_add(there, 64), 8));
        flush(next);
    }
    CHECK_EQ(put(region, 0, 8), RWAPI_ERR_FOREIGN);
    if (id != 0) CHECK_EQ(tested(nullptr, id), RWAPI_ERR_FOREIGN);
    barrier();
    for (size_t i = 0; i < kBytes; ++i) CHECK(second.memory[i] == std::byte{0x5a});
}

// Addresses of many contexts, one after the other: more than there are tags of 7 bits.
void many_contexts() {
    if (size() > 1) return;
    std::vector<rwapi_net> past;
    static std::byte memory[64];
    for (int i = 0; i < 130; ++i) {
        rwapi_context* context;
        CHECK_OK(rwapi_context_create(nullptr, &context));
        rwapi_net net;
        CHECK_OK(rwapi_register(context, memory, sizeof memory, RWAPI_ALL, &net));
        for (const rwapi_net& each : past)
            CHECK_EQ(rwapi_deregister(context, each), RWAPI_ERR_FOREIGN);
        past.push_back(net);
        CHECK_OK(rwapi_context_destroy(context));
    }
}

// A put that nobody asks for waits behind others, and its memory cannot be registered: the next
// flush tells. Tern copies such memory itself, which is the program's error.
void lost_error() {
    if (!over_rc_verbs()) return;
    constexpr size_t kLong = 1 << 20;
    std::vector<std::byte> memory(kLong);
    rwapi_net own;
    const auto regions = share(memory.data(), kLong, RWAPI_ALL, &own);
    const rwapi_net next = regions[at((rank() + 1) % size())];
    void* const nothing = unmapped(kLong);
    int error = 0;
    for (int i = 0; i < 900 && error == 0; ++i) error = put(next, 0, kBytes);
    CHECK_OK(error);
    error = rwapi_put(nullptr, next, 0, nothing, kLong, nullptr);
    const int node = (rank() + 1) % size();
    if (error == 0) error = flushed(node);
    CHECK_EQ(error, RWAPI_ERR_MEMORY);
    flush(node);  // told once
    barrier();
}

}  // namespace

const std::vector<Case> wrong_cases = {
    {"wrong-regions", regions},         {"wrong-addresses", addresses},
    {"unknown-rights", unknown_rights}, {"stale-notification", stale_notification},
    {"replaced-keys", replaced_keys},   {"freed-memory", freed_memory},
    {"lost-error", lost_error},         {"another-start", another_start},
    {"many-contexts", many_contexts},   {"after-the-end", after_the_end}};

}  // namespace job
