// SPDX-License-Identifier: BSD-3-Clause
// Completion events: when an armed completion queue reports one, and how often.
#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "qp.h"

namespace conformance {
namespace {

class CqEventTest : public VerbsTest {
  protected:
    CqEventTest() { connect(hca_, a_, b_); }

    void write(uint64_t id) { ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, id).post(a_), 0); }

    void write_and_reap(uint64_t id) {
        write(id);
        ASSERT_TRUE(next_are(cq_, {id}));
    }

    // Sends a message from b to a and takes the completion of b's send.
    void message(uint64_t id, unsigned flags) {
        ASSERT_EQ(RecvWr(id).post(a_), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 0).flags(flags | IBV_SEND_SIGNALED).post(b_), 0);
        ASSERT_TRUE(next_are(b_cq_, {0}));
    }

    bool stays_silent() { return !readable(channel_->fd, kQuiet); }

    Channel channel_ = hca_.make_channel();
    Cq cq_ = hca_.make_cq(64, channel_.get(), &channel_);
    Cq b_cq_ = hca_.make_cq();
    Qp a_ = make_qp(pd_.get(), {}, cq_.get(), cq_.get());
    Qp b_ = make_qp(pd_.get(), {}, b_cq_.get(), b_cq_.get());
};

TEST_F(CqEventTest, UnarmedQueueIsSilent) {
    write_and_reap(1);
    EXPECT_TRUE(stays_silent());
}

TEST_F(CqEventTest, ArmingAnEmptyQueueDoesNotFire) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    EXPECT_TRUE(stays_silent());
}

TEST_F(CqEventTest, ArmedQueueFiresForTheNextCompletionOnce) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    write(1);
    EXPECT_EQ(wait_cq_event(channel_.get()), cq_.get());
    ASSERT_TRUE(next_are(cq_, {1}));
    write_and_reap(2);
    EXPECT_TRUE(stays_silent());
}

TEST_F(CqEventTest, PublicMemberCountsWhatIsAcknowledged) {
    EXPECT_EQ(cq_->comp_events_completed, 0u);
    for (uint32_t i = 1; i <= 3; ++i) {
        ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
        write_and_reap(i);
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
        EXPECT_EQ(cq_->comp_events_completed, i - 1) << "one is yet to be acknowledged";
        ibv_ack_cq_events(cq, 1);
        EXPECT_EQ(cq_->comp_events_completed, i);
    }
    EXPECT_EQ(cq_->async_events_completed, 0u);
}

TEST_F(CqEventTest, FiresForACompletionThatIsPolledAtOnce) {
    for (uint64_t i = 1; i <= 20000; ++i) {
        ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
        write_and_reap(i);
        ASSERT_TRUE(readable(channel_->fd, deadline())) << "round " << i;
        EXPECT_EQ(wait_cq_event(channel_.get()), cq_.get());
    }
}

TEST_F(CqEventTest, ArmedTwiceFiresOnce) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    write(1);
    wait_cq_event(channel_.get());
    write(2);
    ASSERT_TRUE(next_are(cq_, {1, 2}));
    EXPECT_TRUE(stays_silent());
}

TEST_F(CqEventTest, ArmPollSleepLosesNothing) {
    // The loop of a program that blocks: arm, empty the queue, sleep.
    constexpr int kCount = 200;
    std::atomic<bool> stop{false};
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    std::thread poster([&] {
        for (int i = 0; i < kCount && !stop; ++i) {
            while (SendWr(IBV_WR_RDMA_WRITE, i).post(a_) != 0 && !stop) std::this_thread::yield();
            if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    });
    int seen = 0;
    bool slept_too_long = false;
    while (seen < kCount && !slept_too_long) {
        ibv_wc wc;
        int n;
        while ((n = ibv_poll_cq(cq_.get(), 1, &wc)) > 0) {
            EXPECT_TRUE(is_done(wc, seen));
            ++seen;
        }
        if (seen == kCount) break;
        slept_too_long = !readable(channel_->fd, deadline());
        if (!slept_too_long) {
            wait_cq_event(channel_.get());
            EXPECT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
        }
    }
    stop = true;
    poster.join();
    EXPECT_FALSE(slept_too_long) << "slept with " << kCount - seen << " completions outstanding";
}

TEST_F(CqEventTest, RearmedAfterEmptyingItIsSilentUntilTheNextCompletion) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    write(1);
    wait_cq_event(channel_.get());
    ASSERT_TRUE(next_are(cq_, {1}));
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    EXPECT_TRUE(stays_silent());
    write(2);
    wait_cq_event(channel_.get());
    ASSERT_TRUE(next_are(cq_, {2}));
}

