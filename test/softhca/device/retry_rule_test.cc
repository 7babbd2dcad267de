// SPDX-License-Identifier: BSD-3-Clause
// Rules of personalities about time: when a failed queue pair flushes, how timers count, and how
// long retries go on.
#include "fabric.h"

namespace conformance::softhca::retry_rule {
namespace {

class RetryRuleTest : public FabricTest {
  protected:
    // Runs `body` with a connection whose `a` has the attributes of `spec`, under these rules.
    static void with_pair(const char* rules, const QpSpec& spec,
                          const std::function<void(Pair& pair)>& body) {
        set("RULES", rules);
        alone([&] {
            const Hca hca;
            const Pd pd = hca.make_pd();
            Pair pair(hca, pd.get(), spec);
            body(pair);
        });
    }
    static void send(const Pair& pair, uint64_t id) {
        ASSERT_EQ(SendWr(IBV_WR_SEND, id).sge(pair.a_mem.sge(0, 8)).post(pair.a.qp), 0);
    }
};

// One waits for a receive when the queue pair fails, and one is posted afterwards.
TEST_F(RetryRuleTest, SendsOfAFailedQueuePairAreFlushedInTime) {
    with_pair("flush-delay=20", {}, [](Pair& pair) {
        send(pair, 1);
        const Stopwatch watch;
        apply_all(pair.a.qp.get(), {to_state(IBV_QPS_ERR)});
        send(pair, 2);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1, 2}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_GE(watch.elapsed().count(), 20);
        send(pair, 3);
        EXPECT_TRUE(next_are(pair.a.send_cq, {3}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_GE(watch.elapsed().count(), 40);
    });
}

TEST_F(RetryRuleTest, SendsThatAreNotFlushedYetAreForgottenInReset) {
    with_pair("flush-delay=20", {}, [](Pair& pair) {
        send(pair, 1);
        apply_all(pair.a.qp.get(), {to_state(IBV_QPS_ERR), to_state(IBV_QPS_RESET)});
        EXPECT_TRUE(quiet(pair.a.send_cq));
    });
}

// What waits is not carried out any more, though it has not been flushed yet.
TEST_F(RetryRuleTest, NothingIsSentBetweenTheErrorAndTheFlush) {
    with_pair("flush-delay=100", {}, [](Pair& pair) {
        send(pair, 1);
        apply_all(pair.a.qp.get(), {to_state(IBV_QPS_ERR)});
        ASSERT_EQ(RecvWr(2).sge(pair.b_mem.sge(0, 64)).post(pair.b.qp), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(quiet(pair.b.recv_cq));
    });
}

TEST_F(RetryRuleTest, ReceiverNotReadyTimersCountInSteps) {
    QpSpec spec;
    spec.rnr_retry = 2;
    with_pair("timer-step=20000", spec, [](Pair& pair) {
        const Stopwatch watch;
        send(pair, 1);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RNR_RETRY_EXC_ERR));
        EXPECT_GE(watch.elapsed().count(), 40) << "two retries, 0.01 ms each without the rule";
    });
}

TEST_F(RetryRuleTest, SevenRetriesMayHaveNoEnd) {
    QpSpec spec = quick();
    spec.retries = 7;
    for (const bool forever : {false, true}) {
        with_pair(forever ? "retry-forever=1" : "", spec, [forever](Pair& pair) {
            ASSERT_EQ(RecvWr(2).sge(pair.b_mem.sge(0, 64)).post(pair.b.qp), 0);
            inject("drop-qp=" + std::to_string(pair.a.qp->qp_num));
            send(pair, 1);
            if (!forever) {
                EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
                return;
            }
            EXPECT_TRUE(comes([] { return sum(status(), "retransmissions") > 20; }));
            inject("drop-qp=none");
            EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
        });
    }
}

}  // namespace
}  // namespace conformance::softhca::retry_rule
