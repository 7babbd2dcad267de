// SPDX-License-Identifier: BSD-3-Clause
// Operations that are accepted before there is a connection, and wait for it.
#include <memory>
#include <vector>

#include "../../softhca/device/fabric.h"
#include "transfer.h"

namespace uct_test {
namespace {

constexpr std::size_t kLength = 64;
constexpr std::size_t kMost = 8;  // messages that a connection keeps

class FirstSendTest : public TernTest {
  protected:
    FirstSendTest() {
        b_.handle(1, [this](Bytes message) {
            EXPECT_TRUE(same(message, pattern(received_, kLength))) << "message " << received_;
            ++received_;
        });
    }
    ucs_status_t send(const Endpoint& ep, Kind kind = Kind::kBcopy) {
        const Bytes message = pattern(sent_, kLength);
        ucs_status_t status = UCS_OK;
        if (kind == Kind::kShort) {
            status = am_short(ep, 1, message);
        } else if (kind == Kind::kBcopy) {
            status = am_bcopy(ep, 1, message);
        } else {
            std::copy(message.begin() + 8, message.end(), memory_.data());
            const uct_iov_t iov = memory_.iov(0, kLength - 8);
            status = am_zcopy(ep, 1, message.first(8), {&iov, 1}, &completion_);
            // The message was copied: the memory may be reused at once.
            std::fill_n(memory_.data(), kLength, std::byte{0});
        }
        if (!UCS_STATUS_IS_ERR(status)) ++sent_;
        return status;
    }
    bool has_atomics() const {
        return (a_.attr().cap.atomic64.fop_flags & UCS_BIT(UCT_ATOMIC_OP_CSWAP)) != 0;
    }
    testing::AssertionResult arrived() {
        return eventually(all_, [&] { return received_ == sent_; });
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Memory memory_{a_.host(), 4096};
    Completion completion_;
    std::size_t sent_ = 0, received_ = 0;
};

TEST_F(FirstSendTest, OfEachKindIsTaken) {
    for (const Kind kind : kKinds) {
        Entity c;
        const Endpoint ep = c.connect(b_);
        std::size_t received = 0;
        b_.handle(2, [&](Bytes) { ++received; });
        if (kind == Kind::kZcopy) {
            Memory memory(c.host(), 4096);
            const uct_iov_t iov = memory.iov(0, 100);
            EXPECT_STATUS(UCS_OK, am_zcopy(ep, 2, {}, {&iov, 1}, nullptr)) << "it is copied";
        } else {
            EXPECT_STATUS(UCS_OK, kind == Kind::kShort ? am_short(ep, 2, pattern(0, 24))
                                                       : am_bcopy(ep, 2, pattern(0, 5000)));
        }
        EXPECT_TRUE(eventually({&c, &b_}, [&] { return received == 1; })) << name(kind);
        b_.forget(2);
    }
}

TEST_F(FirstSendTest, SeveralAreSentInOrder) {
    const Endpoint ep = a_.connect(b_);
    for (std::size_t i = 0; i < kMost; ++i)
        ASSERT_STATUS(UCS_OK, send(ep, kKinds[i % std::size(kKinds)])) << i;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(accepted(all_, [&] { return send(ep); }));
    }
    EXPECT_TRUE(arrived()) << received_ << " of " << sent_;
}

// UCP, which sets rx_headroom, queues messages itself, except those that set up its endpoints,
// which have its first id.
TEST_F(FirstSendTest, OfUcpOnlyWhatSetsUpEndpointsIsTaken) {
    Entity c({}, std::make_shared<Host>(), as_ucp);
    const Endpoint ep = c.connect(b_);
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, am_bcopy(ep, 2, pattern(0, kLength)));
    EXPECT_STATUS(UCS_OK, send(ep));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, am_short(ep, 2, pattern(0, kLength)));
    EXPECT_TRUE(eventually({&c, &b_}, [&] { return received_ == 1; }));
}

