// SPDX-License-Identifier: BSD-3-Clause
// A peer that lives but makes no progress holds up only its own transfers.
#include <algorithm>
#include <deque>

#include "transfer.h"

namespace uct_test {
namespace transfer_starve_test {

constexpr std::size_t kSize = 200 * 1024;

// One ring, and one staging memory, of a few slots.
Settings narrow(const std::string& scheme = "superpipeline") {
    return {{"RNDV_SCHEME", scheme},
            {"RNDV_WINDOW", "32k"},
            {"rndv_windows", "1"},
            {"TX_QUEUE_LEN", "32"},
            {"RX_QUEUE_LEN", "16"}};
}

class TransferStarveTest : public TernTest {
  protected:
    void put(const Endpoint& ep, const Declared& far, const RemoteKey& key, const Group& who,
             Completion& completion, std::size_t length = kSize) {
        const uct_iov_t iov = near_.iov(0, length);
        ASSERT_TRUE(accepted(who, [&] {
            return put_zcopy(ep, {&iov, 1}, far.remote().address, key, &completion);
        }));
    }
    void connect() {
        for (const Endpoint* ep : {&to_b_, &to_c_}) {
            ASSERT_TRUE(accepted(all_, [&] { return am_bcopy(*ep, 1, pattern(0, 8)); }));
            ASSERT_TRUE(flush_wait(all_, *ep));
        }
    }

    Entity a_{narrow()}, b_{narrow()}, c_{narrow()};
    const Group all_{&a_, &b_, &c_}, awake_{&a_, &c_};
    Declared near_{a_.host(), kSize}, at_b_{b_.host(), kSize}, at_c_{c_.host(), kSize};
    RemoteKey key_b_{a_.host(), at_b_.remote()}, key_c_{a_.host(), at_c_.remote()};
    Endpoint to_b_ = a_.connect(b_), to_c_ = a_.connect(c_);
};

// Staging memory is free once its writes are complete, even if the receiver has not taken the
// chunks: for a message that fits into staging memory, and for one that does not.
TEST_F(TransferStarveTest, ReceiverIsSilent) {
    connect();
    for (const std::size_t length : {std::size_t{20'000}, kSize}) {
        for (unsigned turns = 0; turns < 40; ++turns) {
            fill(near_.part(0, kSize), turns);
            Completion silent, other;
            put(to_b_, at_b_, key_b_, all_, silent, length);
            for (unsigned i = 0; i < turns; ++i) progress(all_);
            put(to_c_, at_c_, key_c_, awake_, other);
            ASSERT_TRUE(eventually(awake_, [&] { return other.calls == 1; })) << turns;
            ASSERT_TRUE(filled(at_c_.part(0, kSize), turns));
            ASSERT_TRUE(eventually(all_, [&] { return silent.calls == 1; })) << turns;
            ASSERT_TRUE(filled(at_b_.part(0, length), turns));
        }
    }
}

// The receiver's ring is lent to a sender that does not send. Transfers that can be pinned need no
// ring.
TEST_F(TransferStarveTest, SenderIsSilent) {
    connect();
    // Puts to a's memory: from b, which stops, and from c.
    Declared at_a(a_.host(), 2 * kSize), near_b(b_.host(), kSize), near_c(c_.host(), kSize);
    Declared open(c_.host(), kSize, UCT_MD_MEM_ACCESS_ALL);
    const RemoteKey from_b(b_.host(), at_a.remote()), from_c(c_.host(), at_a.remote());
    const RemoteKey key(a_.host(), open.remote());
    const Endpoint b_to_a = b_.connect(a_), c_to_a = c_.connect(a_);
    fill(near_b.part(0, kSize), 1);
    fill(near_c.part(0, kSize), 2);
    fill(open.part(0, kSize), 3);
    Completion silent, other, fetched;
    const uct_iov_t iov_b = near_b.iov(0, kSize), iov_c = near_c.iov(0, kSize);
    ASSERT_TRUE(accepted(all_, [&] {
        return put_zcopy(b_to_a, {&iov_b, 1}, at_a.remote().address, from_b, &silent);
    }));
    linger(awake_, milliseconds(20));
    ASSERT_TRUE(accepted(awake_, [&] {
        return put_zcopy(c_to_a, {&iov_c, 1}, at_a.remote().address + kSize, from_c, &other);
    }));
    ASSERT_TRUE(eventually(awake_, [&] { return other.calls == 1; }));
    EXPECT_STATUS(UCS_OK, other.status);
    EXPECT_TRUE(filled(at_a.part(kSize, kSize), 2));
    const uct_iov_t into = near_.iov(0, kSize);
    ASSERT_TRUE(accepted(awake_, [&] {
        return get_zcopy(to_c_, {&into, 1}, open.remote().address, key, &fetched);
    }));
    ASSERT_TRUE(eventually(awake_, [&] { return fetched.calls == 1; }));
    EXPECT_TRUE(filled(near_.part(0, kSize), 3));
    EXPECT_EQ(silent.calls, 0);
    ASSERT_TRUE(eventually(all_, [&] { return silent.calls == 1; }));
    EXPECT_TRUE(filled(at_a.part(0, kSize), 1));
}

// A peer that takes no answers asks for memory without a right to it. Another peer's request must
// be refused in the meantime.
TEST_F(TransferStarveTest, RefusalsOfOthersGoOn) {
    connect();
    Declared gone(a_.host(), kSize), near_b(b_.host(), kSize), near_c(c_.host(), kSize);
    const RemoteKey from_b(b_.host(), gone.remote()), from_c(c_.host(), gone.remote());
    const uint64_t there = gone.remote().address;
    const Endpoint b_to_a = b_.connect(a_), c_to_a = c_.connect(a_);
    ASSERT_TRUE(accepted(all_, [&] { return am_bcopy(b_to_a, 1, pattern(0, 8)); }));
    ASSERT_TRUE(accepted(all_, [&] { return am_bcopy(c_to_a, 1, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait(all_, b_to_a));
    gone.undeclare();
    fill_up(to_b_, 1, pattern(0, 1000));
    linger(awake_, milliseconds(5));
    fill_up(to_b_, 1, pattern(0, 1000));
    constexpr std::size_t kRefused = 20;
    std::deque<Completion> completions(kRefused);
    const uct_iov_t iov_b = near_b.iov(0, 100), iov_c = near_c.iov(0, 100);
    for (Completion& completion : completions) {
        ASSERT_TRUE(accepted(awake_, [&] {
            return put_zcopy(b_to_a, {&iov_b, 1}, there, from_b, &completion);
        }));
    }
    linger(awake_, milliseconds(5));
    Completion mine;
    ASSERT_TRUE(accepted(awake_, [&] {
        return put_zcopy(c_to_a, {&iov_c, 1}, there, from_c, &mine);
    }));
    ASSERT_TRUE(eventually(awake_, [&] { return mine.calls == 1; }));
    EXPECT_NE(mine.status, UCS_OK);
    ASSERT_TRUE(eventually(all_, [&] {
        return std::ranges::all_of(completions, [](const Completion& it) { return it.calls == 1; });
    }));
}

}  // namespace transfer_starve_test
}  // namespace uct_test
