// SPDX-License-Identifier: BSD-3-Clause
// The messages by which UCP sets up endpoints: of an interface that UCP opens, they are never
// refused, because UCP could not take them back from the queue of pending requests.
#include <deque>

#include "traffic.h"

namespace uct_test {
namespace wireup_test {

constexpr uint8_t kWireup = 1;  // UCP_AM_ID_WIREUP
constexpr uint8_t kOther = 2;

// As UCP opens it.
std::unique_ptr<Entity> ucp_entity(const Settings& settings = {}) {
    return std::make_unique<Entity>(settings, std::make_shared<Host>(), as_ucp);
}

class WireupTest : public TernTest {
  protected:
    void handle(Entity& entity) {
        entity.handle(kWireup, [this](Bytes message) {
            EXPECT_TRUE(same(message, pattern(wireups_, 40)));
            ++wireups_;
        });
        entity.handle(kOther, [this](Bytes) {
            others_before_ += wireups_ == 0;
            ++others_;
        });
    }
    ucs_status_t wireup(const Endpoint& ep) { return am_bcopy(ep, kWireup, pattern(sent_++, 40)); }
    ucs_status_t other(const Endpoint& ep) { return am_bcopy(ep, kOther, pattern(0, 8)); }

    uint64_t sent_ = 0, wireups_ = 0;
    unsigned others_ = 0, others_before_ = 0;
};

// The endpoint has no room, and a request is pending.
class BehindOthersTest : public WireupTest {
  protected:
    void SetUp() override {
        handle(b_);
        ASSERT_TRUE(accepted({a_.get(), &b_}, [&] { return other(ep_); }));
        ++accepted_;
        while (other(ep_) == UCS_OK) ++accepted_;
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &request_, 0));
        for (int i = 0; i < 3; ++i) ASSERT_STATUS(UCS_OK, wireup(ep_));
    }

    std::unique_ptr<Entity> a_ = ucp_entity();
    Entity b_;
    Endpoint ep_ = a_->connect(b_);
    Pending request_{[this] { return other(ep_); }};
    unsigned accepted_ = 0;
};

TEST_F(BehindOthersTest, GoInTheirTurn) {
    ASSERT_TRUE(eventually({a_.get(), &b_}, [&] { return wireups_ == 3; }));
    EXPECT_EQ(others_, accepted_ + 1);
    EXPECT_EQ(others_before_, others_);
    linger({a_.get(), &b_});
    EXPECT_EQ(wireups_, 3u);
    EXPECT_TRUE(accepted({a_.get(), &b_}, [&] { return other(ep_); }));
}

TEST_F(BehindOthersTest, NotWithoutEnd) {
    unsigned kept = 3;
    while (wireup(ep_) == UCS_OK) ASSERT_LT(++kept, 1000u);
    EXPECT_GE(kept, 8u);
    --sent_;
    ASSERT_TRUE(eventually({a_.get(), &b_}, [&] { return wireups_ == sent_; }));
}

TEST_F(BehindOthersTest, TheUserTakesBackOnlyItsOwn) {
    std::size_t purged = 0;
    uct_ep_pending_purge(
        ep_.get(), [](uct_pending_req_t*, void* count) { ++*static_cast<std::size_t*>(count); },
        &purged);
    EXPECT_EQ(purged, 1u);
    ASSERT_TRUE(eventually({a_.get(), &b_}, [&] { return wireups_ == 3; }));
    EXPECT_EQ(others_, accepted_);
}

// As UCP does when it closes an endpoint by force.
TEST_F(BehindOthersTest, EndWithTheEndpoint) {
    uct_ep_pending_purge(
        ep_.get(), [](uct_pending_req_t*, void*) {}, nullptr);
    Completion completion;
    const ucs_status_t status = uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_CANCEL, &completion);
    ASSERT_TRUE(status == UCS_OK || status == UCS_INPROGRESS) << ucs_status_string(status);
    if (status == UCS_INPROGRESS) {
        ASSERT_TRUE(eventually({a_.get()}, [&] { return completion.calls == 1; }));
    }
    ep_.reset();
    linger({a_.get(), &b_});
    EXPECT_EQ(wireups_, 0u);
}

// The connection has ended for another one, in good order, and the end is being told.
TEST_F(WireupTest, ConnectAgain) {
    const auto a = ucp_entity({{"QP_MAX", "1"}});
    Entity b, c;
    handle(b);
    c.handle(kOther, [](Bytes) {});
    const Endpoint to_b = a->connect(b), to_c = a->connect(c);
    for (int i = 0; i < 60; ++i) {
        ASSERT_TRUE(accepted({a.get(), &b, &c}, [&] { return other(to_c); }));
        for (int j = 0; j < i; ++j) progress({a.get(), &b, &c});
        ASSERT_STATUS(UCS_OK, wireup(to_b));
    }
    EXPECT_TRUE(eventually({a.get(), &b, &c}, [&] { return wireups_ == sent_; }));
    linger({a.get(), &b, &c});
    EXPECT_EQ(wireups_, sent_);
    EXPECT_TRUE(a->failures().empty());
}

}  // namespace wireup_test
}  // namespace uct_test