// Endpoints of one connection share its limit; another connection has a limit of its own.
TEST_F(FirstSendTest, ABoundedNumberWaits) {
    Entity other;
    const Endpoint ep = a_.connect(b_), same = a_.connect(b_), away = a_.connect(other);
    ucs_status_t status = UCS_OK;
    while ((status = send(ep)) == UCS_OK) ASSERT_LE(sent_, kMost);
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, status);
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, send(same));
    EXPECT_STATUS(UCS_OK, am_bcopy(away, 3, pattern(0, 8)));
    Pending request([&] { return send(ep); });
    EXPECT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &request, 0));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, send(ep)) << "others were first";
    EXPECT_TRUE(eventually(all_, [&] { return received_ == kMost + 1; })) << received_;
}

TEST_F(FirstSendTest, NobodyIsToldToWaitWhereThereIsRoom) {
    const Endpoint ep = a_.connect(b_);
    Pending request([&] { return send(ep); });
    EXPECT_STATUS(UCS_ERR_BUSY, uct_ep_pending_add(ep.get(), &request, 0));
    ASSERT_STATUS(UCS_OK, send(ep));
    EXPECT_STATUS(UCS_ERR_BUSY, uct_ep_pending_add(ep.get(), &request, 0));
    EXPECT_TRUE(arrived());
}

TEST_F(FirstSendTest, FlushWaitsForIt) {
    NEEDS_SOFTWARE_HCA();
    const Endpoint ep = a_.connect(b_);
    conformance::softhca::inject("drop-qp=any");
    EXPECT_STATUS(UCS_OK, send(ep));
    Completion flush;
    EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush));
    EXPECT_STATUS(UCS_INPROGRESS, uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr));
    linger({&a_});
    EXPECT_EQ(flush.calls, 0) << "nobody has answered";
    end_faults();
    EXPECT_TRUE(eventually(all_, [&] { return flush.calls == 1; }));
    EXPECT_STATUS(UCS_OK, flush.status);
    EXPECT_TRUE(arrived());
    EXPECT_STATUS(UCS_OK, uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr));
}

TEST_F(FirstSendTest, IsNotLostWithItsEndpoint) {
    Endpoint ep = a_.connect(b_);
    for (int i = 0; i < 5; ++i) ASSERT_STATUS(UCS_OK, send(ep));
    ep.reset();
    EXPECT_TRUE(arrived()) << received_ << " of " << sent_;
    EXPECT_TRUE(a_.failures().empty());
}

// The connection of a destroyed endpoint is still being closed.
TEST_F(FirstSendTest, IsTakenWhileAnEarlierConnectionEnds) {
    for (int i = 0; i < 50; ++i) {
        Endpoint ep = a_.connect(b_);
        ASSERT_STATUS(UCS_OK, send(ep)) << i;
        ASSERT_TRUE(flush_wait(all_, ep));
        ep.reset();
        ep = a_.connect(b_);
        ASSERT_STATUS(UCS_OK, send(ep)) << i;
        for (int j = 0; j < i % 7; ++j) progress(all_);
    }
    EXPECT_TRUE(arrived()) << received_ << " of " << sent_;
    EXPECT_TRUE(a_.failures().empty());
}

// Both sides connect at once: one of two attempts that cross is given up.
TEST_F(FirstSendTest, AttemptsThatCrossLoseNothing) {
    for (int round = 0; round < 40; ++round) {
        Entity c, d;
        std::size_t at[2]{};
        c.handle(2, [&](Bytes) { ++at[0]; });
        d.handle(2, [&](Bytes) { ++at[1]; });
        Endpoint there = c.connect(d), back = d.connect(c);
        ASSERT_STATUS(UCS_OK, am_bcopy(there, 2, pattern(0, 100)));
        for (int i = 0; i < round % 5; ++i) c.progress();
        ASSERT_STATUS(UCS_OK, am_bcopy(back, 2, pattern(0, 100)));
        for (int i = 0; i < round / 5 % 4; ++i) d.progress();
        if (round % 2 != 0) there.reset();
        EXPECT_TRUE(eventually({&c, &d}, [&] { return at[0] == 1 && at[1] == 1; }))
            << "round " << round << ": " << at[0] << ", " << at[1];
        EXPECT_TRUE(c.failures().empty() && d.failures().empty());
    }
}

