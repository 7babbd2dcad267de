// SPDX-License-Identifier: BSD-3-Clause
// What a peer has flushed is delivered before the receiver is told of an end, whoever ends the
// connection, and however late the receiver polls.
#include <memory>

#include "message.h"

namespace uct_test {
namespace {

constexpr uint8_t kId = 1;
constexpr unsigned kCold = 8, kHot = 30;

// b_ sends and flushes; a_ does not progress until it, or b_, ends the connection. The parameter:
// whether the messages are in a block.
class EndDeliversTest : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        if (GetParam()) NEEDS_BLOCKS();
        a_.handle(kId, [this](Bytes message) {
            EXPECT_TRUE(same(message, pattern(received_, 40)));
            ++received_;
        });
        b_->handle(kId, [](Bytes) {});
        ASSERT_TRUE(accepted(both(), [&] { return send(to_a_); }));
        ++sent_;
        ASSERT_TRUE(accepted(both(), [&] { return send(to_b_); }));
        while (GetParam() && sent_ < 200) {
            ASSERT_TRUE(accepted(both(), [&] { return send(to_a_); }));
            ++sent_;
        }
        ASSERT_TRUE(eventually(both(), [&] { return received_ == sent_; }));
        for (const Endpoint* ep : {&to_a_, &to_b_})
            ASSERT_TRUE(eventually(both(), [&] {
                return uct_ep_flush(ep->get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
            }));
        for (unsigned i = 0; i < (GetParam() ? kHot : kCold); ++i) {
            if (send(to_a_) != UCS_OK) break;
            ++sent_;
        }
        ASSERT_TRUE(eventually({b_.get()}, [&] {
            return uct_ep_flush(to_a_.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
        }));
        ASSERT_GT(sent_, received_ + 1);
    }

    Group both() { return {&a_, b_.get()}; }
    ucs_status_t send(const Endpoint& ep) { return am_short(ep, kId, pattern(sent_, 40)); }
    // A put of a_ that is under way.
    void put_without_end() {
        ASSERT_STATUS(UCS_OK, put_short(to_b_, pattern(0, 8), remote_.address, key_));
    }
    testing::AssertionResult all_come() {
        return eventually({&a_}, [&] { return received_ == sent_; });
    }

    Entity a_;
    std::unique_ptr<Entity> b_ = std::make_unique<Entity>();
    Memory memory_{b_->host(), 4096};
    const Remote remote_ = describe(b_->host(), memory_);
    RemoteKey key_{a_.host(), remote_};
    Memory own_{a_.host(), 8192};
    Endpoint to_a_ = b_->connect(a_), to_b_ = a_.connect(*b_);
    uint64_t sent_ = 0, received_ = 0;
};

TEST_P(EndDeliversTest, FlushByForce) {
    put_without_end();
    Completion completion;
    uint64_t before = 0;
    completion.then = [&] { before = received_; };
    const ucs_status_t status = uct_ep_flush(to_b_.get(), UCT_FLUSH_FLAG_CANCEL, &completion);
    ASSERT_TRUE(status == UCS_OK || status == UCS_INPROGRESS) << ucs_status_string(status);
    EXPECT_TRUE(all_come());
    if (status == UCS_INPROGRESS) {
        ASSERT_TRUE(eventually({&a_}, [&] { return completion.calls == 1; }));
        EXPECT_EQ(before, sent_) << "the end was told first";
    }
}

TEST_P(EndDeliversTest, EndpointThatIsDestroyed) {
    to_b_.reset();
    EXPECT_TRUE(all_come());
}

TEST_P(EndDeliversTest, EndpointThatIsDestroyedWithAnOperation) {
    const uct_iov_t iov = own_.iov(0, 4096);
    Completion completion;
    ASSERT_TRUE(accepted({&a_}, [&] {
        return put_zcopy(to_b_, {&iov, 1}, remote_.address, key_, &completion);
    }));
    to_b_.reset();
    EXPECT_EQ(completion.calls, 1);
    EXPECT_TRUE(all_come());
}

TEST_P(EndDeliversTest, PeersEndpointIsDestroyed) {
    to_a_.reset();
    linger({b_.get()});
    EXPECT_TRUE(all_come());
}

TEST_P(EndDeliversTest, PeersInterfaceIsClosed) {
    to_a_.reset();
    b_->close();
    EXPECT_TRUE(all_come());
}

TEST_P(EndDeliversTest, PeerIsLostWithAnOperation) {
    uint64_t before = 0;
    a_.on_failure = [&](const Failure&) { before = received_; };
    to_a_.reset();
    b_->close();
    const ucs_status_t status = put_short(to_b_, pattern(0, 8), remote_.address, key_);
    EXPECT_TRUE(all_come());
    if (status != UCS_OK) return;
    ASSERT_TRUE(eventually({&a_}, [&] { return a_.failures(to_b_) == 1; }));
    EXPECT_EQ(before, sent_) << "the end was told first";
}

INSTANTIATE_TEST_SUITE_P(Cold, EndDeliversTest, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Hot, EndDeliversTest, testing::Values(true));

}  // namespace
}  // namespace uct_test
