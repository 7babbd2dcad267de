// SPDX-License-Identifier: BSD-3-Clause
// A flush must not report success for operations that were lost.
#include <algorithm>

#include "transfer.h"

namespace uct_test {
namespace flush_loss_test {

constexpr std::size_t kSize = 64 * 1024;

// SetUp() puts successfully; the peer refuses the puts of lose(), to memory that is not declared
// any more.
class FlushLossTest : public TernTest {
  protected:
    void SetUp() override {
        TernTest::SetUp();
        if (IsSkipped()) return;
        ASSERT_TRUE(accepted(all_, [&] { return put_bcopy(ep_, pattern(0, 100), to_, key_); }));
        ASSERT_TRUE(flush_wait(all_, ep_));
    }
    ucs_status_t lose(bool with_completion) {
        if (!with_completion) return put_bcopy(ep_, pattern(1, 3000), to_, key_);
        const uct_iov_t iov = near_.iov(0, kSize);
        return put_zcopy(ep_, {&iov, 1}, to_, key_, &completion_);
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Declared near_{a_.host(), kSize}, far_{b_.host(), kSize};
    const uint64_t to_ = far_.remote().address;
    RemoteKey key_{a_.host(), far_.remote()};
    Endpoint ep_ = a_.connect(b_);
    Completion completion_;
};

TEST_F(FlushLossTest, EndpointHearsOfARefusedPut) {
    for (const bool with_completion : {true, false}) {
        if (!with_completion) {
            // The first loss was reported by its completion; this put makes the endpoint fail.
            ASSERT_TRUE(a_.failures().empty());
        }
        far_.undeclare();
        ASSERT_TRUE(accepted(all_, [&] { return lose(with_completion); }));
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(flush_wait(all_, ep_, &status));
        EXPECT_NE(status, UCS_OK) << with_completion;
    }
    linger(all_);
    EXPECT_EQ(completion_.calls, 1);
    EXPECT_NE(completion_.status, UCS_OK);
    EXPECT_EQ(a_.failures(ep_), 1u);
}

TEST_F(FlushLossTest, EndpointHearsOfItByPolling) {
    far_.undeclare();
    ASSERT_TRUE(accepted(all_, [&] { return lose(false); }));
    ucs_status_t status = UCS_OK;
    ASSERT_TRUE(eventually(all_, [&] {
        status = uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_LOCAL, nullptr);
        return status != UCS_INPROGRESS && status != UCS_ERR_NO_RESOURCE;
    }));
    EXPECT_NE(status, UCS_OK);
}

// The completion or the error handler has reported the loss; UCX expects later flushes of the
// interface to succeed.
TEST_F(FlushLossTest, InterfaceLeavesItToTheErrorHandler) {
    for (const bool with_completion : {true, false}) {
        far_.undeclare();
        ASSERT_TRUE(accepted(all_, [&] { return lose(with_completion); }));
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(eventually(all_, [&] {
            status = uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr);
            return status != UCS_INPROGRESS;
        }));
        EXPECT_STATUS(UCS_OK, status);
        if (with_completion)
            EXPECT_NE(completion_.status, UCS_OK);
        else
            EXPECT_EQ(a_.failures(ep_), 1u);
    }
}

// The device refuses the put, and the connection ends. The send queue is empty afterwards, flushed
// or not.
TEST_F(FlushLossTest, WhatIsLostWithItsConnection) {
    Declared open(b_.host(), kSize, UCT_MD_MEM_ACCESS_ALL);
    const RemoteKey key(a_.host(), open.remote());
    for (const bool interface : {false, true}) {
        const Endpoint ep = a_.connect(b_);
        const std::size_t failures = a_.failures().size();
        ASSERT_TRUE(accepted(
            all_, [&] { return put_short(ep, pattern(0, 8), open.remote().address, key); }));
        ASSERT_TRUE(flush_wait(all_, ep));
        ASSERT_TRUE(accepted(all_, [&] {
            return put_short(ep, pattern(0, 8), open.remote().address + kSize, key);
        }));
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(eventually(all_, [&] {
            status = interface ? uct_iface_flush(a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr)
                               : uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, nullptr);
            return status != UCS_INPROGRESS && status != UCS_ERR_NO_RESOURCE;
        }));
        // A flush of an endpoint reports its error by itself.
        if (!interface) {
            EXPECT_NE(status, UCS_OK);
        }
        ASSERT_TRUE(eventually(all_, [&] { return a_.failures().size() > failures; }));
        ep_ = Endpoint();
    }
}

}  // namespace flush_loss_test
}  // namespace uct_test
