// SPDX-License-Identifier: BSD-3-Clause
// Early copies: the beginning of an announced message is copied while the request travels, whatever
// becomes of the message.
#include "../../softhca/device/fabric.h"
#include "tag.h"
#include "traffic.h"

namespace uct_test {
namespace tag_rndv_early_copy_test {

namespace softhca = conformance::softhca;

constexpr std::size_t kFirst = 12 << 10;
constexpr std::size_t kLength = 100'000;

// No message is direct: direct messages need no early copy. Both sides use the same costs, with
// which the tail of a long message is worth receiving in place.
Settings by(const char* scheme, Settings more = {}) {
    more.insert({{"RNDV_SCHEME", scheme},
                 {"TM_TUPLES", "0"},
                 {"RNDV_COSTS", "copy=2GBps,net=20GBps,pin=50GBps,pin_latency=5us"}});
    return more;
}
Settings staged(Settings more = {}) {
    return by("superpipeline", std::move(more));
}

// Two interfaces that exchange announced messages. The tests check the sender's counters.
class EarlyCopyPair : public TagPair {
  public:
    using TagPair::TagPair;

    // Announces a message and waits for its end.
    void exchange(uct_tag_t tag, const Declared& from, std::size_t length, uint64_t seed) {
        fill(from.part(0, length), seed);
        Receive receive(b, length);
        ASSERT_STATUS(UCS_OK, receive.post(tag));
        Completion completion;
        (void)begin(tag, from, length, completion);
        expect(receive, completion, seed);
    }
    // Waits for a message and checks that all of it has come.
    void expect(Receive& receive, const Completion& completion, uint64_t seed) {
        ASSERT_TRUE(until([&] { return receive.done() && completion.calls != 0; }));
        EXPECT_STATUS(UCS_OK, receive.status);
        EXPECT_STATUS(UCS_OK, completion.status);
        EXPECT_TRUE(filled(receive.bytes(), seed));
        EXPECT_TRUE(receive.clean());
    }
    // Makes the sender register staging memory for `windows` transfers at a time.
    void warm_up(std::size_t windows = 1) {
        Declared from(a.entity.host(), 1 << 20);
        fill(from.part(0, from.size()), 1);
        std::deque<Receive> receives;
        std::deque<Completion> completions(windows);
        for (Completion& completion : completions) {
            receives.emplace_back(b, from.size());
            ASSERT_STATUS(UCS_OK, receives.back().post(99));
            (void)begin(99, from, from.size(), completion);
        }
        for (std::size_t i = 0; i < windows; ++i) expect(receives[i], completions[i], 1);
    }
    // Closes the sender and returns its counters.
    Counters sent() {
        ep.reset();
        linger(all, milliseconds(5));
        const Counters counters = a.entity.close_and_count();
        EXPECT_EQ(counters["rndv_early_copies_made"],
                  counters["rndv_early_copies_used"] + counters["rndv_early_copies_dropped"])
            << counters.json();
        return counters;
    }
};

class TagEarlyCopyTest : public TagTest {
  protected:
    void TearDown() override {
        if (!IsSkipped()) end_faults();
    }
    const UnpublishedKeys unpublished_;
};

TEST_F(TagEarlyCopyTest, IsCopiedOnceAndUsed) {
    EarlyCopyPair pair(by("superpipeline"));
    Declared from(pair.a.entity.host(), 1 << 20);
    pair.warm_up();
    std::vector<std::size_t> lengths{from.size(), from.size() - 77};
    for (std::size_t end = 4096; end <= kFirst + 8192; end += 4096)
        for (const std::size_t less : {4095, 2, 1, 0}) lengths.push_back(end - less);
    uint64_t seed = 0;
    for (const std::size_t length : lengths) pair.exchange(1, from, length, ++seed);
    const Counters counters = pair.sent();
    EXPECT_EQ(counters["rndv_early_copies_used"], seed) << counters.json();
    EXPECT_EQ(counters["rndv_early_copies_dropped"], 0u) << counters.json();
}

// The receiver chooses zero-copy, which the sender does not expect.
TEST_F(TagEarlyCopyTest, IsDroppedIfTheReceiverTakesAnotherWay) {
    EarlyCopyPair pair(staged(), by("zcopy"));
    Declared from(pair.a.entity.host(), (1 << 20) + 100);
    for (uint64_t seed = 1; seed < 10; ++seed) pair.exchange(1, from, from.size(), seed);
    const Counters counters = pair.sent();
    EXPECT_GT(counters["rndv_early_copies_made"], 0u) << counters.json();
    EXPECT_EQ(counters["rndv_early_copies_used"], 0u) << counters.json();
}

TEST_F(TagEarlyCopyTest, NobodyCopiesForZeroCopy) {
    EarlyCopyPair pair(by("zcopy"));
    Declared from(pair.a.entity.host(), 1 << 20);
    for (uint64_t seed = 1; seed < 5; ++seed) pair.exchange(1, from, from.size(), seed);
    EXPECT_EQ(pair.sent()["rndv_early_copies_made"], 0u);
}

TEST_F(TagEarlyCopyTest, NobodyCopiesForADirectMessage) {
    NEEDS_SOFTWARE_HCA();
    if (!conformance::Hca().has(IBV_DEVICE_XRC)) GTEST_SKIP() << "no XRC";
    EarlyCopyPair pair(Settings{{"RNDV_SCHEME", "superpipeline"}});
    Declared from(pair.a.entity.host(), kLength);
    for (uint64_t seed = 1; seed <= 100; ++seed) pair.exchange(1, from, kLength, seed);
    const Counters counters = pair.sent();
    EXPECT_GT(counters["direct_sent"], 0u) << counters.json();
    EXPECT_LE(counters["rndv_early_copies_made"] + counters["direct_sent"], 100u)
        << counters.json();
}

// UCP fetches unexpected messages with get_zcopy.
TEST_F(TagEarlyCopyTest, IsUsedByWhoeverFetchesTheMessage) {
    EarlyCopyPair pair(staged());
    pair.warm_up();
    Declared from(pair.a.entity.host(), kLength), to(pair.b.entity.host(), kLength);
    fill(from.part(0, kLength), 7);
    Endpoint back = pair.b.entity.connect(pair.a.entity);
    Completion completion, fetched;
    void* operation = pair.announce(1, from, kLength, completion);
    {
        const Unexpected& request = pair.b.mailbox->messages.at(0);
        const RemoteKey key(pair.b.entity.host(), request.remote);
        // A get of a part does not use the early copy.
        const uct_iov_t part = to.iov(0, kLength / 2), all = to.iov(0, kLength);
        EXPECT_STATUS(UCS_OK, get_wait(pair.all, back, {&part, 1}, request.address, key));
        EXPECT_TRUE(filled(to.part(0, kLength / 2), 7));
        EXPECT_STATUS(UCS_OK, get_wait(pair.all, back, {&all, 1}, request.address, key));
        EXPECT_TRUE(filled(to.part(0, kLength), 7));
        // The early copy has been used by now.
        EXPECT_STATUS(UCS_OK, get_wait(pair.all, back, {&all, 1}, request.address, key));
        EXPECT_TRUE(filled(to.part(0, kLength), 7));
    }
    EXPECT_STATUS(UCS_OK, uct_ep_tag_rndv_cancel(pair.ep.get(), operation));
    back.reset();
    EXPECT_EQ(pair.sent()["rndv_early_copies_used"], 1u);
}

// More requests than early copies and staging memory, matched in the order of sending or in the
// opposite order.
TEST_F(TagEarlyCopyTest, ManyRequestsWaitAtATime) {
    NEEDS_BLOCKS();  // without them, a receiver that makes no progress is sent fewer requests
    constexpr std::size_t kCount = 40;
    for (const char* windows : {"1", "2", "16"})
        for (const bool in_order : {true, false}) {
            SCOPED_TRACE(std::string(windows) + (in_order ? ", in order" : ", the other way"));
            EarlyCopyPair pair(staged({{"rndv_windows", windows}}));
            pair.warm_up(16);
            std::deque<Declared> from;
            std::deque<Receive> receives;
            std::deque<Completion> completions(kCount);
            for (std::size_t i = 0; i < kCount; ++i) {
                from.emplace_back(pair.a.entity.host(), kLength);
                fill(from[i].part(0, kLength), i);
                receives.emplace_back(pair.b, kLength);
                ASSERT_STATUS(UCS_OK, receives[i].post(in_order ? i : kCount - 1 - i));
            }
            // The receiver makes no progress: all requests wait together.
            for (std::size_t i = 0; i < kCount; ++i)
                (void)tag_rndv({&pair.a.entity}, pair.ep, i, from[i], kLength - i, completions[i]);
            for (std::size_t i = 0; i < kCount; ++i)
                pair.expect(receives[in_order ? i : kCount - 1 - i], completions[i], i);
            const Counters counters = pair.sent();
            EXPECT_GT(counters["rndv_early_copies_made"], 0u) << counters.json();
            // The first messages keep their early copies, and are matched first.
            if (std::string(windows) == "16" && in_order) {
                EXPECT_GE(counters["rndv_early_copies_used"], 8u) << counters.json();
            }
        }
}

// Early copies that stay unused give way: to transfers at once, to newer messages after a while.
TEST_F(TagEarlyCopyTest, WhatNobodyTakesGivesWay) {
    for (const char* windows : {"1", "16"}) {
        SCOPED_TRACE(windows);
        EarlyCopyPair pair(staged({{"rndv_windows", windows}}));
        pair.warm_up(16);
        Declared from(pair.a.entity.host(), kLength), waiting(pair.a.entity.host(), 16 * kLength);
        std::deque<Completion> completions(16);
        std::vector<void*> operations;
        for (Completion& completion : completions)
            operations.push_back(pair.announce(1, waiting, kLength, completion));
        for (uint64_t seed = 1; seed <= 100; ++seed) pair.exchange(2, from, kLength, seed);
        for (void* operation : operations)
            EXPECT_STATUS(UCS_OK, uct_ep_tag_rndv_cancel(pair.ep.get(), operation));
        const Counters counters = pair.sent();
        EXPECT_GT(counters["rndv_early_copies_dropped"], 0u) << counters.json();
        EXPECT_GT(counters["rndv_early_copies_used"], 50u) << counters.json();
        EXPECT_EQ(counters["rndv_ring_waits"], 0u) << counters.json();
    }
}

// Below: other messages in the same memory.

TEST_F(TagEarlyCopyTest, GoesWithACanceledMessage) {
    EarlyCopyPair pair(staged());
    pair.warm_up();
    Declared from(pair.a.entity.host(), kLength);
    fill(from.part(0, kLength), 1);
    Completion completion;
    void* operation = pair.announce(1, from, kLength, completion);
    EXPECT_STATUS(UCS_OK, uct_ep_tag_rndv_cancel(pair.ep.get(), operation));
    pair.exchange(2, from, kLength, 2);
    EXPECT_EQ(completion.calls, 0);
    const Counters counters = pair.sent();
    EXPECT_EQ(counters["rndv_early_copies_dropped"], 1u) << counters.json();
    EXPECT_EQ(counters["rndv_early_copies_used"], 1u) << counters.json();
}

TEST_F(TagEarlyCopyTest, GoesWithItsEndpoint) {
    EarlyCopyPair pair(staged());
    pair.warm_up();
    Declared from(pair.a.entity.host(), kLength);
    fill(from.part(0, kLength), 1);
    Completion completion;
    Endpoint other = pair.a.entity.connect(pair.b.entity);
    (void)pair.announce(1, from, kLength, completion);
    pair.ep = std::move(other);
    EXPECT_STATUS(UCS_ERR_CANCELED, completion.status);
    pair.exchange(2, from, kLength, 2);
    const Counters counters = pair.sent();
    EXPECT_EQ(counters["rndv_early_copies_dropped"], 1u) << counters.json();
    EXPECT_EQ(counters["rndv_early_copies_used"], 1u) << counters.json();
}

TEST_F(TagEarlyCopyTest, GoesWithItsPeer) {
    EarlyCopyPair pair(staged());
    pair.warm_up();
    Declared from(pair.a.entity.host(), kLength);
    fill(from.part(0, kLength), 1);
    Completion completion;
    (void)pair.announce(1, from, kLength, completion);
    pair.b.entity.close();
    ASSERT_TRUE(eventually({&pair.a.entity}, [&] { return completion.calls != 0; }));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(completion.status));
    const Counters counters = pair.sent();
    EXPECT_EQ(counters["rndv_early_copies_made"], 1u) << counters.json();
    EXPECT_EQ(counters["rndv_early_copies_dropped"], 1u) << counters.json();
}

// The receiver fetches memory whose declaration has ended. Then memory is declared anew.
TEST_F(TagEarlyCopyTest, IsWorthNothingWithoutItsMemory) {
    EarlyCopyPair pair(staged());
    pair.warm_up();
    RendezvousMessage message(pair, kLength);
    message.from.undeclare();
    ASSERT_TRUE(pair.until([&] { return message.over(); }));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(message.receive.status));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(message.completion.status));
    EXPECT_TRUE(message.receive.clean());
    Declared other(pair.a.entity.host(), kLength);
    pair.exchange(2, other, kLength, 3);
    const Counters counters = pair.sent();
    EXPECT_EQ(counters["rndv_early_copies_dropped"], 1u) << counters.json();
    EXPECT_EQ(counters["rndv_early_copies_used"], 1u) << counters.json();
}

// There is only one staging memory, and no other can be registered.
TEST_F(TagEarlyCopyTest, RegistrationFails) {
    NEEDS_SOFTWARE_HCA();
    EarlyCopyPair pair(staged());
    pair.warm_up();
    Declared from(pair.a.entity.host(), kLength), other(pair.a.entity.host(), kLength);
    fill(other.part(0, kLength), 4);
    Completion completion, more;
    void* operation = pair.announce(1, from, kLength, completion);
    Receive receive(pair.b, kLength);
    ASSERT_STATUS(UCS_OK, receive.post(2));
    softhca::inject("reg-fail=1");
    (void)pair.begin(2, other, kLength, more);
    pair.expect(receive, more, 4);
    softhca::inject("none");
    EXPECT_STATUS(UCS_OK, uct_ep_tag_rndv_cancel(pair.ep.get(), operation));
    const Counters counters = pair.sent();
    EXPECT_EQ(counters["rndv_early_copies_dropped"], 1u) << counters.json();
}

}  // namespace tag_rndv_early_copy_test
}  // namespace uct_test
