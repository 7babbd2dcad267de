// SPDX-License-Identifier: BSD-3-Clause
// Flush of endpoints and interfaces.
#include "message.h"

namespace uct_test {
namespace {

class FlushTest : public testing::Test {
  protected:
    FlushTest() {
        b_.handle(1, [this](Bytes) { ++received_; });
    }
    ucs_status_t send() {
        const ucs_status_t status = am_bcopy(ep_, 1, pattern(0, 200));
        if (status == UCS_OK) ++sent_;
        return status;
    }
    ucs_status_t flush(Completion* completion = nullptr) {
        return uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_LOCAL, completion);
    }
    void warm_up() {
        ASSERT_TRUE(accepted(all_, [&] { return send(); }));
        ASSERT_TRUE(eventually(all_, [&] { return received_ == sent_; }));
        ASSERT_TRUE(eventually(all_, [&] { return flush() == UCS_OK; }));
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Endpoint ep_ = a_.connect(b_);
    std::size_t sent_ = 0, received_ = 0;
};

TEST_F(FlushTest, NothingWasEverSent) {
    if (!is_tern()) GTEST_SKIP() << "only Tern connects on first use";
    EXPECT_STATUS(UCS_OK, flush());
    Completion completion;
    EXPECT_STATUS(UCS_OK, flush(&completion));
    EXPECT_STATUS(UCS_OK, uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr));
    linger(all_);
    EXPECT_EQ(completion.calls, 0);
}

TEST_F(FlushTest, NothingIsOutstanding) {
    warm_up();
    Completion completion;
    EXPECT_STATUS(UCS_OK, flush(&completion));
    EXPECT_STATUS(UCS_OK, uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr));
    linger(all_);
    EXPECT_EQ(completion.calls, 0);
}

TEST_F(FlushTest, CompletesAfterAllMessages) {
    warm_up();
    for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < round; ++i) {
            ASSERT_TRUE(accepted(all_, [&] { return send(); }));
        }
        Completion completion;
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(all_, [&] { return status = flush(&completion); }));
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1; })) << round;
            EXPECT_STATUS(UCS_OK, completion.status);
        }
        EXPECT_STATUS(UCS_OK, flush());
        linger(all_, milliseconds(0));
        EXPECT_EQ(completion.calls, status == UCS_INPROGRESS ? 1 : 0);
    }
    ASSERT_TRUE(eventually(all_, [&] { return received_ == sent_; }));
}

// Several flushes at a time, each with a completion of its own and with a common one.
TEST_F(FlushTest, ManyAtOnce) {
    warm_up();
    Completion common(10);
    std::array<Completion, 10> own;
    int common_left = 0;
    std::array<bool, 10> waits{};
    for (std::size_t i = 0; i < 10; ++i) {
        ASSERT_TRUE(accepted(all_, [&] { return send(); }));
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(all_, [&] { return status = flush(&common); }));
        common_left += status == UCS_INPROGRESS;
        ASSERT_TRUE(accepted(all_, [&] { return status = flush(&own[i]); }));
        waits[i] = status == UCS_INPROGRESS;
    }
    common.count -= 10 - common_left;
    ASSERT_TRUE(eventually(all_, [&] { return common.count == 0 && flush() == UCS_OK; }));
    EXPECT_EQ(common.calls, common_left ? 1 : 0);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(own[i].calls, waits[i] ? 1 : 0) << i;
}

TEST_F(FlushTest, PolledWithoutCompletion) {
    warm_up();
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(accepted(all_, [&] { return send(); }));
    ASSERT_TRUE(eventually(all_, [&] {
        const ucs_status_t status = flush();
        EXPECT_TRUE(status == UCS_OK || status == UCS_INPROGRESS || status == UCS_ERR_NO_RESOURCE)
            << Status{status};
        return status == UCS_OK;
    }));
    ASSERT_TRUE(eventually(all_, [&] { return received_ == sent_; }));
}

