// SPDX-License-Identifier: BSD-3-Clause
// Exhausted resources, and pending requests.
#include <deque>
#include <memory>

#include "message.h"

namespace uct_test {
namespace pending_test {

constexpr std::size_t kLength = 64;

class PendingTest : public testing::Test {
  protected:
    PendingTest() {
        b_.handle(1, [this](Bytes message) {
            EXPECT_TRUE(same(message, pattern(received_, kLength))) << "message " << received_;
            ++received_;
        });
        b_.handle(2, [this](Bytes) { ++others_; });
    }

    ucs_status_t send(const Endpoint& ep) {
        const ucs_status_t status = am_bcopy(ep, 1, pattern(sent_, kLength));
        if (status == UCS_OK) ++sent_;
        return status;
    }
    void warm_up() {
        ASSERT_TRUE(accepted(all_, [&] { return send(ep_); }));
        ASSERT_TRUE(arrived());
        linger(all_, milliseconds(5));
    }
    // Sends until a send is refused; b_ makes no progress.
    void exhaust() {
        ucs_status_t status;
        while ((status = send(ep_)) == UCS_OK) ASSERT_LT(sent_, 1000000u);
        ASSERT_STATUS(UCS_ERR_NO_RESOURCE, status);
    }
    testing::AssertionResult arrived() {
        return eventually(all_, [&] { return received_ == sent_; });
    }
    // A pending request that sends one message.
    Pending& request() {
        return requests_.emplace_back([this] {
            ++called_;
            return send(ep_);
        });
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Endpoint ep_ = a_.connect(b_);
    std::size_t sent_ = 0, received_ = 0, others_ = 0, called_ = 0;
    std::deque<Pending> requests_;
};

TEST_F(PendingTest, BusyWhenThereIsRoom) {
    warm_up();
    Pending& idle = request();
    EXPECT_STATUS(UCS_ERR_BUSY, uct_ep_pending_add(ep_.get(), &idle, 0));
    linger(all_);
    EXPECT_EQ(called_, 0u);
}

TEST_F(PendingTest, WaitsForTheConnection) {
    ucs_status_t status = UCS_OK;
    while ((status = send(ep_)) == UCS_OK && sent_ < 1000) {
    }
    if (status == UCS_OK) GTEST_SKIP() << "connects at once";
    ASSERT_STATUS(UCS_ERR_NO_RESOURCE, status);
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &request(), 0));
    EXPECT_EQ(called_, 0u) << "called from within pending_add";
    const std::size_t early = sent_;
    ASSERT_TRUE(eventually(all_, [&] { return received_ == early + 1; }));
    EXPECT_EQ(sent_, early + 1);
}

TEST_F(PendingTest, DispatchedInOrderWhenThereIsRoomAgain) {
    warm_up();
    exhaust();
    constexpr std::size_t kRequests = 50;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < kRequests; ++i) {
        Pending& pending = requests_.emplace_back([this, i, &order] {
            const ucs_status_t status = send(ep_);
            if (status == UCS_OK) order.push_back(i);
            return status;
        });
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &pending, 0)) << i;
    }
    EXPECT_TRUE(order.empty());
    ASSERT_TRUE(eventually(all_, [&] { return order.size() == kRequests; }));
    for (std::size_t i = 0; i < kRequests; ++i) EXPECT_EQ(order[i], i);
    EXPECT_TRUE(arrived());
}

// A send may not overtake pending requests.
TEST_F(PendingTest, NobodyPassesThoseWhoWait) {
    warm_up();
    exhaust();
    const std::size_t before = sent_;
    bool ready = false;
    Pending& pending =
        requests_.emplace_back([&] { return ready ? send(ep_) : UCS_ERR_NO_RESOURCE; });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &pending, 0));
    // By now there is room, but the pending request comes first.
    ASSERT_TRUE(arrived());
    linger(all_);
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, am_bcopy(ep_, 2, pattern(0, 8)));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, am_short(ep_, 2, pattern(0, 8)));
    ready = true;
    ASSERT_TRUE(eventually(all_, [&] { return sent_ == before + 1; }));
    EXPECT_TRUE(arrived());
    EXPECT_STATUS(UCS_OK, send(ep_));
    EXPECT_TRUE(arrived());
}

TEST_F(PendingTest, KeptUntilItSucceeds) {
    warm_up();
    exhaust();
    int tries = 0;
    Pending& pending =
        requests_.emplace_back([&] { return ++tries < 4 ? UCS_ERR_NO_RESOURCE : send(ep_); });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &pending, 0));
    ASSERT_TRUE(eventually(all_, [&] { return tries >= 4; }));
    ASSERT_TRUE(arrived());
    const int last = tries;
    linger(all_);
    EXPECT_EQ(tries, last) << "called again after UCS_OK";
}

