// SPDX-License-Identifier: BSD-3-Clause
// Settings that ask for more than a device has, or for very little.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "direct_pair.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

ibv_device_attr device_with(int max_cqe, int max_srq, int max_srq_wr, int max_qp_wr) {
    ibv_device_attr attributes{};
    attributes.max_cqe = max_cqe;
    attributes.max_srq = max_srq;
    attributes.max_srq_wr = max_srq_wr;
    attributes.max_qp_wr = max_qp_wr;
    return attributes;
}

TEST(TupleQSettings, WhatFitsStays) {
    const TupleQSettings wanted{.tuples = 64, .depth = 16, .sends = 200};
    const TupleQSettings fit = wanted.within(device_with(1 << 16, 1000, 1000, 1000));
    EXPECT_EQ(fit.tuples, 64u);
    EXPECT_EQ(fit.depth, 16u);
    EXPECT_EQ(fit.sends, 200u);
}

TEST(TupleQSettings, EveryLimitIsKept) {
    const int limits[] = {-1, 0, 1, 2, 3, 15, 16, 17, 100, 4095, 65535, 1 << 20, INT32_MAX};
    for (const uint32_t tuples : {1u, 3u, 64u, 1024u})
        for (const uint32_t depth : {1u, 16u, 1024u})
            for (const uint32_t sends : {1u, 100u, 4096u})
                for (const int cqe : limits)
                    for (const int srq : limits)
                        for (const int wr : limits) {
                            const TupleQSettings fit =
                                TupleQSettings{.tuples = tuples, .depth = depth, .sends = sends}
                                    .within(device_with(cqe, srq, wr, wr));
                            if (fit.tuples == 0) {
                                // Only if a limit is too low.
                                ASSERT_TRUE(cqe < 32 || srq < 2 || wr < 1) << cqe << srq << wr;
                                continue;
                            }
                            ASSERT_LE(fit.tuples, tuples);
                            ASSERT_LE(fit.depth, depth);
                            ASSERT_LE(fit.sends, sends);
                            ASSERT_GE(fit.sends, 1u);
                            ASSERT_TRUE(std::has_single_bit(fit.depth));
                            ASSERT_LT(fit.tuples, static_cast<uint32_t>(srq));
                            ASSERT_LE(fit.depth, static_cast<uint32_t>(wr));
                            ASSERT_LE(std::bit_ceil(fit.sends), static_cast<uint32_t>(wr));
                            ASSERT_LE(fit.completions(2), static_cast<uint64_t>(cqe));
                        }
}

// The extremes that the user may ask for, on the device of the test.
class DirectExtremes : public DirectMessages, public testing::WithParamInterface<uint32_t> {
  protected:
    void SetUp() override {
        TupleQSettings settings = few_tuples();
        settings.tuples = settings.depth = GetParam();
        sender = std::make_unique<DirectNode>(settings);
        receiver = std::make_unique<DirectNode>(settings);
        DirectMessages::SetUp();
    }
};

TEST_P(DirectExtremes, MessagesAreDirect) {
    const TupleQSettings wanted{.tuples = GetParam(), .depth = GetParam(), .sends = 16};
    const TupleQSettings fit = wanted.within(device().attributes);
    const bool less = fit.tuples != wanted.tuples || fit.depth != wanted.depth;
    ASSERT_EQ(receiver->warnings.size(), less ? 1u : 0u);
    EXPECT_TRUE(less || GetParam() < 1024 || device().attributes.max_cqe > 2 << 20);
    bind();
    constexpr size_t kMessages = 64;
    std::vector<DirectNode::Receive*> receives;
    for (size_t i = 0; i < kMessages; ++i) receives.push_back(&receiver->post(kTag));
    for (size_t i = 0; i < kMessages; ++i) {
        ASSERT_TRUE(granted());
        send(std::to_string(i));
    }
    ASSERT_TRUE(settled([&] { return receives.back()->done; }));
    for (size_t i = 0; i < kMessages; ++i) {
        EXPECT_TRUE(receives[i]->direct);
        EXPECT_EQ(receives[i]->text, std::to_string(i));
    }
}

INSTANTIATE_TEST_SUITE_P(Settings, DirectExtremes, testing::Values(1, 64, 1024));

// The device has no room for the buffers of copied messages, and has some later.
TEST_F(DirectMessages, RefusedBuffersAreTriedAgain) {
    DirectSender& direct = sender->tupleq->sender();
    {
        const VerbsFault none(Verb::kRegMr, 1, ENOMEM, 1000);
        EXPECT_EQ(direct.take_buffer(), nullptr);
        EXPECT_EQ(direct.take_buffer(), nullptr);
    }
    EXPECT_EQ(sender->warnings.size(), 1u);
    SendPool::Buffer* buffer = nullptr;
    ASSERT_TRUE(settled([&] { return (buffer = direct.take_buffer()) != nullptr; }));
    direct.give_buffer(buffer);
}

}  // namespace
}  // namespace tern::test
