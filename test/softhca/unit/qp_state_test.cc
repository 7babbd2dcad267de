// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/qp_state.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace softhca {
namespace {

using namespace qp_attr;

constexpr QpType kTypes[] = {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend,
                             QpType::kXrcRecv};
constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                               QpState::kSqd,   QpState::kSqe,  QpState::kErr};
constexpr uint32_t kAllAttributes = (1u << 21) - 1;

struct Rule {
    QpType type;
    QpState from;
    QpState to;
    uint32_t required;
    uint32_t optional;
};

constexpr auto RC = QpType::kRc, UC = QpType::kUc, UD = QpType::kUd, XS = QpType::kXrcSend,
               XR = QpType::kXrcRecv;
constexpr auto reset = QpState::kReset, init = QpState::kInit, rtr = QpState::kRtr,
               rts = QpState::kRts, sqd = QpState::kSqd, sqe = QpState::kSqe, err = QpState::kErr;

// The transitions of the specification for each transport, except those into RESET and ERR.
const std::vector<Rule> kRules = {
    {RC, reset, init, kPkeyIndex | kPort | kAccessFlags, 0},
    {UC, reset, init, kPkeyIndex | kPort | kAccessFlags, 0},
    {UD, reset, init, kPkeyIndex | kPort | kQkey, 0},
    {XS, reset, init, kPkeyIndex | kPort | kAccessFlags, 0},
    {XR, reset, init, kPkeyIndex | kPort | kAccessFlags, 0},

    {RC, init, init, 0, kPkeyIndex | kPort | kAccessFlags},
    {UC, init, init, 0, kPkeyIndex | kPort | kAccessFlags},
    {UD, init, init, 0, kPkeyIndex | kPort | kQkey},
    {XS, init, init, 0, kPkeyIndex | kPort | kAccessFlags},
    {XR, init, init, 0, kPkeyIndex | kPort | kAccessFlags},

    {RC, init, rtr, kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer,
     kAltPath | kAccessFlags | kPkeyIndex},
    {UC, init, rtr, kAv | kPathMtu | kDestQpn | kRqPsn, kAltPath | kAccessFlags | kPkeyIndex},
    {UD, init, rtr, 0, kPkeyIndex | kQkey},
    {XS, init, rtr, kAv | kPathMtu | kDestQpn | kRqPsn, kAltPath | kAccessFlags | kPkeyIndex},
    {XR, init, rtr, kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer,
     kAltPath | kAccessFlags | kPkeyIndex},

    {RC, rtr, rts, kTimeout | kRetryCnt | kRnrRetry | kSqPsn | kMaxQpRdAtomic,
     kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState},
    {UC, rtr, rts, kSqPsn, kCurState | kAltPath | kAccessFlags | kPathMigState},
    {UD, rtr, rts, kSqPsn, kCurState | kQkey},
    {XS, rtr, rts, kTimeout | kRetryCnt | kRnrRetry | kSqPsn | kMaxQpRdAtomic,
     kCurState | kAltPath | kAccessFlags | kPathMigState},
    {XR, rtr, rts, kTimeout | kSqPsn,
     kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState},

    {RC, rts, rts, 0, kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState},
    {UC, rts, rts, 0, kCurState | kAltPath | kAccessFlags | kPathMigState},
    {UD, rts, rts, 0, kCurState | kQkey},
    {XS, rts, rts, 0, kCurState | kAltPath | kAccessFlags | kPathMigState},
    {XR, rts, rts, 0, kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState},

    {RC, rts, sqd, 0, kEnSqdAsyncNotify},
    {UC, rts, sqd, 0, kEnSqdAsyncNotify},
    {UD, rts, sqd, 0, kEnSqdAsyncNotify},
    {XS, rts, sqd, 0, kEnSqdAsyncNotify},
    {XR, rts, sqd, 0, kEnSqdAsyncNotify},

    {RC, sqd, sqd, 0,
     kPort | kAv | kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic | kMaxDestRdAtomic | kAltPath |
         kAccessFlags | kPkeyIndex | kMinRnrTimer | kPathMigState},
    {UC, sqd, sqd, 0, kAv | kAltPath | kAccessFlags | kPkeyIndex | kPathMigState},
    {UD, sqd, sqd, 0, kPkeyIndex | kQkey},
    {XS, sqd, sqd, 0,
     kPort | kAv | kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic | kAltPath | kAccessFlags |
         kPkeyIndex | kPathMigState},
    {XR, sqd, sqd, 0,
     kPort | kAv | kTimeout | kMaxDestRdAtomic | kAltPath | kAccessFlags | kPkeyIndex |
         kMinRnrTimer | kPathMigState},

    {RC, sqd, rts, 0, kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState},
    {UC, sqd, rts, 0, kCurState | kAltPath | kAccessFlags | kPathMigState},
    {UD, sqd, rts, 0, kCurState | kQkey},
    {XS, sqd, rts, 0, kCurState | kAltPath | kAccessFlags | kPathMigState},
    {XR, sqd, rts, 0, kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState},

    {UC, sqe, rts, 0, kCurState | kAccessFlags},
    {UD, sqe, rts, 0, kCurState | kQkey},
};

