// SPDX-License-Identifier: BSD-3-Clause
// Several threads, each with its own objects or with shared ones.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

constexpr int kThreads = 4;
constexpr uint64_t kEach = 500;

// Runs a body in a thread; an exception from it fails the test, not the program.
void guarded(const std::function<void()>& body) {
    try {
        body();
    } catch (const std::exception& error) {
        ADD_FAILURE() << "in a thread: " << error.what();
    }
}

class ThreadTest : public VerbsTest {
  protected:
    static void run(const std::function<void(int)>& body) {
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i)
            threads.emplace_back([&body, i] { guarded([&] { body(i); }); });
        for (std::thread& thread : threads) thread.join();
    }

    // Posts; while the queue is full, calls `meanwhile` and tries again.
    template <typename Request, typename Queue>
    static void insist(Request& request, Queue* queue, const std::function<void()>& meanwhile) {
        const auto end = Clock::now() + deadline();
        while (int rc = request.post(queue)) {
            if (Clock::now() > end) fail("post: " + std::to_string(rc));
            meanwhile();
            std::this_thread::yield();
        }
    }
};

// Checks that each id of [0, kThreads * kEach) completes exactly once.
class Roll {
  public:
    // Takes one completion, if there is one.
    void take(const Cq& cq) {
        ibv_wc wc;
        if (ibv_poll_cq(cq.get(), 1, &wc) == 1) enter(wc);
    }

    void enter(const ibv_wc& wc) {
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
        ASSERT_LT(wc.wr_id, seen_.size());
        EXPECT_EQ(seen_[wc.wr_id].fetch_add(1), 0) << "completion " << wc.wr_id << " came twice";
        ++count_;
    }
    uint64_t count() const { return count_; }

  private:
    std::vector<std::atomic<int>> seen_ = std::vector<std::atomic<int>>(kThreads * kEach);
    std::atomic<uint64_t> count_{0};
};

TEST_F(ThreadTest, EachOnItsOwnConnection) {
    run([this](int i) {
        Pair pair(hca_, pd_.get());
        for (uint64_t id = 0; id < kEach; ++id) {
            pair.a_mem.word(0) = id * kThreads + i;
            ASSERT_EQ(RecvWr(id).sge(pair.b_mem.sge(0, 8)).post(pair.b.qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, id).sge(pair.a_mem.sge(0, 8)).post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.b.recv_cq, {id}));
            ASSERT_TRUE(next_are(pair.a.send_cq, {id}));
            ASSERT_EQ(pair.b_mem.word(0), id * kThreads + i);
        }
    });
}

TEST_F(ThreadTest, AllPostToOneQueuePairAndAllPollOneQueue) {
    Pair pair(hca_, pd_.get());
    Roll roll;
    run([&](int i) {
        for (uint64_t n = 0; n < kEach; ++n) {
            SendWr wr(IBV_WR_RDMA_WRITE, i * kEach + n);
            wr.sge(pair.a_mem.sge(8 * i, 8)).remote(pair.b_mem, 8 * i);
            insist(wr, pair.a.qp.get(), [&] { roll.take(pair.a.send_cq); });
            roll.take(pair.a.send_cq);
        }
    });
    while (roll.count() < kThreads * kEach) roll.enter(poll_one(pair.a.send_cq));
    EXPECT_TRUE(quiet(pair.a.send_cq));
}

TEST_F(ThreadTest, AllPostToOneSharedReceiveQueue) {
    if (hca_.attr().max_srq == 0) GTEST_SKIP() << "no shared receive queues";
    Srq srq = make_srq(pd_.get(), 32, 1);
    QpSpec attached;
    attached.srq = srq.get();
    Pair pair(hca_, pd_.get(), {}, attached);
    Roll roll;
    std::thread sender([&] {
        guarded([&] {
            for (uint64_t i = 0; i < kThreads * kEach; ++i) {
                ASSERT_EQ(SendWr(IBV_WR_SEND, i).post(pair.a.qp), 0);
                ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
            }
        });
    });
    run([&](int i) {
        for (uint64_t n = 0; n < kEach; ++n) {
            RecvWr wr(i * kEach + n);
            insist(wr, srq.get(), [&] { roll.take(pair.b.recv_cq); });
            roll.take(pair.b.recv_cq);
        }
        while (roll.count() < kThreads * kEach && !HasFailure()) roll.take(pair.b.recv_cq);
    });
    sender.join();
}

