// SPDX-License-Identifier: BSD-3-Clause
// Reliable connections: requests that the responder refuses, and what both sides see then.
#include <functional>
#include <ostream>
#include <tuple>
#include <utility>

#include "qp.h"

namespace conformance {
namespace {

enum class Op { kWrite, kWriteImm, kRead, kAtomic };

constexpr const char* kOpNames[] = {"Write", "WriteImm", "Read", "Atomic"};

// The request of a, with id 1, for an operation on `size` bytes at `addr`.
SendWr request(Op op, const Region& local, uint64_t addr, uint32_t rkey, std::size_t size = 8) {
    constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                          IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    SendWr wr(kOpcodes[static_cast<int>(op)], 1);
    wr.sge(local.sge(0, size));
    if (op == Op::kAtomic)
        wr.atomic(addr, rkey, 1);
    else
        wr.remote(addr, rkey);
    return wr;
}

class RcRemoteTest : public VerbsTest {
  protected:
    // Request 1 fails with `status`, and the requests after it are flushed. The responder goes to
    // the error state too and flushes its receives.
    static void expect_refused(Pair& pair, SendWr wr, ibv_wc_status status) {
        ASSERT_EQ(RecvWr(20).post(pair.b.qp), 0);
        ASSERT_EQ(RecvWr(21).post(pair.b.qp), 0);
        pair.a_mem.fill(1, 0, 8);
        ASSERT_EQ(wr.post(pair.a.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, status));
        EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_ERR);
        EXPECT_TRUE(reaches(pair.b.qp, IBV_QPS_ERR));
        // A write with immediate data may have consumed the first receive already.
        const ibv_wc first = poll_one(pair.b.recv_cq);
        EXPECT_EQ(first.wr_id, 20u);
        EXPECT_NE(first.status, IBV_WC_SUCCESS);
        if (wr.raw().opcode != IBV_WR_RDMA_WRITE_WITH_IMM) {
            EXPECT_TRUE(is_done(first, 20, IBV_WC_WR_FLUSH_ERR));
        }
        EXPECT_TRUE(next_are(pair.b.recv_cq, {21}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(pair.b_mem.is_all(0, 0, 64)) << "a refused request had an effect";
    }

    bool lacks(Op op) const { return op == Op::kAtomic && !hca_.has_atomics(); }
};

struct BadTarget {
    const char* name;
    // The address and the remote key to use instead of the valid ones.
    std::function<std::pair<uint64_t, uint32_t>(const Region&)> make;
};

const BadTarget kBadTargets[] = {
    {"UnknownKey",
     [](auto& r) {
         return std::pair{r.addr(), r.rkey() ^ 0x5a5a5a00};
     }},
    {"KeyWithAnotherTag",
     [](auto& r) {
         return std::pair{r.addr(), r.rkey() ^ 1};
     }},
    {"BeyondTheEnd",
     [](auto& r) {
         return std::pair{r.addr(r.size()), r.rkey()};
     }},
    {"BeforeTheStart",
     [](auto& r) {
         return std::pair{r.addr() - 8, r.rkey()};
     }},
    {"AtTheEndOfTheAddressSpace",
     [](auto& r) {
         return std::pair{UINT64_MAX - 7, r.rkey()};
     }},
};

void PrintTo(Op op, std::ostream* out) {
    *out << kOpNames[static_cast<int>(op)];
}

using TargetCase = std::tuple<Op, BadTarget>;

void PrintTo(const BadTarget& bad, std::ostream* out) {
    *out << bad.name;
}

class RcBadTargetTest : public RcRemoteTest, public testing::WithParamInterface<TargetCase> {};

TEST_P(RcBadTargetTest, IsARemoteAccessError) {
    const auto& [op, bad] = GetParam();
    if (lacks(op)) GTEST_SKIP() << "no atomics";
    Pair pair(hca_, pd_.get(), quick());
    const auto [addr, rkey] = bad.make(pair.b_mem);
    expect_refused(pair, request(op, pair.a_mem, addr, rkey), IBV_WC_REM_ACCESS_ERR);
}

std::string target_case(const testing::TestParamInfo<TargetCase>& test) {
    return std::string(kOpNames[static_cast<int>(std::get<0>(test.param))]) +
           std::get<1>(test.param).name;
}

INSTANTIATE_TEST_SUITE_P(Targets, RcBadTargetTest,
                         testing::Combine(testing::Values(Op::kWrite, Op::kWriteImm, Op::kRead,
                                                          Op::kAtomic),
                                          testing::ValuesIn(kBadTargets)),
                         target_case);

class RcAccessTest : public RcRemoteTest, public testing::WithParamInterface<Op> {
  protected:
    // The access right that the operation needs.
    static int right(Op op) {
        constexpr int kRights[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE,
                                   IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC};
        return kRights[static_cast<int>(op)];
    }
};

TEST_P(RcAccessTest, RegionWithoutTheRightIsARemoteAccessError) {
    if (lacks(GetParam())) GTEST_SKIP() << "no atomics";
    Pair pair(hca_, pd_.get(), quick());
    Region target(pd_.get(), 4096, kAllAccess & ~right(GetParam()));
    expect_refused(pair, request(GetParam(), pair.a_mem, target.addr(), target.rkey()),
                   IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(target.is_all(0, 0, 64));
}

TEST_P(RcAccessTest, RegionOfAnotherDomainIsARemoteAccessError) {
    if (lacks(GetParam())) GTEST_SKIP() << "no atomics";
    Pd other = hca_.make_pd();
    Region target(other.get(), 4096);
    Pair pair(hca_, pd_.get(), quick());
    expect_refused(pair, request(GetParam(), pair.a_mem, target.addr(), target.rkey()),
                   IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(target.is_all(0, 0, 64));
}

TEST_P(RcAccessTest, DeregisteredRegionIsARemoteAccessError) {
    if (lacks(GetParam())) GTEST_SKIP() << "no atomics";
    Pair pair(hca_, pd_.get(), quick());
    const uint32_t stale = pair.b_mem.rkey();
    pair.b_mem.deregister();
    expect_refused(pair, request(GetParam(), pair.a_mem, pair.b_mem.addr(), stale),
                   IBV_WC_REM_ACCESS_ERR);
}

TEST_P(RcAccessTest, QueuePairWithoutTheRightIsAnInvalidRequest) {
    if (lacks(GetParam())) GTEST_SKIP() << "no atomics";
    QpSpec closed = quick();
    closed.access &= ~static_cast<unsigned>(right(GetParam()));
    Pair pair(hca_, pd_.get(), quick(), closed);
    expect_refused(pair, request(GetParam(), pair.a_mem, pair.b_mem.addr(), pair.b_mem.rkey()),
                   IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(RcAccessTest, RefusalIsAnEventOfTheResponder) {
    if (lacks(GetParam())) GTEST_SKIP() << "no atomics";
    Pair stale(hca_, pd_.get(), quick());
    ASSERT_EQ(request(GetParam(), stale.a_mem, stale.b_mem.addr(), stale.b_mem.rkey() ^ 1)
                  .post(stale.a.qp),
              0);
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_QP_ACCESS_ERR).element.qp, stale.b.qp.get());
    QpSpec closed = quick();
    closed.access = 0;
    Pair shut(hca_, pd_.get(), quick(), closed);
    ASSERT_EQ(request(GetParam(), shut.a_mem, shut.b_mem.addr(), shut.b_mem.rkey()).post(shut.a.qp),
              0);
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_QP_REQ_ERR).element.qp, shut.b.qp.get());
}

INSTANTIATE_TEST_SUITE_P(Operations, RcAccessTest,
                         testing::Values(Op::kWrite, Op::kWriteImm, Op::kRead, Op::kAtomic),
                         [](const auto& test) {
                             return std::string(kOpNames[static_cast<int>(test.param)]);
                         });

TEST_F(RcRemoteTest, WriteThatCrossesTheEndChangesNothing) {
    Pair pair(hca_, pd_.get(), quick(), 4096);
    Region target(pd_.get(), 4096);
    expect_refused(pair,
                   request(Op::kWrite, pair.a_mem, target.addr(4096 - 100), target.rkey(), 101),
                   IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(target.is_all(0, 0, 4096));
}

struct Overlong {
    std::size_t buffer;
    std::size_t message;
};

class RcOverlongTest : public RcRemoteTest, public testing::WithParamInterface<Overlong> {};

TEST_P(RcOverlongTest, MessageLongerThanItsReceiveFailsBothSides) {
    const auto [buffer, message] = GetParam();
    Pair pair(hca_, pd_.get(), quick());
    RecvWr receive(10);
    if (buffer > 0) receive.sge(pair.b_mem.sge(0, buffer));
    ASSERT_EQ(receive.post(pair.b.qp), 0);
    ASSERT_EQ(RecvWr(11).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).sge(pair.a_mem.sge(0, message)).post(pair.a.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_REM_INV_REQ_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_TRUE(next_are(pair.b.recv_cq, {10}, IBV_WC_LOC_LEN_ERR));
    EXPECT_TRUE(next_are(pair.b.recv_cq, {11}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_ERR);
    EXPECT_EQ(state_of(pair.b.qp), IBV_QPS_ERR);
    EXPECT_TRUE(pair.b_mem.is_all(0, buffer, 4096)) << "written beyond the buffer";
}

INSTANTIATE_TEST_SUITE_P(Lengths, RcOverlongTest,
                         testing::Values(Overlong{0, 1}, Overlong{1, 2}, Overlong{4096, 4097},
                                         Overlong{5000, 20000}),
                         [](const auto& test) {
                             return std::to_string(test.param.message) + "Into" +
                                    std::to_string(test.param.buffer);
                         });

TEST_F(RcRemoteTest, RequestsBeforeTheRefusedOneHaveTakenEffect) {
    Pair pair(hca_, pd_.get(), quick());
    for (uint64_t i = 0; i < 10; ++i) {
        pair.a_mem.word(i) = i + 1;
        SendWr wr(IBV_WR_RDMA_WRITE, i);
        wr.sge(pair.a_mem.sge(8 * i, 8));
        wr.remote(pair.b_mem.addr(8 * i), i == 6 ? pair.b_mem.rkey() ^ 1 : pair.b_mem.rkey());
        ASSERT_EQ(wr.post(pair.a.qp), 0);
    }
    EXPECT_TRUE(next_are(pair.a.send_cq, {0, 1, 2, 3, 4, 5}));
    EXPECT_TRUE(next_are(pair.a.send_cq, {6}, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {7, 8, 9}, IBV_WC_WR_FLUSH_ERR));
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(pair.b_mem.word(i), i < 6 ? i + 1 : 0);
}

TEST_F(RcRemoteTest, ErrorOfOneConnectionLeavesOthersAlone) {
    Pair broken(hca_, pd_.get(), quick());
    Pair healthy(hca_, pd_.get());
    ASSERT_EQ(request(Op::kWrite, broken.a_mem, 0, 1).post(broken.a.qp), 0);
    EXPECT_TRUE(next_are(broken.a.send_cq, {1}, IBV_WC_REM_ACCESS_ERR));
    ASSERT_EQ(RecvWr(2).post(healthy.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 3).post(healthy.a.qp), 0);
    EXPECT_TRUE(next_are(healthy.b.recv_cq, {2}));
    EXPECT_TRUE(next_are(healthy.a.send_cq, {3}));
}

}  // namespace
}  // namespace conformance