TEST_F(FlushTest, InterfaceCoversAllEndpoints) {
    Entity c;
    std::size_t at_c = 0;
    c.handle(1, [&](Bytes) { ++at_c; });
    const Endpoint to_c = a_.connect(c);
    const Group all{&a_, &b_, &c};
    for (std::size_t i = 1; i <= 50; ++i) {
        ASSERT_TRUE(accepted(all, [&] { return send(); }));
        ASSERT_TRUE(accepted(all, [&] { return am_bcopy(to_c, 1, pattern(0, 100)); }));
        ASSERT_TRUE(eventually(all, [&] {
            return uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
        }));
        ASSERT_TRUE(eventually(all, [&] { return at_c == i && received_ == sent_; }));
    }
}

TEST_F(FlushTest, WaitsBehindPendingRequests) {
    warm_up();
    ucs_status_t status;
    while ((status = send()) == UCS_OK) ASSERT_LT(sent_, 1000000u);
    ASSERT_STATUS(UCS_ERR_NO_RESOURCE, status);
    bool sent = false;
    Pending message([&] {
        const ucs_status_t result = send();
        sent = result == UCS_OK;
        return result;
    });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &message, 0));
    Completion completion;
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, flush(&completion));
    // UCX's manual advises this.
    ucs_status_t flushed = UCS_ERR_NO_RESOURCE;
    Pending retry([&] {
        EXPECT_TRUE(sent);
        flushed = flush(&completion);
        return flushed == UCS_INPROGRESS ? UCS_OK : flushed;
    });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &retry, 0));
    ASSERT_TRUE(eventually(all_, [&] { return flushed == UCS_OK || completion.calls == 1; }));
    EXPECT_TRUE(eventually(all_, [&] { return received_ == sent_; }));
}

// After a flush the messages arrive even if the sender makes no more progress.
TEST_F(FlushTest, FlushedMessagesNeedNoSender) {
    warm_up();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(accepted(all_, [&] { return send(); }));
    ASSERT_TRUE(eventually({&a_, &b_}, [&] { return flush() == UCS_OK; }));
    EXPECT_TRUE(eventually({&b_}, [&] { return received_ == sent_; }));
}

TEST_F(FlushTest, FenceKeepsMessagesFlowing) {
    EXPECT_STATUS(UCS_OK, uct_ep_fence(ep_.get(), 0));
    EXPECT_STATUS(UCS_OK, uct_iface_fence(a_.iface(), 0));
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(accepted(all_, [&] { return send(); }));
        EXPECT_STATUS(UCS_OK, uct_ep_fence(ep_.get(), 0));
        EXPECT_STATUS(UCS_OK, uct_iface_fence(a_.iface(), 0));
    }
    EXPECT_TRUE(eventually(all_, [&] { return received_ == sent_; }));
}

// There is no room for a request that would report the end, and the peer takes nothing.
TEST_F(FlushTest, CancelNeedsNoRoom) {
    warm_up();
    ucs_status_t status;
    while ((status = send()) == UCS_OK) ASSERT_LT(sent_, 1000000u);
    ASSERT_STATUS(UCS_ERR_NO_RESOURCE, status);
    Completion completion;
    status = uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_CANCEL, &completion);
    EXPECT_TRUE(status == UCS_OK || status == UCS_INPROGRESS) << Status{status};
    if (status == UCS_INPROGRESS) {
        EXPECT_TRUE(eventually({&a_}, [&] { return completion.calls == 1; }));
    }
    EXPECT_TRUE(a_.failures().empty());
}

TEST_F(FlushTest, CancelEndsWhatIsUnderWay) {
    warm_up();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(accepted(all_, [&] { return send(); }));
    Completion completion;
    ucs_status_t status = UCS_OK;
    ASSERT_TRUE(accepted(all_, [&] {
        return status = uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_CANCEL, &completion);
    }));
    if (status == UCS_INPROGRESS) {
        ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1; }));
    }
    ep_.reset();
    linger(all_);
    EXPECT_LE(received_, sent_);
    EXPECT_TRUE(a_.failures().empty());
}

}  // namespace
}  // namespace uct_test