TEST_F(ThreadTest, PostersAndPollersOfOneConnectionInBothDirections) {
    Pair pair(hca_, pd_.get());
    run([&](int i) {
        Endpoint& end = i % 2 ? pair.a : pair.b;
        for (uint64_t id = 0; id < kEach; ++id) {
            if (i < 2) {  // one thread posts sends for each end
                ASSERT_EQ(SendWr(IBV_WR_SEND, id).post(end.qp), 0);
                ASSERT_TRUE(next_are(end.send_cq, {id}));
            } else {
                ASSERT_EQ(RecvWr(id).post(end.qp), 0);
                ASSERT_TRUE(next_are(end.recv_cq, {id}));
            }
        }
    });
}

TEST_F(ThreadTest, ObjectsComeAndGoWhileOthersAreUsed) {
    run([](int i) {
        for (int round = 0; round < 30; ++round) {
            Hca hca;
            Pd pd = hca.make_pd();
            Pair pair(hca, pd.get());
            pair.a_mem.word(0) = round * kThreads + i;
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                          .sge(pair.a_mem.sge(0, 8))
                          .remote(pair.b_mem)
                          .post(pair.a.qp),
                      0);
            ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
            ASSERT_EQ(pair.b_mem.word(0), static_cast<uint64_t>(round * kThreads + i));
        }
    });
}

TEST_F(ThreadTest, QueuePairsAreDestroyedUnderTraffic) {
    // The sender keeps sending while its peer is destroyed; it must get proper error completions.
    for (int round = 0; round < 10; ++round) {
        Pair pair(hca_, pd_.get(), quick());
        std::atomic<bool> started{false};
        auto send = [&] {
            const auto end = Clock::now() + deadline();
            for (uint64_t i = 0; Clock::now() < end; ++i) {
                ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i)
                              .sge(pair.a_mem.sge(0, 4096))
                              .remote(pair.b_mem)
                              .post(pair.a.qp),
                          0);
                const ibv_wc wc = poll_one(pair.a.send_cq);
                started = true;
                if (wc.status == IBV_WC_SUCCESS) continue;
                EXPECT_TRUE(is_done(wc, i, IBV_WC_RETRY_EXC_ERR));
                return;
            }
            ADD_FAILURE() << "the peer's end was not noticed";
        };
        std::thread sender([&] { guarded(send); });
        while (!started && !HasFailure()) std::this_thread::yield();
        pair.b.qp.reset();
        sender.join();
    }
}

TEST_F(ThreadTest, RegionsAreDeregisteredUnderTraffic) {
    for (int round = 0; round < 10; ++round) {
        Pair pair(hca_, pd_.get(), quick());
        const uint32_t rkey = pair.b_mem.rkey();
        std::atomic<bool> started{false};
        auto send = [&] {
            const auto end = Clock::now() + deadline();
            for (uint64_t i = 0; Clock::now() < end; ++i) {
                ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i)
                              .sge(pair.a_mem.sge(0, 4096))
                              .remote(pair.b_mem.addr(), rkey)
                              .post(pair.a.qp),
                          0);
                const ibv_wc wc = poll_one(pair.a.send_cq);
                started = true;
                if (wc.status == IBV_WC_SUCCESS) continue;
                EXPECT_TRUE(is_done(wc, i, IBV_WC_REM_ACCESS_ERR));
                return;
            }
            ADD_FAILURE() << "the end of the region was not noticed";
        };
        std::thread sender([&] { guarded(send); });
        while (!started && !HasFailure()) std::this_thread::yield();
        pair.b_mem.deregister();
        // From here on the device must not write to the memory.
        const uint8_t mark = 0x77;
        std::fill_n(pair.b_mem.data(), 4096, mark);
        sender.join();
        EXPECT_TRUE(pair.b_mem.is_all(mark, 0, 4096));
    }
}

}  // namespace
}  // namespace conformance
