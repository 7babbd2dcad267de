// SPDX-License-Identifier: BSD-3-Clause
// Values of queue pair attributes: which are refused, and that a query returns the values that were
// set.
#include <cerrno>
#include <functional>
#include <ostream>

#include "qp.h"

namespace conformance {
namespace {

using Spoil = std::function<void(ibv_qp_attr&, const Hca&)>;

struct BadValue {
    const char* name;
    ibv_qp_state to;
    Spoil spoil;
};

void PrintTo(const BadValue& bad, std::ostream* out) {
    *out << bad.name;
}

class QpValueTest : public VerbsTest {
  protected:
    Step step_to(ibv_qp_state state) const {
        if (state == IBV_QPS_INIT) return to_init(hca_, end_.spec);
        if (state == IBV_QPS_RTS) return to_rts(end_.spec);
        return to_rtr(hca_, end_.spec, as_peer(hca_, end_.qp.get(), end_.spec));
    }

    Endpoint end_{hca_, pd_.get()};
};

class QpBadValueTest : public QpValueTest, public testing::WithParamInterface<BadValue> {};

TEST_P(QpBadValueTest, IsRefusedAndChangesNothing) {
    const BadValue& bad = GetParam();
    ibv_qp_state at = IBV_QPS_RESET;
    for (ibv_qp_state next : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        const Step good = step_to(next);
        if (next == bad.to) {
            Step wrong = good;
            bad.spoil(wrong.attr, hca_);
            EXPECT_EQ(wrong.apply(end_.qp.get()), EINVAL);
            EXPECT_EQ(state_of(end_.qp), at);
            EXPECT_EQ(good.apply(end_.qp.get()), 0);
            return;
        }
        apply_all(end_.qp.get(), {good});
        at = next;
    }
}

const BadValue kBadValues[] = {
    {"PortZero", IBV_QPS_INIT, [](auto& a, auto&) { a.port_num = 0; }},
    {"PortBeyondTheLast", IBV_QPS_INIT,
     [](auto& a, auto& hca) { a.port_num = hca.attr().phys_port_cnt + 1; }},
    {"PkeyIndexBeyondTheTable", IBV_QPS_INIT,
     [](auto& a, auto& hca) { a.pkey_index = hca.port_attr().pkey_tbl_len; }},
    {"MtuZero", IBV_QPS_RTR, [](auto& a, auto&) { a.path_mtu = static_cast<ibv_mtu>(0); }},
    {"MtuUnknown", IBV_QPS_RTR, [](auto& a, auto&) { a.path_mtu = static_cast<ibv_mtu>(6); }},
    {"PathOfABadPort", IBV_QPS_RTR,
     [](auto& a, auto& hca) { a.ah_attr.port_num = hca.attr().phys_port_cnt + 1; }},
    {"PathOfNoPort", IBV_QPS_RTR, [](auto& a, auto&) { a.ah_attr.port_num = 0; }},
    {"TooManyResponderResources", IBV_QPS_RTR,
     [](auto& a, auto& hca) {
         a.max_dest_rd_atomic = static_cast<uint8_t>(hca.attr().max_qp_rd_atom + 1);
     }},
    {"TooManyOutstandingReads", IBV_QPS_RTS,
     [](auto& a, auto& hca) {
         a.max_rd_atomic = static_cast<uint8_t>(hca.attr().max_qp_init_rd_atom + 1);
     }},
    {"RnrTimerOfSixBits", IBV_QPS_RTR, [](auto& a, auto&) { a.min_rnr_timer = 32; }},
    {"TimeoutOfSixBits", IBV_QPS_RTS, [](auto& a, auto&) { a.timeout = 32; }},
    {"RetryCountOfFourBits", IBV_QPS_RTS, [](auto& a, auto&) { a.retry_cnt = 8; }},
    {"RnrRetryOfFourBits", IBV_QPS_RTS, [](auto& a, auto&) { a.rnr_retry = 8; }},
};

INSTANTIATE_TEST_SUITE_P(Values, QpBadValueTest, testing::ValuesIn(kBadValues),
                         [](const auto& test) { return test.param.name; });

TEST_F(QpValueTest, QueryReturnsWhatWasSet) {
    QpSpec& spec = end_.spec;
    spec.timeout = 13;
    spec.retries = 5;
    spec.rnr_retry = 4;
    spec.rnr_timer = 17;
    spec.psn = 0x123456;
    spec.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    const Peer peer{hca_.address(), end_.qp->qp_num, 0x654321};
    bring_up(hca_, end_.qp.get(), spec, peer);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(end_.qp.get(), &attr, (1 << 21) - 1, &init), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attr.qp_access_flags & static_cast<unsigned>(kRemoteAccess), spec.access);
    EXPECT_EQ(attr.pkey_index, 0);
    EXPECT_EQ(attr.port_num, hca_.port());
    EXPECT_EQ(attr.path_mtu, hca_.port_attr().active_mtu);
    EXPECT_EQ(attr.dest_qp_num, peer.qpn);
    EXPECT_EQ(attr.rq_psn, peer.psn);
    EXPECT_EQ(attr.sq_psn, spec.psn);
    EXPECT_EQ(attr.max_dest_rd_atomic, spec.reads);
    EXPECT_EQ(attr.max_rd_atomic, spec.reads);
    EXPECT_EQ(attr.min_rnr_timer, spec.rnr_timer);
    EXPECT_EQ(attr.timeout, spec.timeout);
    EXPECT_EQ(attr.retry_cnt, spec.retries);
    EXPECT_EQ(attr.rnr_retry, spec.rnr_retry);
    EXPECT_EQ(attr.sq_draining, 0);
    EXPECT_EQ(attr.ah_attr.dlid, hca_.path_to(peer.address).dlid);
    EXPECT_EQ(attr.ah_attr.is_global, hca_.needs_grh() ? 1 : 0);
    EXPECT_EQ(end_.qp->state, IBV_QPS_RTS) << "the handle follows";
}

// A query for other attributes must not change the state in the queue pair's handle.
TEST_F(QpValueTest, HandleChangesItsStateOnlyForThoseWhoAskForIt) {
    Pair pair(hca_, pd_.get(), quick());
    pair.b.qp.reset();
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
    EXPECT_EQ(pair.a.qp->state, IBV_QPS_RTS) << "nobody has asked";
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(pair.a.qp.get(), &attr, IBV_QP_DEST_QPN | IBV_QP_AV, &init), 0);
    EXPECT_EQ(pair.a.qp->state, IBV_QPS_RTS);
    ASSERT_EQ(ibv_query_qp(pair.a.qp.get(), &attr, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
    EXPECT_EQ(pair.a.qp->state, IBV_QPS_ERR);
}

TEST_F(QpValueTest, CurrentStateShows) {
    bring_up(hca_, end_.qp.get(), end_.spec, as_peer(hca_, end_.qp.get(), end_.spec));
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(end_.qp.get(), &attr, IBV_QP_STATE | IBV_QP_CUR_STATE, &init), 0);
    EXPECT_EQ(attr.cur_qp_state, IBV_QPS_RTS);
}

TEST_F(QpValueTest, LaterModificationsShow) {
    bring_up(hca_, end_.qp.get(), end_.spec, as_peer(hca_, end_.qp.get(), end_.spec));
    Step step;
    step.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    step.attr.min_rnr_timer = 9;
    step.mask = IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
    ASSERT_EQ(step.apply(end_.qp.get()), 0);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(end_.qp.get(), &attr, step.mask, &init), 0);
    EXPECT_EQ(attr.qp_access_flags & static_cast<unsigned>(kRemoteAccess),
              static_cast<unsigned>(IBV_ACCESS_REMOTE_READ));
    EXPECT_EQ(attr.min_rnr_timer, 9);
}

TEST_F(QpValueTest, DatagramKeyShows) {
    QpSpec spec;
    spec.type = IBV_QPT_UD;
    Endpoint datagram(hca_, pd_.get(), spec);
    bring_up(hca_, datagram.qp.get(), spec, {});
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(datagram.qp.get(), &attr, IBV_QP_QKEY, &init), 0);
    EXPECT_EQ(attr.qkey, kQkey);
}

}  // namespace
}  // namespace conformance