TEST_F(FirstSendTest, PutsAndGetsAreTaken) {
    constexpr std::size_t kBytes = 200'000;
    Declared target(b_.host(), kBytes), source(a_.host(), kBytes), copy(a_.host(), kBytes);
    fill({source.data(), kBytes}, 1);
    const RemoteKey key(a_.host(), target.remote());
    const auto to = reinterpret_cast<uint64_t>(target.data());
    {
        const Endpoint ep = a_.connect(b_);
        const uct_iov_t iov = source.iov(0, kBytes);
        Completion put;
        ASSERT_STATUS(UCS_INPROGRESS, put_zcopy(ep, {&iov, 1}, to, key, &put));
        EXPECT_TRUE(eventually(all_, [&] { return put.calls == 1; }));
        EXPECT_STATUS(UCS_OK, put.status);
        EXPECT_TRUE(filled({target.data(), kBytes}, 1));
    }
    Entity c;
    Declared here(c.host(), kBytes);
    const RemoteKey other(c.host(), target.remote());
    {
        const Endpoint ep = c.connect(b_);
        const uct_iov_t iov = here.iov(0, kBytes);
        Completion get;
        ASSERT_STATUS(UCS_INPROGRESS, get_zcopy(ep, {&iov, 1}, to, other, &get));
        EXPECT_TRUE(eventually({&c, &b_}, [&] { return get.calls == 1; }));
        EXPECT_STATUS(UCS_OK, get.status);
        EXPECT_TRUE(filled({here.data(), kBytes}, 1));
    }
    Entity d;
    const RemoteKey third(d.host(), target.remote());
    const Endpoint ep = d.connect(b_);
    ASSERT_STATUS(UCS_OK, put_short(ep, pattern(3, 16), to, third));
    ASSERT_STATUS(UCS_OK, put_bcopy(ep, pattern(4, 500), to + 100, third));
    ASSERT_TRUE(flush_wait({&d, &b_}, ep));
    EXPECT_TRUE(same({target.data(), 16}, pattern(3, 16)));
    EXPECT_TRUE(same({target.data() + 100, 500}, pattern(4, 500)));
}

// Puts to open memory are work requests, not transfers.
TEST_F(FirstSendTest, PutsToOpenMemoryAreTaken) {
    Memory target(b_.host(), 4096);
    const RemoteKey key(a_.host(), describe(b_.host(), target));
    const Endpoint ep = a_.connect(b_);
    const auto to = reinterpret_cast<uint64_t>(target.data());
    ASSERT_STATUS(UCS_OK, put_short(ep, pattern(3, 16), to, key));
    ASSERT_STATUS(UCS_OK, put_bcopy(ep, pattern(4, 500), to + 100, key));
    std::copy_n(pattern(5, 1000).begin(), 1000, memory_.data());
    const uct_iov_t iov = memory_.iov(0, 1000);
    Completion put;
    const ucs_status_t status = put_zcopy(ep, {&iov, 1}, to + 1000, key, &put);
    ASSERT_TRUE(status == UCS_OK || status == UCS_INPROGRESS) << Status{status};
    ASSERT_TRUE(flush_wait(all_, ep));
    EXPECT_TRUE(eventually(all_, [&] { return put.calls == (status == UCS_INPROGRESS); }));
    EXPECT_TRUE(same({target.data(), 16}, pattern(3, 16)));
    EXPECT_TRUE(same({target.data() + 100, 500}, pattern(4, 500)));
    EXPECT_TRUE(same({target.data() + 1000, 1000}, pattern(5, 1000)));
}

