// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events of queue pairs, and acknowledging them. The tests of errors and of shared
// receive queues cover the events that belong to these.
#include <atomic>
#include <thread>

#include "qp.h"

namespace conformance {
namespace {

using QpEventTest = VerbsTest;

TEST_F(QpEventTest, FirstPacketBeforeReadyToSendEstablishesCommunication) {
    Endpoint a(hca_, pd_.get());
    Endpoint b(hca_, pd_.get());
    apply_all(b.qp.get(),
              {to_init(hca_, b.spec), to_rtr(hca_, b.spec, as_peer(hca_, a.qp.get(), a.spec))});
    bring_up(hca_, a.qp.get(), a.spec, as_peer(hca_, b.qp.get(), b.spec));
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).post(a.qp), 0);
    EXPECT_TRUE(next_are(a.send_cq, {1}));
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_COMM_EST).element.qp, b.qp.get());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2).post(a.qp), 0);
    EXPECT_TRUE(next_are(a.send_cq, {2}));
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_COMM_EST)) << "only the first packet says so";
}

TEST_F(QpEventTest, ReadyToSendQueuePairNeedsNoEvent) {
    Pair pair(hca_, pd_.get());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_COMM_EST));
}

class LastWqeTest : public VerbsTest {
  protected:
    void SetUp() override {
        if (hca_.attr().max_srq == 0) GTEST_SKIP() << "no shared receive queues";
        static const bool announces = announces_last_receive();
        if (!announces) GTEST_SKIP() << "no event IBV_EVENT_QP_LAST_WQE_REACHED";
    }

  private:
    // No attribute says whether a device has the event.
    bool announces_last_receive() const {
        Srq srq = make_srq(pd_.get());
        QpSpec attached;
        attached.srq = srq.get();
        Endpoint end(hca_, pd_.get(), attached);
        apply_all(end.qp.get(), {to_init(hca_, attached), to_state(IBV_QPS_ERR)});
        if (!readable(hca_.get()->async_fd, milliseconds(300))) return false;
        return wait_event(hca_, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp == end.qp.get();
    }
};

TEST_F(LastWqeTest, RemoteErrorReachesTheLastReceiveOfASharedQueue) {
    Srq srq = make_srq(pd_.get());
    QpSpec attached = quick();
    attached.srq = srq.get();
    Pair pair(hca_, pd_.get(), quick(), attached);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 8))
                  .remote(pair.b_mem.addr(), pair.b_mem.rkey() ^ 1)
                  .post(pair.a.qp),
              0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_REM_ACCESS_ERR));
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp, pair.b.qp.get());
}

TEST_F(LastWqeTest, PublicMemberCountsWhatIsAcknowledged) {
    Srq srq = make_srq(pd_.get());
    QpSpec attached = quick();
    attached.srq = srq.get();
    Pair pair(hca_, pd_.get(), quick(), attached);
    EXPECT_EQ(pair.b.qp->events_completed, 0u);
    apply_all(pair.b.qp.get(), {to_state(IBV_QPS_ERR)});
    wait_event(hca_, IBV_EVENT_QP_LAST_WQE_REACHED);  // also acknowledges it
    EXPECT_EQ(pair.b.qp->events_completed, 1u);
}

TEST_F(LastWqeTest, QueuePairWithItsOwnReceivesHasNoSuchEvent) {
    Pair pair(hca_, pd_.get());
    apply_all(pair.a.qp.get(), {to_state(IBV_QPS_ERR)});
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_QP_LAST_WQE_REACHED));
}

TEST_F(LastWqeTest, DestroyingTheQueuePairWaitsForTheEventToBeAcknowledged) {
    Srq srq = make_srq(pd_.get());
    QpSpec attached;
    attached.srq = srq.get();
    Endpoint end(hca_, pd_.get(), attached);
    bring_up(hca_, end.qp.get(), attached, as_peer(hca_, end.qp.get(), attached));
    apply_all(end.qp.get(), {to_state(IBV_QPS_ERR)});
    ASSERT_TRUE(readable(hca_.get()->async_fd, deadline()));
    ibv_async_event event;
    ASSERT_EQ(ibv_get_async_event(hca_.get(), &event), 0);
    ASSERT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    std::atomic<bool> acknowledged{false};
    std::thread destroyer([&] {
        end.qp.reset();
        EXPECT_TRUE(acknowledged) << "destroyed with an event not acknowledged";
    });
    std::this_thread::sleep_for(kQuiet);
    acknowledged = true;
    ibv_ack_async_event(&event);
    destroyer.join();
}

TEST_F(LastWqeTest, EventNotYetReadDiesWithItsQueuePair) {
    Srq srq = make_srq(pd_.get());
    QpSpec attached;
    attached.srq = srq.get();
    {
        Endpoint end(hca_, pd_.get(), attached);
        bring_up(hca_, end.qp.get(), attached, as_peer(hca_, end.qp.get(), attached));
        apply_all(end.qp.get(), {to_state(IBV_QPS_ERR)});
        ASSERT_TRUE(readable(hca_.get()->async_fd, deadline()));
    }
    EXPECT_FALSE(readable(hca_.get()->async_fd, milliseconds(0)));
}

}  // namespace
}  // namespace conformance
