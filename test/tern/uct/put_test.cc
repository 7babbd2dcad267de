// SPDX-License-Identifier: BSD-3-Clause
// Puts to a peer's memory.
#include <algorithm>
#include <atomic>

#include "message.h"

namespace uct_test {
namespace put_test {

constexpr std::size_t kSize = 64 * 1024;
constexpr std::byte kBlank{0x5a};

// a_ puts to memory of b_.
class PutTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!a_.has(UCT_IFACE_FLAG_PUT_SHORT) || !a_.has(UCT_IFACE_FLAG_PUT_BCOPY))
            GTEST_SKIP() << "no puts";
        blank();
    }
    void blank() { std::fill_n(memory_.data(), kSize, kBlank); }
    bool is_blank(std::size_t from, std::size_t to) {
        return std::all_of(memory_.data() + from, memory_.data() + to,
                           [](std::byte byte) { return byte == kBlank; });
    }
    ucs_status_t put(bool brief, Bytes bytes, std::size_t at) {
        return brief ? put_short(ep_, bytes, remote_.address + at, key_)
                     : put_bcopy(ep_, bytes, remote_.address + at, key_);
    }
    // With `alone` only the writer progresses: flushes of an existing connection need no more.
    testing::AssertionResult flushed(bool alone = true) {
        Completion completion;
        ucs_status_t status = UCS_OK;
        const Group who = alone ? Group{&a_} : all_;
        testing::AssertionResult result = accepted(who, [&] {
            return status = uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_LOCAL, &completion);
        });
        if (!result || status == UCS_OK) return result;
        return eventually(who, [&] { return completion.calls == 1; });
    }
    void warm_up() {
        ASSERT_TRUE(accepted(all_, [&] { return put(true, pattern(0, 8), 0); }));
        ASSERT_TRUE(flushed(false));
        blank();
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Memory memory_{b_.host(), kSize};
    Remote remote_ = describe(b_.host(), memory_);
    RemoteKey key_{a_.host(), remote_};
    Endpoint ep_ = a_.connect(b_);
};

TEST_F(PutTest, EveryLengthAndNoMore) {
    warm_up();
    for (const bool brief : {true, false}) {
        const auto& cap = a_.attr().cap.put;
        const std::size_t most = brief ? cap.max_short : std::min(cap.max_bcopy, kSize - 256);
        for (std::size_t length = 0;;) {
            blank();
            const std::size_t at = 64 + length % 8;
            ASSERT_TRUE(accepted({&a_}, [&] { return put(brief, pattern(length, length), at); }));
            ASSERT_TRUE(flushed()) << length;
            ASSERT_TRUE(same({memory_.data() + at, length}, pattern(length, length))) << length;
            ASSERT_TRUE(is_blank(0, at)) << length;
            ASSERT_TRUE(is_blank(at + length, kSize)) << length;
            if (length == most) break;
            length = std::min(most, length + (length < 72 ? 1 : 117));
        }
    }
}

TEST_F(PutTest, FirstUseOfAnEndpoint) {
    ASSERT_TRUE(accepted(all_, [&] { return put(false, pattern(3, 1000), 0); }));
    ASSERT_TRUE(flushed(false));
    EXPECT_TRUE(same({memory_.data(), 1000}, pattern(3, 1000)));
}

TEST_F(PutTest, BytesAreThereAfterAFlush) {
    warm_up();
    for (std::size_t round = 0; round < 200; ++round) {
        // Many puts, then one flush.
        const std::size_t count = 1 + round % 20, length = 1 + round * 37 % 1000;
        for (std::size_t i = 0; i < count; ++i) {
            const bool brief = length <= a_.attr().cap.put.max_short && i % 2;
            ASSERT_TRUE(
                accepted({&a_}, [&] { return put(brief, pattern(round + i, length), i * 1024); }));
        }
        ASSERT_TRUE(flushed());
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_TRUE(same({memory_.data() + i * 1024, length}, pattern(round + i, length)))
                << round << " " << i;
        }
    }
}

TEST_F(PutTest, InterfaceFlushCoversPuts) {
    warm_up();
    for (std::size_t i = 0; i < 100; ++i) {
        ASSERT_TRUE(accepted({&a_}, [&] { return put(false, pattern(i, 500), 0); }));
        ASSERT_TRUE(eventually({&a_}, [&] {
            return uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
        }));
        ASSERT_TRUE(same({memory_.data(), 500}, pattern(i, 500)));
    }
}

TEST_F(PutTest, FenceOrdersPuts) {
    warm_up();
    std::fill_n(memory_.data(), kSize, std::byte{});
    const auto word = [&](std::size_t at) {
        uint64_t value;
        std::memcpy(&value, memory_.data() + at, sizeof value);
        return value;
    };
    for (uint64_t i = 1; i <= 5000; ++i) {
        const Bytes bytes(reinterpret_cast<const std::byte*>(&i), sizeof i);
        ASSERT_TRUE(accepted({&a_}, [&] { return put(i % 3, bytes, 0); }));
        if (i % 2) {
            EXPECT_STATUS(UCS_OK, uct_ep_fence(ep_.get(), 0));
        } else {
            EXPECT_STATUS(UCS_OK, uct_iface_fence(a_.iface(), 0));
        }
        ASSERT_TRUE(accepted({&a_}, [&] { return put(i % 5, bytes, 4096); }));
        const uint64_t later = word(4096);
        std::atomic_thread_fence(std::memory_order_acquire);
        EXPECT_GE(word(0), later);
    }
}