// Atomics keep their order among each other and with fences and puts.
TEST_F(FirstSendTest, AtomicsAreTaken) {
    if (!has_atomics()) GTEST_SKIP() << "the device has no atomics";
    Declared target(b_.host(), 4096, UCT_MD_MEM_ACCESS_ALL);
    auto& word = *reinterpret_cast<uint64_t*>(target.data());
    const uint64_t to = target.remote().address;
    for (int round = 0; round < 20; ++round) {
        Entity c;
        const RemoteKey key(c.host(), target.remote());
        const Endpoint ep = c.connect(b_);
        word = 40;
        uint64_t sum = 0, swapped = 0;
        const uint64_t later = 7;
        Completion fetch, swap;
        ASSERT_STATUS(UCS_OK, uct_ep_atomic64_post(ep.get(), UCT_ATOMIC_OP_ADD, 2, to, key.get()));
        ASSERT_STATUS(UCS_INPROGRESS, uct_ep_atomic64_fetch(ep.get(), UCT_ATOMIC_OP_ADD, 1, &sum,
                                                            to, key.get(), &fetch));
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_atomic_cswap64(ep.get(), 43, 50, to, key.get(), &swapped, &swap));
        ASSERT_STATUS(UCS_OK, uct_ep_fence(ep.get(), 0));
        ASSERT_STATUS(UCS_OK,
                      put_short(ep, {reinterpret_cast<const std::byte*>(&later), 8}, to, key));
        EXPECT_STATUS(UCS_INPROGRESS, uct_iface_flush(c.iface(), 0, nullptr));
        ASSERT_TRUE(flush_wait({&c, &b_}, ep));
        EXPECT_EQ(fetch.calls, 1);
        EXPECT_EQ(swap.calls, 1);
        EXPECT_STATUS(UCS_OK, fetch.status);
        EXPECT_EQ(sum, 42u);
        EXPECT_EQ(swapped, 43u);
        EXPECT_EQ(word, 7u);
    }
}

TEST_F(FirstSendTest, AtomicsEndWithTheirEndpoint) {
    if (!has_atomics()) GTEST_SKIP() << "the device has no atomics";
    Entity c(impatient());
    Declared target(b_.host(), 4096, UCT_MD_MEM_ACCESS_ALL);
    const RemoteKey key(c.host(), target.remote());
    const Address nobody = Entity().address();
    for (const bool destroyed : {true, false}) {
        SCOPED_TRACE(destroyed);
        Endpoint ep = c.connect(nobody);
        uint64_t result = 5;
        Completion fetch, flush;
        ASSERT_STATUS(UCS_OK, uct_ep_atomic64_post(ep.get(), UCT_ATOMIC_OP_ADD, 2,
                                                   target.remote().address, key.get()));
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_atomic64_fetch(ep.get(), UCT_ATOMIC_OP_ADD, 1, &result,
                                            target.remote().address, key.get(), &fetch));
        ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush));
        if (destroyed)
            ep.reset();
        else
            ASSERT_TRUE(eventually({&c}, [&] { return c.failures(ep) == 1; }));
        EXPECT_EQ(fetch.calls, 1);
        EXPECT_EQ(flush.calls, 1);
        EXPECT_STATUS(destroyed ? UCS_ERR_CANCELED : UCS_ERR_ENDPOINT_TIMEOUT, fetch.status);
        EXPECT_EQ(result, 5u);
        linger({&c});
        EXPECT_EQ(fetch.calls, 1);
    }
}

TEST_F(FirstSendTest, FailsWithTheEndpoint) {
    const Address nobody = Entity().address();
    Entity c(impatient());
    const Endpoint ep = c.connect(nobody);
    ASSERT_STATUS(UCS_OK, am_bcopy(ep, 1, pattern(0, 8)));
    Completion flush;
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush));
    Memory memory(c.host(), 4096);
    EXPECT_TRUE(eventually({&c}, [&] { return c.failures(ep) == 1 && flush.calls == 1; }));
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, flush.status);
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, c.failures()[0].status);
}

}  // namespace
}  // namespace uct_test
