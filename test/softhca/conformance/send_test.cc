// SPDX-License-Identifier: BSD-3-Clause
// Messages over connected transports: sizes, shapes, immediate and inline data, signalling.
#include <arpa/inet.h>

#include <algorithm>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

class SendTest : public TransportTest {
  protected:
    QpSpec spec() const {
        QpSpec wanted;
        wanted.type = GetParam();
        return wanted;
    }
};

TEST_P(SendTest, MessagesOfEverySizeArriveWhole) {
    constexpr std::size_t kMost = 1 << 20;
    Pair pair(hca_, pd_.get(), spec(), kMost + 4096);
    unsigned seed = 0;
    for (std::size_t size :
         {0,    1,    2,    7,    8,    63,   64,   65,    255,   256,   257,    1023,   1024,
          1025, 2048, 4095, 4096, 4097, 8192, 9000, 65535, 65536, 65537, 262144, 1 << 20}) {
        pair.a_mem.fill(++seed, 0, size);
        std::fill_n(pair.b_mem.data(), size + 64, 0xee);
        ASSERT_EQ(RecvWr(size).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        SendWr wr(IBV_WR_SEND, size);
        if (size > 0) wr.sge(pair.a_mem.sge(0, size));
        ASSERT_EQ(wr.post(pair.a.qp), 0);
        const ibv_wc received = poll_one(pair.b.recv_cq);
        ASSERT_TRUE(is_done(received, size));
        EXPECT_EQ(received.opcode, IBV_WC_RECV);
        EXPECT_EQ(received.byte_len, size);
        EXPECT_EQ(received.qp_num, pair.b.qp->qp_num);
        EXPECT_EQ(received.wc_flags & IBV_WC_WITH_IMM, 0u);
        EXPECT_TRUE(pair.b_mem.holds(seed, 0, size)) << size;
        EXPECT_TRUE(pair.b_mem.is_all(0xee, size, 64)) << "written beyond " << size;
        const ibv_wc sent = poll_one(pair.a.send_cq);
        ASSERT_TRUE(is_done(sent, size));
        EXPECT_EQ(sent.opcode, IBV_WC_SEND);
        EXPECT_EQ(sent.qp_num, pair.a.qp->qp_num);
    }
}

TEST_P(SendTest, ExactlyFilledBufferIsNotTooShort) {
    Pair pair(hca_, pd_.get(), spec());
    for (std::size_t size : {1, 4096, 5000}) {
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, size)).post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, size)).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.b.recv_cq, {1}));
        EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
    }
}

// Cuts [0, total) of a region into elements of the given lengths (used in turn), with gaps between.
std::vector<ibv_sge> cut(const Region& region, std::size_t total,
                         const std::vector<std::size_t>& lengths) {
    std::vector<ibv_sge> elements;
    std::size_t offset = 0;
    for (std::size_t i = 0; total > 0; ++i) {
        const std::size_t n = std::min(total, lengths[i % lengths.size()]);
        elements.push_back(region.sge(offset, n));
        offset += n + 13;
        total -= n;
    }
    return elements;
}

// The bytes of the elements, in order.
std::vector<uint8_t> gather(const std::vector<ibv_sge>& elements) {
    std::vector<uint8_t> bytes;
    for (const ibv_sge& e : elements) {
        const auto* start = reinterpret_cast<const uint8_t*>(e.addr);
        bytes.insert(bytes.end(), start, start + e.length);
    }
    return bytes;
}