std::string name(const Rule& rule) {
    return "type " + std::to_string(int(rule.type)) + " state " + std::to_string(int(rule.from)) +
           " to " + std::to_string(int(rule.to));
}

std::vector<uint32_t> bits(uint32_t mask) {
    std::vector<uint32_t> result;
    for (uint32_t bit = 1; bit != 0; bit <<= 1)
        if (mask & bit) result.push_back(bit);
    return result;
}

TEST(QpTransition, RequiredAndOptionalAttributesAreAccepted) {
    for (const Rule& rule : kRules) {
        SCOPED_TRACE(name(rule));
        EXPECT_TRUE(qp_transition_allowed(rule.type, rule.from, rule.to, kState | rule.required));
        EXPECT_TRUE(qp_transition_allowed(rule.type, rule.from, rule.to,
                                          kState | rule.required | rule.optional));
        for (const uint32_t bit : bits(rule.optional)) {
            EXPECT_TRUE(
                qp_transition_allowed(rule.type, rule.from, rule.to, kState | rule.required | bit))
                << bit;
        }
    }
}

TEST(QpTransition, EachMissingRequiredAttributeIsRefused) {
    for (const Rule& rule : kRules) {
        SCOPED_TRACE(name(rule));
        for (const uint32_t bit : bits(rule.required)) {
            EXPECT_FALSE(qp_transition_allowed(rule.type, rule.from, rule.to,
                                               kState | (rule.required & ~bit)))
                << bit;
            EXPECT_FALSE(qp_transition_allowed(rule.type, rule.from, rule.to,
                                               kState | ((rule.required | rule.optional) & ~bit)))
                << bit;
        }
    }
}

TEST(QpTransition, EachAlienAttributeIsRefused) {
    for (const Rule& rule : kRules) {
        SCOPED_TRACE(name(rule));
        for (const uint32_t bit : bits(~(rule.required | rule.optional | kState))) {
            EXPECT_FALSE(
                qp_transition_allowed(rule.type, rule.from, rule.to, kState | rule.required | bit))
                << bit;
        }
    }
}

TEST(QpTransition, OnlyListedTransitionsExist) {
    std::map<std::tuple<QpType, QpState, QpState>, const Rule*> listed;
    for (const Rule& rule : kRules) listed[{rule.type, rule.from, rule.to}] = &rule;
    for (const QpType type : kTypes) {
        for (const QpState from : kStates) {
            for (const QpState to : kStates) {
                const Rule wanted{type, from, to, 0, 0};
                SCOPED_TRACE(name(wanted));
                const bool into_rest = to == reset || (to == err && from != reset);
                const bool exists = into_rest || listed.count({type, from, to}) != 0;
                EXPECT_EQ(qp_transition(type, from, to).allowed, exists);
                if (!exists) {
                    for (const uint32_t bit : bits(kAllAttributes))
                        EXPECT_FALSE(qp_transition_allowed(type, from, to, kState | bit));
                    EXPECT_FALSE(qp_transition_allowed(type, from, to, kState | kAllAttributes));
                }
            }
        }
    }
}