TEST_F(PendingTest, AddsAnotherFromWithin) {
    warm_up();
    exhaust();
    bool first_done = false;
    Pending second([&] { return send(ep_); });
    bool waiting = false;
    Pending first([&] {
        const ucs_status_t status = send(ep_);
        if (status != UCS_OK) return status;
        first_done = true;
        // UCP does so when a request has more to send.
        const ucs_status_t added = uct_ep_pending_add(ep_.get(), &second, 0);
        waiting = added == UCS_OK;
        if (!waiting) {
            EXPECT_STATUS(UCS_ERR_BUSY, added);
        }
        return UCS_OK;
    });
    const std::size_t before = sent_;
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &first, 0));
    ASSERT_TRUE(
        eventually(all_, [&] { return first_done && sent_ == before + (waiting ? 2 : 1); }));
    EXPECT_TRUE(arrived());
}

TEST_F(PendingTest, MovesToAnotherEndpointFromWithin) {
    warm_up();
    const Endpoint other = a_.connect(b_);
    exhaust();
    bool moved = false;
    Pending pending([&] {
        if (moved) return send(other);
        moved = true;
        const ucs_status_t status = send(ep_);
        return status;
    });
    const std::size_t before = sent_;
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &pending, 0));
    ASSERT_TRUE(eventually(all_, [&] { return sent_ > before; }));
    EXPECT_TRUE(arrived());
}

TEST_F(PendingTest, PurgeHandsOverEachInOrder) {
    warm_up();
    exhaust();
    for (int i = 0; i < 5; ++i) {
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &request(), 0));
    }
    std::vector<uct_pending_req_t*> purged;
    const auto collect = [](uct_pending_req_t* pending, void* arg) {
        static_cast<std::vector<uct_pending_req_t*>*>(arg)->push_back(pending);
    };
    uct_ep_pending_purge(ep_.get(), collect, &purged);
    ASSERT_EQ(purged.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(purged[i], &requests_[i]) << i;
    ASSERT_TRUE(arrived());
    linger(all_);
    EXPECT_EQ(called_, 0u);
    // The queue is empty now.
    uct_ep_pending_purge(ep_.get(), collect, &purged);
    EXPECT_EQ(purged.size(), 5u);
    EXPECT_STATUS(UCS_OK, send(ep_));
    EXPECT_TRUE(arrived());
}

TEST_F(PendingTest, PurgeOfAnUnusedEndpoint) {
    const auto never = [](uct_pending_req_t*, void*) { ADD_FAILURE() << "nothing is pending"; };
    uct_ep_pending_purge(ep_.get(), never, nullptr);
    warm_up();
    uct_ep_pending_purge(ep_.get(), never, nullptr);
}

// Pending requests of one endpoint must not hold up other endpoints.
TEST_F(PendingTest, OtherPeersGoOn) {
    Entity c;
    std::size_t at_c = 0;
    c.handle(1, [&](Bytes) { ++at_c; });
    const Endpoint to_c = a_.connect(c);
    warm_up();
    ASSERT_TRUE(accepted({&a_, &c}, [&] { return am_bcopy(to_c, 1, pattern(0, 8)); }));
    exhaust();
    const std::size_t before = sent_;
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &request(), 0));
    // b_ makes no progress. If it was the send queue that was full, the request goes all the same.
    for (std::size_t i = 0; i < 2000; ++i) {
        ASSERT_TRUE(accepted({&a_, &c}, [&] { return am_bcopy(to_c, 1, pattern(i, 8)); })) << i;
    }
    ASSERT_TRUE(eventually({&a_, &c}, [&] { return at_c == 2001; }));
    ASSERT_TRUE(eventually(all_, [&] { return sent_ == before + 1 && received_ == sent_; }));
}

// Resources are exhausted and returned many times.
TEST_F(PendingTest, AgainAndAgain) {
    warm_up();
    for (int round = 0; round < 30; ++round) {
        exhaust();
        const std::size_t before = sent_;
        Pending& pending = request();
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &pending, 0));
        ASSERT_TRUE(eventually(all_, [&] { return sent_ == before + 1; }));
        ASSERT_TRUE(arrived());
        requests_.clear();
    }
}

// Quiet connections must return their buffers to the common pool.
TEST(ResourceTest, QuietConnectionsHoldNoBuffers) {
    constexpr std::size_t kPeers = 8;
    auto host = std::make_shared<Host>();
    Entity center(Settings{{"TX_BUFFERS", "64"}});
    std::vector<std::unique_ptr<Entity>> peers;
    std::vector<Endpoint> eps;
    std::size_t received = 0;
    for (std::size_t i = 0; i < kPeers; ++i) {
        peers.push_back(std::make_unique<Entity>(Settings{{"RX_QUEUE_LEN", "64"}}, host));
        peers.back()->handle(0, [&](Bytes) { ++received; });
        eps.push_back(center.connect(*peers.back()));
    }
    const Group all{&center, peers[0].get()};  // its progress includes all interfaces of the host
    std::size_t sent = 0;
    for (const Endpoint& ep : eps) {
        for (int i = 0; i < 20; ++i, ++sent) {
            ASSERT_TRUE(accepted(all, [&] { return am_bcopy(ep, 0, pattern(0, 1000)); })) << sent;
        }
    }
    EXPECT_TRUE(eventually(all, [&] { return received == sent; }));
}

}  // namespace pending_test
}  // namespace uct_test
