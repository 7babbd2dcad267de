// SPDX-License-Identifier: BSD-3-Clause
// The queue pair state machine: transitions, and the attributes that each takes. The tables follow
// the InfiniBand specification, volume 1, chapter 11.2.5 (modify queue pair).
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                    IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};

const char* name(ibv_qp_state state) {
    constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return kNames[state];
}

bool is_legal(ibv_qp_state from, ibv_qp_state to) {
    if (to == IBV_QPS_RESET) return true;
    if (to == IBV_QPS_ERR) return from != IBV_QPS_RESET;
    switch (from) {
        case IBV_QPS_RESET:
            return to == IBV_QPS_INIT;
        case IBV_QPS_INIT:
            return to == IBV_QPS_INIT || to == IBV_QPS_RTR;
        case IBV_QPS_RTR:
            return to == IBV_QPS_RTS;
        case IBV_QPS_RTS:
        case IBV_QPS_SQD:
            return to == IBV_QPS_RTS || to == IBV_QPS_SQD;
        default:
            return false;
    }
}

class QpStateTest : public TransportTest {
  protected:
    QpSpec spec() const {
        QpSpec wanted;
        wanted.type = GetParam();
        return wanted;
    }

    // The transition into `to` with all required attributes, for a queue pair connected to itself.
    Step step_to(const Endpoint& end, ibv_qp_state from, ibv_qp_state to) const {
        switch (to) {
            case IBV_QPS_INIT:
                return to_init(hca_, end.spec);
            case IBV_QPS_RTR:
                return to_rtr(hca_, end.spec, as_peer(hca_, end.qp.get(), end.spec));
            case IBV_QPS_RTS:
                if (from != IBV_QPS_RTS && from != IBV_QPS_SQD) return to_rts(end.spec);
                return to_state(to);
            default:
                return to_state(to);
        }
    }

    // A queue pair brought to `state` by the shortest way.
    std::unique_ptr<Endpoint> make_in(ibv_qp_state state) const {
        auto end = std::make_unique<Endpoint>(hca_, pd_.get(), spec());
        ibv_qp_state at = IBV_QPS_RESET;
        for (ibv_qp_state next : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD}) {
            if (at == state || state == IBV_QPS_ERR) break;
            apply_all(end->qp.get(), {step_to(*end, at, next)});
            at = next;
        }
        if (state == IBV_QPS_ERR)
            apply_all(end->qp.get(), {step_to(*end, at, IBV_QPS_INIT), to_state(IBV_QPS_ERR)});
        if (!reaches(end->qp, state)) fail(std::string("cannot reach ") + name(state));
        return end;
    }
};

TEST_P(QpStateTest, LegalTransitionsSucceed) {
    for (ibv_qp_state from : kStates) {
        for (ibv_qp_state to : kStates) {
            if (!is_legal(from, to)) continue;
            auto end = make_in(from);
            EXPECT_EQ(step_to(*end, from, to).apply(end->qp.get()), 0)
                << name(from) << " -> " << name(to);
            EXPECT_TRUE(reaches(end->qp, to)) << name(from) << " -> " << name(to);
        }
    }
}

TEST_P(QpStateTest, IllegalTransitionsAreRefusedAndChangeNothing) {
    for (ibv_qp_state from : kStates) {
        for (ibv_qp_state to : kStates) {
            if (is_legal(from, to)) continue;
            if (from == IBV_QPS_RESET && to == IBV_QPS_ERR) continue;  // devices differ
            auto end = make_in(from);
            EXPECT_EQ(step_to(*end, from, to).apply(end->qp.get()), EINVAL)
                << name(from) << " -> " << name(to);
            EXPECT_EQ(state_of(end->qp), from) << name(from) << " -> " << name(to);
        }
    }
}

TEST_P(QpStateTest, EveryRequiredAttributeIsRequired) {
    constexpr std::pair<ibv_qp_state, ibv_qp_state> kSteps[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT}, {IBV_QPS_INIT, IBV_QPS_RTR}, {IBV_QPS_RTR, IBV_QPS_RTS}};
    for (auto [from, to] : kSteps) {
        auto end = make_in(from);
        const Step full = step_to(*end, from, to);
        for (int bit = 0; bit < 26; ++bit) {
            const int attribute = 1 << bit;
            if (!(full.mask & attribute) || attribute == IBV_QP_STATE) continue;
            Step partial = full;
            partial.mask &= ~attribute;
            EXPECT_EQ(partial.apply(end->qp.get()), EINVAL)
                << "to " << name(to) << " without attribute 1 << " << bit;
            ASSERT_EQ(state_of(end->qp), from);
        }
        EXPECT_EQ(full.apply(end->qp.get()), 0) << "refusals changed the queue pair";
    }
}

constexpr int kEveryAttribute = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                                IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN;

