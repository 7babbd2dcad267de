// SPDX-License-Identifier: BSD-3-Clause
// Short gets of open memory: into memory that comes back, they go in place. So do puts from open
// memory.
#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "message.h"
#include "transfer.h"

namespace uct_test {
namespace rma_in_place_test {

constexpr std::size_t kLength = 4096;
constexpr std::size_t kSize = 256 * 1024;
constexpr int kGets = 20;

// Copies are said to be slow, so that a pin is worth its cost from the second use on.
Settings slow_copies(Settings others = {}) {
    others.insert(
        {{"RNDV_COSTS", "copy=1MBps,pin=10GBps,pin_latency=1us"}, {"RNDV_PIN_AFTER", "2"}});
    return others;
}

// Private memory at a place of its own, declared for each get, as UCX 1.13 does it.
class Buffer {
  public:
    explicit Buffer(Host& host) : md_(host.md()) { map(nullptr, 0); }
    ~Buffer() { munmap(data_, kSize); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void map_again() {
        munmap(data_, kSize);
        map(data_, MAP_FIXED);
    }
    std::span<std::byte> part(std::size_t at) const { return {data_ + at, kLength}; }
    ucs_status_t get(const Group& who, const Endpoint& ep, std::size_t to, uint64_t from,
                     const RemoteKey& key) {
        uct_mem_h handle;
        check(uct_md_mem_reg(md_, data_ + to, kLength, kRma, &handle), "uct_md_mem_reg");
        const uct_iov_t iov{data_ + to, kLength, handle, 0, 1};
        const ucs_status_t status = get_wait(who, ep, {&iov, 1}, from, key);
        check(uct_md_mem_dereg(md_, handle), "uct_md_mem_dereg");
        return status;
    }

  private:
    void map(void* at, int flags) {
        at = mmap(at, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
        check(at != MAP_FAILED ? UCS_OK : UCS_ERR_NO_MEMORY, "mmap");
        data_ = static_cast<std::byte*>(at);
    }

    uct_md_h md_;
    std::byte* data_ = nullptr;
};

// Two interfaces; the first one gets.
struct Pair {
    explicit Pair(const Settings& settings) : a(settings) {
        b.handle(1, [](Bytes) {});
        // The connection comes up.
        EXPECT_TRUE(accepted(all, [&] { return am_short(ep, 1, pattern(0, 8)); }));
        EXPECT_TRUE(flush_wait(all, ep));
    }

    // Gets into a part of `buffer`, and checks the bytes.
    void get(Buffer& buffer, std::size_t to, int count) {
        for (int i = 0; i < count; ++i) {
            fill(far.part(0, kLength), ++seed);
            ASSERT_STATUS(UCS_OK, buffer.get(all, ep, to, far.remote().address, key));
            ASSERT_TRUE(filled(buffer.part(to), seed)) << i;
        }
    }
    Counters count() {
        ep.reset();
        linger(all, milliseconds(5));
        return a.close_and_count();
    }

    Entity a;
    Entity b;
    const Group all{&a, &b};
    Declared far{b.host(), kSize, UCT_MD_MEM_ACCESS_ALL};
    RemoteKey key{a.host(), far.remote()};
    Endpoint ep = a.connect(b);
    uint64_t seed = 0;
};

class RmaInPlaceTest : public TernTest {
  protected:
    // Those that are made when a device is opened, to measure them.
    static uint64_t first_registrations() { return Pair({}).count()["pin_registrations"]; }
};

TEST_F(RmaInPlaceTest, IntoMemoryThatComesBack) {
    Pair pair(slow_copies());
    Buffer buffer(pair.a.host());
    pair.get(buffer, 100, kGets);
    const Counters counters = pair.count();
    EXPECT_EQ(counters["get"], uint64_t{kGets});
    EXPECT_GE(counters["in_place"], uint64_t{kGets} - 4) << counters.json();
    EXPECT_EQ(counters["pin_registrations"], first_registrations() + 1) << counters.json();
}

// A window of them has as many pins as there are buffers, all of which are found again.
TEST_F(RmaInPlaceTest, IntoManyBuffers) {
    Pair pair(slow_copies());
    Declared near(pair.a.host(), kSize);
    constexpr std::size_t kBuffers = kSize / kLength;
    for (int round = 0; round < 6; ++round) {
        fill(pair.far.part(0, kSize), ++pair.seed);
        for (std::size_t i = 0; i < kBuffers; ++i) {
            uct_iov_t iov = near.iov(i * kLength, kLength);
            ASSERT_TRUE(accepted(pair.all, [&] {
                return get_zcopy(pair.ep, {&iov, 1}, pair.far.remote().address + i * kLength,
                                 pair.key, nullptr);
            }));
        }
        ASSERT_TRUE(flush_wait(pair.all, pair.ep));
        EXPECT_TRUE(filled(near.part(0, kSize), pair.seed)) << round;
    }
    const Counters counters = pair.count();
    EXPECT_GE(counters["in_place"], 3 * kBuffers) << counters.json();
    EXPECT_EQ(counters["pin_registrations"], first_registrations() + 1)
        << "the declared memory gets one pin";
}

TEST_F(RmaInPlaceTest, NotIntoMemoryThatIsNew) {
    Pair pair(slow_copies());
    Buffer buffer(pair.a.host());
    for (std::size_t i = 0; i < kSize / kLength; i += 2) pair.get(buffer, i * kLength, 1);
    const Counters counters = pair.count();
    EXPECT_EQ(counters["in_place"], 0u);
    EXPECT_EQ(counters["pin_registrations"], first_registrations());
}

// The registration that peers use serves the origin as well: nothing is copied, and nothing pinned.
// `move` begins an operation between the open memory of both sides.
template <class Move>
void in_open_memory(bool puts, uint64_t first_registrations, Move&& move) {
    Pair pair({});
    Declared near(pair.a.host(), kSize, UCT_MD_MEM_ACCESS_ALL);
    (void)near.remote();  // packs a key
    for (const std::size_t length : {kLength, kSize / 2})
        for (int i = 0; i < kGets; ++i) {
            const auto here = near.part(100, length), there = pair.far.part(0, length);
            fill(puts ? here : there, ++pair.seed);
            Completion completion;
            const uct_iov_t iov = near.iov(100, length);
            ASSERT_TRUE(accepted(pair.all, [&] { return move(pair, iov, completion); }));
            ASSERT_TRUE(flush_wait(pair.all, pair.ep));
            EXPECT_EQ(completion.calls, 1u);
            ASSERT_TRUE(filled(puts ? there : here, pair.seed)) << i;
        }
    const Counters counters = pair.count();
    EXPECT_EQ(counters["in_place"], uint64_t{2 * kGets}) << counters.json();
    EXPECT_EQ(counters["pin_registrations"], first_registrations) << counters.json();
}

TEST_F(RmaInPlaceTest, PutsFromOpenMemory) {
    in_open_memory(
        true, first_registrations(), [](Pair& pair, const uct_iov_t& iov, Completion& completion) {
            return put_zcopy(pair.ep, {&iov, 1}, pair.far.remote().address, pair.key, &completion);
        });
}

TEST_F(RmaInPlaceTest, GetsIntoOpenMemory) {
    in_open_memory(
        false, first_registrations(), [](Pair& pair, const uct_iov_t& iov, Completion& completion) {
            return get_zcopy(pair.ep, {&iov, 1}, pair.far.remote().address, pair.key, &completion);
        });
}

TEST_F(RmaInPlaceTest, NotIntoSeveralPieces) {
    Pair pair(slow_copies());
    Declared near(pair.a.host(), kSize);
    for (int i = 0; i < kGets; ++i) {
        fill(pair.far.part(0, kLength), ++pair.seed);
        ASSERT_STATUS(UCS_OK, get_wait(pair.all, pair.ep, pieces(near, 100, kLength, 3),
                                       pair.far.remote().address, pair.key));
        ASSERT_TRUE(filled(near.part(100, kLength), pair.seed));
    }
    EXPECT_EQ(pair.count()["in_place"], 0u);
}

// Memory that is mapped anew at the same place has other pages.
TEST_F(RmaInPlaceTest, UntilTheMemoryIsUnmapped) {
    Pair pair(slow_copies());
    Buffer buffer(pair.a.host());
    for (int i = 0; i < 5; ++i) {
        pair.get(buffer, 0, kGets);
        buffer.map_again();
    }
    const Counters counters = pair.count();
    EXPECT_GE(counters["in_place"], uint64_t{5} * (kGets - 4)) << counters.json();
    EXPECT_GE(counters["pin_invalidations"], 4u) << counters.json();
}

// Without progress in between, pins of the memory before are held.
TEST_F(RmaInPlaceTest, UntilTheMemoryIsUnmappedWithoutProgress) {
    Pair pair(slow_copies());
    Buffer buffer(pair.a.host());
    for (int i = 0; i < 5; ++i) {
        pair.get(buffer, 0, kGets);
        Completion completion;
        uct_mem_h handle;
        check(uct_md_mem_reg(pair.a.host().md(), buffer.part(0).data(), kLength, kRma, &handle),
              "uct_md_mem_reg");
        const uct_iov_t iov{buffer.part(0).data(), kLength, handle, 0, 1};
        ASSERT_TRUE(accepted(pair.all, [&] {
            return get_zcopy(pair.ep, {&iov, 1}, pair.far.remote().address, pair.key, &completion);
        }));
        while (completion.calls == 0) (void)pair.a.progress();
        check(uct_md_mem_dereg(pair.a.host().md(), handle), "uct_md_mem_dereg");
        buffer.map_again();
        fill(pair.far.part(0, kLength), ++pair.seed);
        ASSERT_STATUS(UCS_OK,
                      buffer.get(pair.all, pair.ep, 0, pair.far.remote().address, pair.key));
        ASSERT_TRUE(filled(buffer.part(0), pair.seed)) << i;
    }
}

TEST_F(RmaInPlaceTest, NotIfNothingMayBePinned) {
    ASSERT_EQ(setenv("UCX_TERN_PIN_MAX", "8k", 1), 0);
    {
        Pair pair(slow_copies());
        Buffer buffer(pair.a.host());
        pair.get(buffer, 100, kGets);
        const Counters counters = pair.count();
        EXPECT_EQ(counters["in_place"], 0u);
        EXPECT_EQ(counters["get"], uint64_t{kGets});
    }
    unsetenv("UCX_TERN_PIN_MAX");
}

TEST_F(RmaInPlaceTest, NotIfPinsCannotBeKept) {
    ASSERT_EQ(setenv("UCX_TERN_PIN_MONITOR", "none", 1), 0);
    {
        Pair pair(slow_copies());
        Buffer buffer(pair.a.host());
        pair.get(buffer, 100, kGets);
        const Counters counters = pair.count();
        EXPECT_LE(counters["pin_registrations"], first_registrations() + 1) << "to find out";
        EXPECT_EQ(counters["in_place"], 0u);
    }
    unsetenv("UCX_TERN_PIN_MONITOR");
}

TEST_F(RmaInPlaceTest, NotIfTheUserWantsSuperpipelines) {
    Pair pair(slow_copies({{"RNDV_SCHEME", "superpipeline"}}));
    Buffer buffer(pair.a.host());
    pair.get(buffer, 100, kGets);
    EXPECT_EQ(pair.count()["in_place"], 0u);
}

}  // namespace rma_in_place_test
}  // namespace uct_test
