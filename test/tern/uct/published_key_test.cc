// SPDX-License-Identifier: BSD-3-Clause
// Messages in memory that is used again: their keys carry rkeys, and the receiver reads them
// without the sender.
#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include <ucp/api/ucp.h>
#include <uct/api/v2/uct_v2.h>

#include "tag.h"

namespace uct_test {
namespace published_key_test {

constexpr std::size_t kLength = 200'000;

// A process's memory domain with a limit of pinned memory.
struct PinLimit {
    explicit PinLimit(const char* bytes) { setenv("UCX_TERN_PIN_MAX", bytes, 1); }
    ~PinLimit() { unsetenv("UCX_TERN_PIN_MAX"); }
    PinLimit(const PinLimit&) = delete;
    PinLimit& operator=(const PinLimit&) = delete;
};

// Every message is a rendezvous.
Settings ordinary(Settings more = {}) {
    more.insert({{"TM_TUPLES", "0"}});
    return more;
}

class PublishedKeyTest : public TagTest {
  protected:
    // Sends the buffer's present content, again and again into the same buffer of the receiver.
    static void exchange(TagPair& pair, const Declared& from, Receive& to, uint64_t seed) {
        fill(from.part(0, from.size()), seed);
        ASSERT_STATUS(UCS_OK, to.post(7));
        Completion completion;
        (void)pair.begin(7, from, from.size(), completion);
        ASSERT_TRUE(pair.until([&] { return to.done() && completion.calls != 0; }));
        EXPECT_STATUS(UCS_OK, to.status);
        EXPECT_TRUE(filled(to.bytes(), seed));
    }
    // How many of `count` messages the sender was asked for.
    static uint64_t asked_for(TagPair& pair, uint64_t count, std::size_t length = kLength) {
        Declared from(pair.a.entity.host(), length);
        Receive to(pair.b, length);
        for (uint64_t i = 1; i <= count; ++i) {
            to.completed = 0;
            exchange(pair, from, to, i);
        }
        pair.ep.reset();
        linger(pair.all, milliseconds(5));
        const Counters counters = pair.a.entity.close_and_count();
        return counters["rndv_served"];
    }

    // What a sender does whose receiver's buffers are new, where its copies have this bandwidth.
    static Counters send_to_new_buffers(const std::string& copy_bandwidth) {
        TagPair pair(
            ordinary({{"RNDV_COSTS", "copy=" + copy_bandwidth + ",pin=30GBs,pin_latency=5us"}}),
            ordinary({{"RNDV_SCHEME", "superpipeline"}}));
        Declared from(pair.a.entity.host(), kLength);
        for (uint64_t i = 1; i <= 30; ++i) {
            Receive to(pair.b, kLength);
            exchange(pair, from, to, i);
        }
        pair.ep.reset();
        linger(pair.all, milliseconds(5));
        return pair.a.entity.close_and_count();
    }
};

TEST_F(PublishedKeyTest, MessagesAreReadWithoutTheSender) {
    TagPair pair(ordinary());
    const uint64_t asked = asked_for(pair, 20);
    EXPECT_GE(asked, 1u);
    EXPECT_LE(asked, 4u);
}

TEST_F(PublishedKeyTest, NotIfTheUserForbidsIt) {
    const UnpublishedKeys unpublished;
    TagPair pair(ordinary());
    EXPECT_EQ(asked_for(pair, 20), 20u);
}

TEST_F(PublishedKeyTest, NotIfTheReceiverStages) {
    TagPair pair(ordinary(), ordinary({{"RNDV_SCHEME", "superpipeline"}}));
    EXPECT_EQ(asked_for(pair, 20), 20u);
}

// No call registers so much at once.
TEST_F(PublishedKeyTest, LongBuffersArePinnedByTheTransfer) {
    TagPair pair(ordinary());
    EXPECT_EQ(asked_for(pair, 5, 40 << 20), 5u);
}

// A receiver whose buffers are new asks, and the sender learns to copy early again.
TEST_F(PublishedKeyTest, NewBuffersAreStagedEarly) {
    const Counters counters = send_to_new_buffers("20GBps");
    EXPECT_EQ(counters["rndv_served"], 30u);
    // The first messages find no staging memory yet.
    EXPECT_GE(counters["rndv_early_copies_used"], 20u) << counters.json();
}

// Nothing is copied early where copies are slower than the network and registrations.
TEST_F(PublishedKeyTest, SlowCopiesAreNotMadeEarly) {
    const Counters counters = send_to_new_buffers("900MBps");
    EXPECT_EQ(counters["rndv_served"], 30u);
    EXPECT_EQ(counters["rndv_early_copies_used"], 0u) << counters.json();
}

// Lent pins cannot be evicted, so they may take half of the room, and no message fails.
TEST_F(PublishedKeyTest, RoomIsLeftToOthers) {
    const PinLimit limit("1m");
    TagPair pair(ordinary());
    constexpr std::size_t kBuffers = 8;
    std::deque<Declared> from;
    std::deque<Receive> to;
    for (std::size_t i = 0; i < kBuffers; ++i) {
        from.emplace_back(pair.a.entity.host(), kLength);
        to.emplace_back(pair.b, kLength);
    }
    for (uint64_t round = 1; round <= 6; ++round)
        for (std::size_t i = 0; i < kBuffers; ++i) {
            to[i].completed = 0;
            exchange(pair, from[i], to[i], round * kBuffers + i);
        }
    pair.ep.reset();
    linger(pair.all, milliseconds(5));
    const Counters counters = pair.a.entity.close_and_count();
    EXPECT_LE(counters["pinned_bytes_most"], uint64_t{1} << 20);
    // Two of the eight buffers fit, and are read from their third or fourth message on.
    EXPECT_LE(counters["rndv_served"], 6 * kBuffers - 4) << counters.json();
    EXPECT_GE(counters["rndv_served"], 6 * (kBuffers - 2)) << counters.json();
}

// Each message has a declaration of its own, as with UCX 1.13.
struct Message {
    Message(Host& host, std::byte* at, std::size_t length) : md(host.md()) {
        check(uct_md_mem_reg(md, at, length, kRma, &handle), "uct_md_mem_reg");
        pack(at, length);
        remote.address = reinterpret_cast<uintptr_t>(at);
    }
    ~Message() {
        if (handle != nullptr) uct_md_mem_dereg(md, handle);
    }
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    void pack([[maybe_unused]] std::byte* at, [[maybe_unused]] std::size_t length) {
        const uct_md_mkey_pack_params_t params{};
#if UCP_API_VERSION >= UCP_VERSION(1, 16)
        check(uct_md_mkey_pack_v2(md, handle, at, length, &params, remote.key.data()),
              "uct_md_mkey_pack_v2");
#else
        check(uct_md_mkey_pack_v2(md, handle, &params, remote.key.data()), "uct_md_mkey_pack_v2");
#endif
    }
    void invalidate(Completion& completion) {
        uct_md_mem_dereg_params_t params{};
        params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH | UCT_MD_MEM_DEREG_FIELD_FLAGS |
                            UCT_MD_MEM_DEREG_FIELD_COMPLETION;
        params.memh = std::exchange(handle, nullptr);
        params.flags = UCT_MD_MEM_DEREG_FLAG_INVALIDATE;
        params.comp = &completion;
        EXPECT_STATUS(UCS_OK, uct_md_mem_dereg_v2(md, &params));
    }