// The attributes that a transition may take besides the required ones.
int optional(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
    const bool ud = type == IBV_QPT_UD;
    const int rnr = type == IBV_QPT_RC ? IBV_QP_MIN_RNR_TIMER : 0;
    if (from == IBV_QPS_INIT && to == IBV_QPS_INIT)
        return IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    if (to == IBV_QPS_RTR) return IBV_QP_PKEY_INDEX | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    if (to == IBV_QPS_RTS) return ud ? int{IBV_QP_QKEY} : IBV_QP_ACCESS_FLAGS | rnr;
    if (from == IBV_QPS_SQD && to == IBV_QPS_SQD) {
        if (ud) return IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
        const int both = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
        if (type == IBV_QPT_UC) return both;
        return both | IBV_QP_AV | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
               IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER;
    }
    return 0;
}

TEST_P(QpStateTest, AttributesThatDoNotBelongToATransitionAreRefused) {
    for (ibv_qp_state from : kStates) {
        for (ibv_qp_state to : kStates) {
            if (!is_legal(from, to)) continue;
            auto end = make_in(from);
            Step step = step_to(*end, from, to);
            int allowed = step.mask | optional(GetParam(), from, to);
            if (from == IBV_QPS_SQD && GetParam() == IBV_QPT_UC)
                allowed |= IBV_QP_AV;  // allowed by the specification, but not by the kernel
            // Values that are valid where the attribute is allowed.
            step.attr.port_num = hca_.port();
            step.attr.ah_attr = hca_.path_to(hca_.address());
            step.attr.path_mtu = hca_.port_attr().active_mtu;
            for (int bit = 0; bit < 26; ++bit) {
                const int attribute = 1 << bit;
                if (!(kEveryAttribute & attribute) || (allowed & attribute)) continue;
                Step wrong = step;
                wrong.mask |= attribute;
                EXPECT_EQ(wrong.apply(end->qp.get()), EINVAL)
                    << name(from) << " -> " << name(to) << " with attribute 1 << " << bit;
            }
            EXPECT_EQ(state_of(end->qp), from);
        }
    }
}

TEST_P(QpStateTest, OptionalAttributesAreTaken) {
    for (ibv_qp_state from : kStates) {
        for (ibv_qp_state to : kStates) {
            if (!is_legal(from, to)) continue;
            const int more = optional(GetParam(), from, to);
            for (int bit = 0; bit < 26; ++bit) {
                if (!(more & (1 << bit))) continue;
                auto end = make_in(from);
                Step step = step_to(*end, from, to);
                step.mask |= 1 << bit;
                step.attr.port_num = hca_.port();
                step.attr.ah_attr = hca_.path_to(hca_.address());
                step.attr.qkey = kQkey;
                step.attr.min_rnr_timer = end->spec.rnr_timer;
                EXPECT_EQ(step.apply(end->qp.get()), 0)
                    << name(from) << " -> " << name(to) << " with attribute 1 << " << bit;
            }
        }
    }
}

TEST_P(QpStateTest, WithoutAStateTheStateStays) {
    auto end = make_in(IBV_QPS_INIT);
    Step step = to_init(hca_, end->spec);
    step.mask &= ~IBV_QP_STATE;
    EXPECT_EQ(step.apply(end->qp.get()), 0);
    EXPECT_EQ(state_of(end->qp), IBV_QPS_INIT);
}

TEST_P(QpStateTest, SendsAreTakenInEveryStateThatCanSend) {
    for (ibv_qp_state state : kStates) {
        auto end = make_in(state);
        Ah ah = hca_.make_ah(pd_.get(), hca_.address());
        SendWr wr(IBV_WR_SEND);
        if (GetParam() == IBV_QPT_UD) wr.to(ah.get(), end->qp->qp_num, kQkey);
        const int rc = wr.post(end->qp);
        const bool taken = state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR;
        // Some drivers do not look at the state, and take a request that must wait.
        EXPECT_TRUE(rc == 0 || !taken) << name(state);
    }
}

TEST_P(QpStateTest, ReceivesAreTakenInEveryStateButReset) {
    for (ibv_qp_state state : kStates) {
        auto end = make_in(state);
        EXPECT_EQ(RecvWr(1).post(end->qp) == 0, state != IBV_QPS_RESET) << name(state);
    }
}

TEST_P(QpStateTest, ResetForgetsWhatWasPosted) {
    auto end = make_in(IBV_QPS_INIT);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(RecvWr(i).post(end->qp), 0);
    apply_all(end->qp.get(), {to_state(IBV_QPS_RESET), to_init(hca_, end->spec)});
    ASSERT_EQ(RecvWr(9).post(end->qp), 0);
    apply_all(end->qp.get(), {to_state(IBV_QPS_ERR)});
    EXPECT_TRUE(next_are(end->recv_cq, {9}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_TRUE(quiet(end->recv_cq));
}

INSTANTIATE_TEST_SUITE_P(Transports, QpStateTest,
                         testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), transport_case);

}  // namespace
}  // namespace conformance