// A message after a fence announces the put: it must not arrive before the put.
TEST_F(PutTest, FencedMessageComesAfterThePut) {
    uint64_t sent = 0, seen = 0;
    b_.handle(1, [&](Bytes message) {
        uint64_t number;
        std::memcpy(&number, message.data(), sizeof number);
        ASSERT_TRUE(same({memory_.data() + number % 32 * 1024, 1024}, pattern(number, 1024)));
        ++seen;
    });
    for (; sent < 3000; ++sent) {
        // Reuses a place only after the receiver has read it.
        ASSERT_TRUE(eventually(all_, [&] { return sent - seen < 32; }));
        ASSERT_TRUE(
            accepted(all_, [&] { return put(false, pattern(sent, 1024), sent % 32 * 1024); }));
        EXPECT_STATUS(UCS_OK, uct_ep_fence(ep_.get(), 0));
        ASSERT_TRUE(
            accepted(all_, [&] { return uct_ep_am_short(ep_.get(), 1, sent, nullptr, 0); }));
    }
    ASSERT_TRUE(eventually(all_, [&] { return seen == sent; }));
}

TEST_F(PutTest, ManyPutsRunOutOfResourcesAndGoOn) {
    warm_up();
    std::size_t refused = 0;
    for (std::size_t i = 0; i < 20000; ++i) {
        ucs_status_t status;
        while ((status = put(false, pattern(i, 64), i % 1000 * 64)) == UCS_ERR_NO_RESOURCE) {
            ++refused;
            a_.progress();
        }
        ASSERT_STATUS(UCS_OK, status);
    }
    EXPECT_GT(refused, 0u);
    ASSERT_TRUE(flushed());
    for (std::size_t i = 19000; i < 20000; ++i) {
        ASSERT_TRUE(same({memory_.data() + i % 1000 * 64, 64}, pattern(i, 64)));
    }
}

// A failed put affects only the endpoints to its peer.
class WrongPutTest : public PutTest {
  protected:
    // Puts with this key to this address must fail, and a third interface must not be affected.
    void fails(uint64_t to, const RemoteKey& key) {
        Entity c;
        std::size_t at_c = 0;
        c.handle(1, [&](Bytes) { ++at_c; });
        const Endpoint to_c = a_.connect(c);
        const auto message = [&] { return am_bcopy(to_c, 1, pattern(0, 100)); };
        ASSERT_TRUE(accepted({&a_, &c}, message));
        warm_up();
        Completion completion;
        ASSERT_TRUE(accepted(all_, [&] { return put_short(ep_, pattern(1, 8), to, key); }));
        const ucs_status_t status = uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_LOCAL, &completion);
        ASSERT_TRUE(eventually(all_, [&] { return a_.failures(ep_) > 0; }));
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1; }));
            EXPECT_NE(completion.status, UCS_OK);
        }
        linger(all_);
        EXPECT_EQ(a_.failures(ep_), 1u);
        EXPECT_EQ(a_.failures(to_c), 0u);
        for (std::size_t i = 0; i < 100; ++i) ASSERT_TRUE(accepted({&a_, &c}, message));
        ASSERT_TRUE(eventually({&a_, &c}, [&] { return at_c == 101; }));
        EXPECT_TRUE(is_blank(0, kSize));
        const ucs_status_t later = put(true, pattern(1, 8), 0);
        EXPECT_NE(later, UCS_OK);
        EXPECT_NE(later, UCS_ERR_NO_RESOURCE);
        // A new endpoint works.
        ep_ = a_.connect(b_);
        ASSERT_TRUE(accepted(all_, [&] { return put(true, pattern(5, 8), 0); }));
        ASSERT_TRUE(flushed(false));
        EXPECT_TRUE(same({memory_.data(), 8}, pattern(5, 8)));
    }
};

TEST_F(WrongPutTest, KeyOfDeregisteredMemory) {
    Remote old;
    {
        Memory gone(b_.host(), 4096);
        old = describe(b_.host(), gone);
    }
    const RemoteKey key(a_.host(), old);
    fails(old.address, key);
}

TEST_F(WrongPutTest, BehindTheEnd) {
    fails(remote_.address + kSize - 4, key_);
}

TEST_F(WrongPutTest, AddressOfSomethingElse) {
    fails(8, key_);
}

// Empty puts have no memory, and so no key.
TEST_F(PutTest, NoBytesNeedNoKey) {
    EXPECT_TRUE(accepted(
        all_, [&] { return uct_ep_put_short(ep_.get(), nullptr, 0, 0, UCT_INVALID_RKEY); }));
    EXPECT_TRUE(accepted(all_, [&] {
        const ssize_t length = uct_ep_put_bcopy(
            ep_.get(), [](void*, void*) { return std::size_t{0}; }, nullptr, 0, UCT_INVALID_RKEY);
        return length < 0 ? static_cast<ucs_status_t>(length) : UCS_OK;
    }));
}

}  // namespace put_test
}  // namespace uct_test