TEST_F(CqEventTest, SolicitedOnlyPassesOverSendsAndUnsolicitedMessages) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
    write_and_reap(1);
    message(2, 0);
    ASSERT_TRUE(next_are(cq_, {2}));
    EXPECT_TRUE(stays_silent());
    message(3, IBV_SEND_SOLICITED);
    wait_cq_event(channel_.get());
    ASSERT_TRUE(next_are(cq_, {3}));
}

TEST_F(CqEventTest, SolicitedWriteWithImmediateFires) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
    ASSERT_EQ(RecvWr(1).post(a_), 0);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE_WITH_IMM)
                  .imm(7)
                  .flags(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)
                  .post(b_),
              0);
    wait_cq_event(channel_.get());
    ASSERT_TRUE(next_are(cq_, {1}));
}

TEST_F(CqEventTest, SolicitedOnlyFiresForErrors) {
    ASSERT_EQ(RecvWr(1).post(a_), 0);
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
    apply_all(a_.get(), {to_state(IBV_QPS_ERR)});
    wait_cq_event(channel_.get());
    ASSERT_TRUE(next_are(cq_, {1}, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(CqEventTest, ArmingForAllIsNotWeakenedByArmingForSolicited) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
    write(1);
    wait_cq_event(channel_.get());
    ASSERT_TRUE(next_are(cq_, {1}));
}

TEST_F(CqEventTest, EventsOfTwoQueuesMeetInOneChannel) {
    Cq second = hca_.make_cq(64, channel_.get(), &cq_);
    Qp c = make_qp(pd_.get(), {}, second.get(), second.get());
    Qp d = make_qp(pd_.get(), {}, b_cq_.get(), b_cq_.get());
    connect(hca_, c, d);
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(second.get(), 0), 0);
    write(1);
    EXPECT_EQ(wait_cq_event(channel_.get()), cq_.get());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2).post(c), 0);
    EXPECT_EQ(wait_cq_event(channel_.get()), second.get());
    ASSERT_TRUE(next_are(cq_, {1}));
    ASSERT_TRUE(next_are(second, {2}));
}

TEST_F(CqEventTest, NonBlockingChannelSaysSo) {
    const int flags = fcntl(channel_->fd, F_GETFL);
    ASSERT_EQ(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), 0);
    ibv_cq* cq;
    void* cq_context;
    errno = 0;
    EXPECT_EQ(ibv_get_cq_event(channel_.get(), &cq, &cq_context), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(CqEventTest, ChannelIsBusyWhileAQueueUsesIt) {
    EXPECT_EQ(ibv_destroy_comp_channel(channel_.get()), EBUSY);
}

TEST_F(CqEventTest, DestroyingTheQueueWaitsForTheEventToBeAcknowledged) {
    ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
    write(1);
    ASSERT_TRUE(readable(channel_->fd, deadline()));
    ibv_cq* cq;
    void* cq_context;
    ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &cq_context), 0);
    ASSERT_TRUE(next_are(cq_, {1}));
    a_.reset();
    std::atomic<bool> acknowledged{false};
    std::thread destroyer([&] {
        cq_.reset();
        EXPECT_TRUE(acknowledged) << "destroyed with an event not acknowledged";
    });
    std::this_thread::sleep_for(kQuiet);
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
    destroyer.join();
}

TEST_F(CqEventTest, EventNotYetReadDiesWithItsQueue) {
    Channel channel = hca_.make_channel();
    Cq cq = hca_.make_cq(16, channel.get());
    Qp c = make_qp(pd_.get(), {}, cq.get(), cq.get());
    Qp d = make_qp(pd_.get(), {}, b_cq_.get(), b_cq_.get());
    connect(hca_, c, d);
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).post(c), 0);
    ASSERT_TRUE(readable(channel->fd, deadline()));
    c.reset();
    cq.reset();
    EXPECT_FALSE(readable(channel->fd, milliseconds(0)));
}

}  // namespace
}  // namespace conformance