TEST_P(SendTest, GatherAndScatterListsNeedNotMatch) {
    const auto most = static_cast<uint32_t>(std::min(hca_.attr().max_sge, 8));
    QpSpec wanted = spec();
    wanted.send_sge = wanted.recv_sge = most;
    Pair pair(hca_, pd_.get(), wanted);
    const std::vector<std::vector<std::size_t>> shapes = {
        {10000}, {1, 9999}, {5000, 5000}, {3333, 4096, 2571}, {1, 4096, 1, 4095, 1807}};
    unsigned seed = 0;
    for (const auto& out : shapes) {
        for (const auto& in : shapes) {
            if (out.size() > most || in.size() > most) continue;
            pair.a_mem.fill(++seed);
            pair.b_mem.fill(0);
            const auto from = cut(pair.a_mem, 10000, out);
            const auto to = cut(pair.b_mem, 10000, in);
            ASSERT_EQ(RecvWr(1).sges(to).post(pair.b.qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sges(from).post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
            ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
            EXPECT_EQ(gather(to), gather(from)) << out.size() << " to " << in.size();
        }
    }
}

TEST_P(SendTest, LongestListsWork) {
    QpSpec wanted = spec();
    wanted.send_sge = wanted.recv_sge = static_cast<uint32_t>(std::min(hca_.attr().max_sge, 64));
    Pair pair(hca_, pd_.get(), wanted);
    std::vector<ibv_sge> from, to;
    for (uint32_t i = 0; i < wanted.send_sge; ++i) {
        from.push_back(pair.a_mem.sge(i * 1000, 1 + i));
        to.push_back(pair.b_mem.sge(i * 1000, wanted.send_sge - i));
    }
    pair.a_mem.fill(1);
    ASSERT_EQ(RecvWr(1).sges(to).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sges(from).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
    ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
    EXPECT_EQ(gather(to), gather(from));
}

TEST_P(SendTest, ElementsMayBeEmpty) {
    Pair pair(hca_, pd_.get(), spec());
    pair.a_mem.fill(1, 0, 100);
    ASSERT_EQ(RecvWr(1)
                  .sge(pair.b_mem.sge(0, 0))
                  .sge(pair.b_mem.sge(0, 60))
                  .sge(pair.b_mem.sge(0, 0))
                  .sge(pair.b_mem.sge(60, 60))
                  .post(pair.b.qp),
              0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2)
                  .sge(pair.a_mem.sge(0, 100))
                  .sge(pair.a_mem.sge(0, 0))
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
    ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
    EXPECT_TRUE(pair.b_mem.holds(1, 0, 100));
}

TEST_P(SendTest, ShortMessageLeavesTheRestOfTheListAlone) {
    Pair pair(hca_, pd_.get(), spec());
    std::fill_n(pair.b_mem.data(), 300, 0xee);
    ASSERT_EQ(RecvWr(1)
                  .sge(pair.b_mem.sge(0, 100))
                  .sge(pair.b_mem.sge(100, 100))
                  .sge(pair.b_mem.sge(200, 100))
                  .post(pair.b.qp),
              0);
    pair.a_mem.fill(1, 0, 150);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, 150)).post(pair.a.qp), 0);
    const ibv_wc wc = poll_one(pair.b.recv_cq);
    EXPECT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.byte_len, 150u);
    EXPECT_TRUE(pair.b_mem.holds(1, 0, 150));
    EXPECT_TRUE(pair.b_mem.is_all(0xee, 150, 150));
}

TEST_P(SendTest, ImmediateDataArrivesUnchanged) {
    Pair pair(hca_, pd_.get(), spec());
    for (uint32_t value : {0u, 1u, 0x01020304u, 0xffffffffu}) {
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 64)).post(pair.b.qp), 0);
        ASSERT_EQ(
            SendWr(IBV_WR_SEND_WITH_IMM, 2).sge(pair.a_mem.sge(0, 16)).imm(value).post(pair.a.qp),
            0);
        const ibv_wc wc = poll_one(pair.b.recv_cq);
        EXPECT_TRUE(is_done(wc, 1));
        EXPECT_EQ(wc.opcode, IBV_WC_RECV);
        EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
        EXPECT_EQ(ntohl(wc.imm_data), value);
        EXPECT_EQ(wc.byte_len, 16u);
        const ibv_wc sent = poll_one(pair.a.send_cq);
        EXPECT_TRUE(is_done(sent, 2));
        EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    }
}

TEST_P(SendTest, InlineDataIsTakenAtOnceFromAnywhere) {
    QpSpec wanted = spec();
    wanted.inline_data = 64;
    Pair pair(hca_, pd_.get(), wanted);
    // The memory is not registered, and it changes as soon as the post returns.
    for (std::size_t size : {1, 40, 64}) {
        std::vector<uint8_t> text(size, 0x5a);
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 128)).post(pair.b.qp), 0);
        const ibv_sge halves[2] = {
            {reinterpret_cast<uintptr_t>(text.data()), static_cast<uint32_t>(size / 2), 0},
            {reinterpret_cast<uintptr_t>(text.data() + size / 2),
             static_cast<uint32_t>(size - size / 2), 0xdeadbeef}};
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2)
                      .sge(halves[0])
                      .sge(halves[1])
                      .flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE)
                      .post(pair.a.qp),
                  0);
        std::fill(text.begin(), text.end(), 0);
        const ibv_wc wc = poll_one(pair.b.recv_cq);
        ASSERT_TRUE(is_done(wc, 1));
        EXPECT_EQ(wc.byte_len, size);
        EXPECT_TRUE(pair.b_mem.is_all(0x5a, 0, size));
        EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
    }
}

TEST_P(SendTest, InlineDataIsTakenBeforeTheMessageCanLeave) {
    if (GetParam() != IBV_QPT_RC) GTEST_SKIP() << "only RC holds a message back";
    QpSpec wanted = spec();
    wanted.inline_data = 32;
    Pair pair(hca_, pd_.get(), wanted);
    uint8_t text[32];
    std::fill_n(text, 32, 0x5a);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2)
                  .sge({reinterpret_cast<uintptr_t>(text), 32, 0})
                  .flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE)
                  .post(pair.a.qp),
              0);
    std::fill_n(text, 32, 0);
    ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 32)).post(pair.b.qp), 0);
    ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
    EXPECT_TRUE(pair.b_mem.is_all(0x5a, 0, 32));
}