    uct_md_h md;
    uct_mem_h handle = nullptr;
    Remote remote;
};

class PublishedMemoryTest : public TernTest {
  protected:
    static constexpr std::size_t kSize = 256 * 1024;

    std::byte* map(void* at = nullptr) {
        void* memory = mmap(at, kSize, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
        if (memory == MAP_FAILED) fail("mmap");
        return static_cast<std::byte*>(memory);
    }
    ucs_status_t get(const Message& message) {
        const RemoteKey key(b.host(), message.remote);
        const uct_iov_t iov = to.iov(0, kSize);
        return get_wait(all, ep, {&iov, 1}, message.remote.address, key);
    }
    void expect_message(std::byte* memory, uint64_t seed) {
        fill({memory, kSize}, seed);
        const Message message(a.host(), memory, kSize);
        ASSERT_STATUS(UCS_OK, get(message));
        EXPECT_TRUE(filled(to.part(0, kSize), seed));
    }
    // Until messages in this memory are read. The owner counts them when it is asked for them.
    void settle(std::byte* memory) {
        for (uint64_t i = 1; i <= 6; ++i) expect_message(memory, i);
    }
    uint64_t served() {
        ep.reset();
        linger(all, milliseconds(5));
        return a.close_and_count()["rndv_served"];
    }

    Entity a, b;
    const Group all{&a, &b};
    Declared to{b.host(), kSize};
    Endpoint ep = b.connect(a);
};

// The rkey belongs to the pages. New pages at the old address need another one.
TEST_F(PublishedMemoryTest, NewPagesAtTheSameAddress) {
    std::byte* const memory = map();
    for (uint64_t i = 0; i < 20; ++i) {
        settle(memory);
        if (i % 2 == 0) {
            munmap(memory, kSize);
            ASSERT_EQ(map(memory), memory);
        } else {
            ASSERT_EQ(madvise(memory, kSize, MADV_DONTNEED), 0);
        }
        expect_message(memory, 100 + i);
    }
    munmap(memory, kSize);
    EXPECT_LT(served(), 20u * 7);
}

// Peers may read the old pages until the memory is undeclared, so these stay pinned. This must not
// happen again and again.
TEST_F(PublishedMemoryTest, MemoryThatLosesItsPagesOftenIsNotPublished) {
    std::byte* const memory = map();
    settle(memory);
    Message message(a.host(), memory, kSize);
    for (uint64_t round = 1; round <= 6; ++round) {
        ASSERT_EQ(madvise(memory, kSize, MADV_DONTNEED), 0);
        std::this_thread::sleep_for(milliseconds(220));  // so long pins are not remembered
        for (uint64_t i = 1; i <= 5; ++i) {
            fill({memory, kSize}, round * 10 + i);
            message.pack(memory, kSize);
            ASSERT_STATUS(UCS_OK, get(message));
            EXPECT_TRUE(filled(to.part(0, kSize), round * 10 + i));
        }
    }
    ep.reset();
    linger(all, milliseconds(5));
    EXPECT_LE(a.close_and_count()["pinned_bytes_most"], 4 * kSize);
    munmap(memory, kSize);
}

// Several messages in the same memory at a time; the end of one does not matter to the others.
TEST_F(PublishedMemoryTest, OneOfSeveralMessagesEnds) {
    std::byte* const memory = map();
    settle(memory);
    fill({memory, kSize}, 50);
    const Message first(a.host(), memory, kSize);
    { const Message second(a.host(), memory, kSize); }
    const Message third(a.host(), memory, kSize);
    ASSERT_STATUS(UCS_OK, get(first));
    EXPECT_TRUE(filled(to.part(0, kSize), 50));
    fill(to.part(0, kSize), 51);
    ASSERT_STATUS(UCS_OK, get(third));
    EXPECT_TRUE(filled(to.part(0, kSize), 50));
    munmap(memory, kSize);
    EXPECT_LE(served(), 4u);
}

// Nobody tells when such memory loses its pages, so its pins are not remembered.
TEST_F(PublishedMemoryTest, MemoryThatCannotBeWatchedIsNotRegisteredEachTime) {
    const Settings staged{{"RNDV_SCHEME", "superpipeline"}};
    Entity owner(staged), reader(staged);
    const Group both{&owner, &reader};
    Declared here(reader.host(), kSize);
    const Endpoint to_owner = reader.connect(owner);
    void* const memory =
        mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    for (uint64_t i = 1; i <= 40; ++i) {
        fill({static_cast<std::byte*>(memory), kSize}, i);
        const Message message(owner.host(), static_cast<std::byte*>(memory), kSize);
        const RemoteKey key(reader.host(), message.remote);
        const uct_iov_t iov = here.iov(0, kSize);
        ASSERT_STATUS(UCS_OK, get_wait(both, to_owner, {&iov, 1}, message.remote.address, key));
        EXPECT_TRUE(filled(here.part(0, kSize), i));
    }
    const Counters counters = owner.close_and_count();
    EXPECT_EQ(counters["rndv_served"], 40u);
    EXPECT_LE(counters["pin_registrations"], 2u) << counters.json();
    munmap(memory, kSize);
}

// Memory is not read that was unmapped, though its owner has just put from it and not polled since.
TEST_F(PublishedMemoryTest, InvalidatedMemoryThatWasPutFromCannotBeRead) {
    Declared far(b.host(), kSize, UCT_MD_MEM_ACCESS_ALL);
    const RemoteKey far_key(a.host(), far.remote());
    const Endpoint back = a.connect(b);
    std::byte* const memory = map();
    settle(memory);
    fill({memory, kSize}, 50);
    Message message(a.host(), memory, kSize);
    const uct_iov_t iov{memory, kSize, message.handle, 0, 1};
    ASSERT_STATUS(UCS_OK, put_wait(all, back, {&iov, 1}, far.remote().address, far_key));
    ASSERT_TRUE(filled(far.part(0, kSize), 50));
    Completion gone;
    message.invalidate(gone);
    fill(to.part(0, kSize), 51);
    const RemoteKey key(b.host(), message.remote);
    const uct_iov_t into = to.iov(0, kSize);
    EXPECT_NE(get_wait({&b}, ep, {&into, 1}, message.remote.address, key), UCS_OK);
    EXPECT_TRUE(filled(to.part(0, kSize), 51));
    munmap(memory, kSize);
}

// After an invalidation nobody can read the memory, whatever keys there are.
TEST_F(PublishedMemoryTest, InvalidatedMemoryCannotBeRead) {
    std::byte* const memory = map();
    settle(memory);
    fill({memory, kSize}, 50);
    Message message(a.host(), memory, kSize);
    Completion gone;
    message.invalidate(gone);
    EXPECT_EQ(gone.calls, 1);
    fill(to.part(0, kSize), 51);
    EXPECT_NE(get(message), UCS_OK);
    EXPECT_TRUE(filled(to.part(0, kSize), 51));
    // The read was an error of the connection; the next one works.
    ep = b.connect(a);
    expect_message(memory, 60);
    settle(memory);
    munmap(memory, kSize);
}

}  // namespace published_key_test
}  // namespace uct_test