TEST(QpTransition, ResetAndErrorTakeTheStateAlone) {
    for (const QpType type : kTypes) {
        for (const QpState from : kStates) {
            for (const QpState to : {reset, err}) {
                SCOPED_TRACE(name({type, from, to, 0, 0}));
                EXPECT_EQ(qp_transition_allowed(type, from, to, kState),
                          to == reset || from != reset);
                for (const uint32_t bit : bits(~kState))
                    EXPECT_FALSE(qp_transition_allowed(type, from, to, kState | bit)) << bit;
            }
        }
    }
}

// Attribute masks that widespread programs pass.
TEST(QpTransition, MasksOfRealPrograms) {
    EXPECT_TRUE(qp_transition_allowed(RC, reset, init, 0x39));
    EXPECT_TRUE(qp_transition_allowed(RC, init, rtr, 0x129181));
    EXPECT_TRUE(qp_transition_allowed(RC, rtr, rts, 0x12e01));
    EXPECT_TRUE(qp_transition_allowed(RC, rts, err, 0x1));
    EXPECT_TRUE(qp_transition_allowed(UD, reset, init, 0x71));
    EXPECT_TRUE(qp_transition_allowed(UD, init, rtr, 0x1));
    EXPECT_TRUE(qp_transition_allowed(UD, rtr, rts, 0x10001));
}

TEST(QpState, WhatEachStatePermits) {
    const struct {
        QpState state;
        bool post_send, post_recv, responds, sends;
    } table[] = {
        {reset, false, false, false, false}, {init, false, true, false, false},
        {rtr, false, true, true, false},     {rts, true, true, true, true},
        {sqd, true, true, true, false},      {sqe, true, true, true, false},
        {err, true, true, false, false},
    };
    for (const auto& row : table) {
        SCOPED_TRACE(int(row.state));
        EXPECT_EQ(can_post_send(row.state), row.post_send);
        EXPECT_EQ(can_post_recv(row.state), row.post_recv);
        EXPECT_EQ(responds(row.state), row.responds);
        EXPECT_EQ(sends(row.state), row.sends);
    }
}

TEST(QpTimers, RnrTimer) {
    EXPECT_EQ(rnr_timer_ns(0), 655'360'000u);
    EXPECT_EQ(rnr_timer_ns(1), 10'000u);
    EXPECT_EQ(rnr_timer_ns(5), 60'000u);
    EXPECT_EQ(rnr_timer_ns(12), 640'000u);
    EXPECT_EQ(rnr_timer_ns(20), 10'240'000u);
    EXPECT_EQ(rnr_timer_ns(31), 491'520'000u);
    for (uint8_t code = 2; code < 32; ++code)
        EXPECT_GT(rnr_timer_ns(code), rnr_timer_ns(static_cast<uint8_t>(code - 1))) << int(code);
    EXPECT_EQ(rnr_timer_ns(32 + 12), rnr_timer_ns(12));
}

TEST(QpTimers, AckTimeout) {
    EXPECT_EQ(ack_timeout_ns(0), 0u);
    EXPECT_EQ(ack_timeout_ns(1), 8192u);
    EXPECT_EQ(ack_timeout_ns(14), 67'108'864u);
    EXPECT_EQ(ack_timeout_ns(31), uint64_t{4096} << 31);
    EXPECT_EQ(ack_timeout_ns(32), 0u);
}

TEST(QpTimers, Mtu) {
    EXPECT_EQ(mtu_bytes(0), 0u);
    EXPECT_EQ(mtu_bytes(1), 256u);
    EXPECT_EQ(mtu_bytes(3), 1024u);
    EXPECT_EQ(mtu_bytes(5), 4096u);
    EXPECT_EQ(mtu_bytes(6), 0u);
    EXPECT_EQ(mtu_bytes(255), 0u);
}

}  // namespace
}  // namespace softhca