TEST_P(SendTest, TooMuchInlineDataIsRefused) {
    QpSpec wanted = spec();
    wanted.inline_data = 64;
    Pair pair(hca_, pd_.get(), wanted);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(pair.a.qp.get(), &attr, IBV_QP_CAP, &init), 0);
    const uint32_t most = init.cap.max_inline_data;
    ASSERT_GE(most, 64u);
    ASSERT_LT(most, pair.a_mem.size());
    const unsigned flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    EXPECT_NE(SendWr(IBV_WR_SEND, 1).sge(pair.a_mem.sge(0, most + 1)).flags(flags).post(pair.a.qp),
              0);
    EXPECT_TRUE(quiet(pair.a.send_cq));
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_RTS);
}

TEST_P(SendTest, OnlySignalledRequestsComplete) {
    Pair pair(hca_, pd_.get(), spec());
    for (uint64_t i = 0; i < 30; ++i) {
        ASSERT_EQ(RecvWr(i).post(pair.b.qp), 0);
        const bool signalled = i % 10 == 9;
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).flags(signalled ? IBV_SEND_SIGNALED : 0).post(pair.a.qp),
                  0);
    }
    EXPECT_TRUE(next_are(pair.a.send_cq, {9, 19, 29}));
    EXPECT_TRUE(quiet(pair.a.send_cq));
}

TEST_P(SendTest, SignalAllSignalsAll) {
    QpSpec wanted = spec();
    wanted.signal_all = true;
    Pair pair(hca_, pd_.get(), wanted);
    for (uint64_t i = 0; i < 3; ++i) {
        ASSERT_EQ(RecvWr(i).post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).flags(0).post(pair.a.qp), 0);
    }
    EXPECT_TRUE(next_are(pair.a.send_cq, {0, 1, 2}));
}

TEST_P(SendTest, ListsOfRequestsArePostedInOrder) {
    Pair pair(hca_, pd_.get(), spec());
    std::vector<ibv_sge> in(20), out(20);
    std::vector<ibv_recv_wr> receives(20);
    std::vector<ibv_send_wr> sends(20);
    for (std::size_t i = 0; i < 20; ++i) {
        pair.a_mem.fill(static_cast<unsigned>(i), i * 100, 100);
        in[i] = pair.b_mem.sge(i * 100, 100);
        out[i] = pair.a_mem.sge(i * 100, 100);
        receives[i] = {i, i < 19 ? &receives[i + 1] : nullptr, &in[i], 1};
        sends[i] = {};
        sends[i].wr_id = i;
        sends[i].next = i < 19 ? &sends[i + 1] : nullptr;
        sends[i].sg_list = &out[i];
        sends[i].num_sge = 1;
        sends[i].opcode = IBV_WR_SEND;
        sends[i].send_flags = IBV_SEND_SIGNALED;
    }
    ibv_recv_wr* bad_recv = nullptr;
    ibv_send_wr* bad_send = nullptr;
    ASSERT_EQ(ibv_post_recv(pair.b.qp.get(), receives.data(), &bad_recv), 0);
    ASSERT_EQ(ibv_post_send(pair.a.qp.get(), sends.data(), &bad_send), 0);
    for (uint64_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(next_are(pair.b.recv_cq, {i}));
        ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
        EXPECT_TRUE(pair.b_mem.holds(static_cast<unsigned>(i), i * 100, 100));
    }
}

TEST_P(SendTest, BothDirectionsAtOnce) {
    Pair pair(hca_, pd_.get(), spec());
    for (uint64_t i = 0; i < 32; ++i)
        for (Endpoint* end : {&pair.a, &pair.b}) ASSERT_EQ(RecvWr(i).post(end->qp), 0);
    for (uint64_t i = 0; i < 32; ++i)
        for (Endpoint* end : {&pair.a, &pair.b}) ASSERT_EQ(SendWr(IBV_WR_SEND, i).post(end->qp), 0);
    for (uint64_t i = 0; i < 32; ++i) {
        for (Endpoint* end : {&pair.a, &pair.b}) {
            ASSERT_TRUE(next_are(end->send_cq, {i}));
            ASSERT_TRUE(next_are(end->recv_cq, {i}));
        }
    }
}

TEST_P(SendTest, QueuePairConnectedToItself) {
    Endpoint end(hca_, pd_.get(), spec());
    Region mem(pd_.get(), 4096);
    bring_up(hca_, end.qp.get(), end.spec, as_peer(hca_, end.qp.get(), end.spec));
    mem.fill(4, 0, 100);
    ASSERT_EQ(RecvWr(1).sge(mem.sge(1000, 100)).post(end.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(mem.sge(0, 100)).post(end.qp), 0);
    EXPECT_TRUE(next_are(end.send_cq, {2}));
    EXPECT_TRUE(next_are(end.recv_cq, {1}));
    EXPECT_TRUE(mem.holds(4, 1000, 100));
}

INSTANTIATE_TEST_SUITE_P(Connected, SendTest, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         transport_case);

}  // namespace
}  // namespace conformance
