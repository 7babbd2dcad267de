// SPDX-License-Identifier: BSD-3-Clause
// The messages by which UCP sets up endpoints: of an interface that UCP opens, they are never
// refused, because UCP could not take them back from the queue of pending requests.
#include <cerrno>
#include <deque>

#include "traffic.h"
#include "verbs_calls.h"

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

// While it exists, the device of this context makes no queue pair.
class NoQueuePairs {
  public:
    explicit NoQueuePairs(ibv_context* context) : verbs_(verbs_get_ctx(context)) {
        verbs_->create_qp_ex = [](ibv_context*, ibv_qp_init_attr_ex*) -> ibv_qp* {
            errno = EIO;
            return nullptr;
        };
    }
    ~NoQueuePairs() { verbs_->create_qp_ex = create_; }
    NoQueuePairs(const NoQueuePairs&) = delete;
    NoQueuePairs& operator=(const NoQueuePairs&) = delete;

  private:
    verbs_context* verbs_;
    decltype(verbs_->create_qp_ex) create_ = verbs_->create_qp_ex;
};

// The connection ends in good order, while messages are kept behind a request that the user takes
// back, and there can be no other connection: the user waits for nothing, and is told.
TEST_F(WireupTest, CannotBeSent) {
    const auto host = std::make_shared<Host>();
    Entity a({}, host, as_ucp), last({}, host);
    auto b = std::make_unique<Entity>();
    for (Entity* each : {b.get(), &last}) handle(*each);
    const Endpoint ep = a.connect(*b), to_last = a.connect(last);
    ASSERT_TRUE(accepted({&a, b.get()}, [&] { return other(ep); }));
    ASSERT_TRUE(flush_wait({&a, b.get()}, ep));
    ASSERT_TRUE(accepted({&a}, [&] { return other(to_last); }));
    ASSERT_TRUE(flush_wait({&a}, to_last));
    while (other(ep) == UCS_OK) {
    }
    Pending request([] { return UCS_ERR_NO_RESOURCE; });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &request, 0));
    for (int i = 0; i < 3; ++i) ASSERT_STATUS(UCS_OK, wireup(ep));
    linger({&a}, milliseconds(50));  // all else arrives
    b.reset();
    ASSERT_TRUE(eventually({}, [&] { return a.progress() != 0; })) << "the end is not heard of";
    uct_ep_pending_purge(
        ep.get(), [](uct_pending_req_t*, void*) {}, nullptr);
    const NoQueuePairs refuses(last_context);
    EXPECT_TRUE(eventually({&a}, [&] { return a.failures(ep) == 1; }));
    linger({&a});
    ASSERT_EQ(a.failures().size(), 1u);
    EXPECT_STATUS(UCS_ERR_IO_ERROR, a.failures()[0].status);
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
