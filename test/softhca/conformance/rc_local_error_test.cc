// SPDX-License-Identifier: BSD-3-Clause
// Reliable connections: errors in a work request that the requester itself detects.
#include <algorithm>
#include <functional>
#include <ostream>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

// Makes an invalid gather element from a valid region.
struct BadElement {
    const char* name;
    std::function<ibv_sge(const Region& good)> make;
};

void PrintTo(const BadElement& bad, std::ostream* out) {
    *out << bad.name;
}

const BadElement kBadElements[] = {
    {"UnknownKey",
     [](auto& r) {
         return ibv_sge{r.addr(), 64, r.lkey() ^ 0x5a5a5a00};
     }},
    {"KeyWithAnotherTag",
     [](auto& r) {
         return ibv_sge{r.addr(), 64, r.lkey() ^ 1};
     }},
    {"BeyondTheEnd",
     [](auto& r) {
         return ibv_sge{r.addr(r.size() - 63), 64, r.lkey()};
     }},
    {"BeforeTheStart",
     [](auto& r) {
         return ibv_sge{r.addr() - 1, 64, r.lkey()};
     }},
    {"AroundTheAddressSpace",
     [](auto& r) {
         return ibv_sge{UINT64_MAX - 10, 64, r.lkey()};
     }},
};

class RcLocalErrorTest : public VerbsTest, public testing::WithParamInterface<BadElement> {
  protected:
    // The request with id 1 fails with LOC_PROT_ERR, the requests after it are flushed, and the
    // peer notices nothing.
    static void expect_protection_error(Pair& pair, SendWr wr) {
        ASSERT_EQ(RecvWr(10).post(pair.a.qp), 0);
        ASSERT_EQ(wr.post(pair.a.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2).flags(0).post(pair.a.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 3).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_LOC_PROT_ERR));
        EXPECT_TRUE(next_are(pair.a.send_cq, {2, 3}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(next_are(pair.a.recv_cq, {10}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_ERR);
        EXPECT_EQ(state_of(pair.b.qp), IBV_QPS_RTS);
    }
};

TEST_P(RcLocalErrorTest, SendFromABadElementIsAProtectionError) {
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(RecvWr(5).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
    expect_protection_error(pair, SendWr(IBV_WR_SEND, 1).sge(GetParam().make(pair.a_mem)));
    EXPECT_TRUE(quiet(pair.b.recv_cq));
}

TEST_P(RcLocalErrorTest, BadElementAfterAGoodOneIsAProtectionError) {
    Pair pair(hca_, pd_.get(), quick());
    expect_protection_error(pair, SendWr(IBV_WR_RDMA_WRITE, 1)
                                      .sge(pair.a_mem.sge(0, 64))
                                      .sge(GetParam().make(pair.a_mem))
                                      .remote(pair.b_mem));
}

TEST_P(RcLocalErrorTest, ReadIntoABadElementIsAProtectionError) {
    Pair pair(hca_, pd_.get(), quick());
    expect_protection_error(
        pair, SendWr(IBV_WR_RDMA_READ, 1).sge(GetParam().make(pair.a_mem)).remote(pair.b_mem));
}

TEST_P(RcLocalErrorTest, ReceiveIntoABadElementFailsBothSides) {
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(RecvWr(1).sge(GetParam().make(pair.b_mem)).post(pair.b.qp), 0);
    ASSERT_EQ(RecvWr(2).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 3).sge(pair.a_mem.sge(0, 64)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.b.recv_cq, {1}, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(next_are(pair.b.recv_cq, {2}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {3}, IBV_WC_REM_OP_ERR));
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_ERR);
    EXPECT_EQ(state_of(pair.b.qp), IBV_QPS_ERR);
}

INSTANTIATE_TEST_SUITE_P(Elements, RcLocalErrorTest, testing::ValuesIn(kBadElements),
                         [](const auto& test) { return test.param.name; });

class RcProtectionTest : public RcLocalErrorTest {};

TEST_F(RcProtectionTest, DeregisteredSourceIsAProtectionError) {
    Pair pair(hca_, pd_.get(), quick());
    const ibv_sge stale = pair.a_mem.sge(0, 64);
    pair.a_mem.deregister();
    expect_protection_error(pair, SendWr(IBV_WR_SEND, 1).sge(stale));
}

TEST_F(RcProtectionTest, SourceOfAnotherDomainIsAProtectionError) {
    Pd other = hca_.make_pd();
    Region foreign(other.get(), 4096);
    Pair pair(hca_, pd_.get(), quick());
    expect_protection_error(pair, SendWr(IBV_WR_SEND, 1).sge(foreign.sge(0, 64)));
}

TEST_F(RcProtectionTest, ReadIntoMemoryWithoutLocalWriteIsAProtectionError) {
    Region constant(pd_.get(), 4096, 0);
    Pair pair(hca_, pd_.get(), quick());
    expect_protection_error(
        pair, SendWr(IBV_WR_RDMA_READ, 1).sge(constant.sge(0, 64)).remote(pair.b_mem));
    EXPECT_TRUE(constant.is_all(0, 0, 64));
}

TEST_F(RcProtectionTest, SendFromMemoryWithoutLocalWriteIsAllowed) {
    Region constant(pd_.get(), 4096, 0);
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(constant.sge(0, 64)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
    EXPECT_TRUE(next_are(pair.b.recv_cq, {1}));
}

TEST_F(RcProtectionTest, ReceiveIntoMemoryWithoutLocalWriteFailsBothSides) {
    Region constant(pd_.get(), 4096, IBV_ACCESS_REMOTE_READ);
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(RecvWr(1).sge(constant.sge()).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, 64)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.b.recv_cq, {1}, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_REM_OP_ERR));
    EXPECT_TRUE(constant.is_all(0, 0, 64));
}

TEST_F(RcProtectionTest, ReceiveIntoMemoryOfAnotherDomainFailsBothSides) {
    Pd other = hca_.make_pd();
    Region foreign(other.get(), 4096);
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(RecvWr(1).sge(foreign.sge()).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, 64)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.b.recv_cq, {1}, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_REM_OP_ERR));
}

TEST_F(RcProtectionTest, RequestsBeforeTheBadOneSucceed) {
    Pair pair(hca_, pd_.get(), quick());
    for (uint64_t i = 0; i < 10; ++i) {
        SendWr wr(IBV_WR_RDMA_WRITE, i);
        if (i == 6)
            wr.sge({pair.a_mem.addr(), 8, pair.a_mem.lkey() ^ 1});
        else
            wr.sge(pair.a_mem.sge(0, 8));
        ASSERT_EQ(wr.remote(pair.b_mem).post(pair.a.qp), 0);
    }
    EXPECT_TRUE(next_are(pair.a.send_cq, {0, 1, 2, 3, 4, 5}));
    EXPECT_TRUE(next_are(pair.a.send_cq, {6}, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {7, 8, 9}, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(RcProtectionTest, MessageBeyondTheLargestSizeIsALengthError) {
    const uint64_t most = hca_.port_attr().max_msg_sz;
    const auto elements = static_cast<uint64_t>(std::min(hca_.attr().max_sge, 30));
    const uint64_t piece = most / elements + 4096;
    if (piece > (uint64_t{1} << 28)) GTEST_SKIP() << "too much memory to describe such a message";
    QpSpec spec = quick();
    spec.send_sge = static_cast<uint32_t>(elements);
    Pair pair(hca_, pd_.get(), spec);
    Region large(pd_.get(), piece);
    SendWr wr(IBV_WR_SEND, 1);
    wr.sges(std::vector<ibv_sge>(elements, large.sge()));
    if (wr.post(pair.a.qp) != 0) return;  // the device may also refuse the post
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_LOC_LEN_ERR));
}

}  // namespace
}  // namespace conformance
