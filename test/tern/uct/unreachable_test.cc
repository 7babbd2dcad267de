// SPDX-License-Identifier: BSD-3-Clause
// Connecting to interfaces that do not exist, or while packets are lost.
#include <deque>
#include <thread>

#include "../../softhca/device/fabric.h"
#include "traffic.h"

namespace uct_test {
namespace unreachable_test {

namespace softhca = conformance::softhca;

constexpr milliseconds kLimit{10000};  // generous beside the connect timeouts

class UnreachableTest : public TernTest {
  protected:
    void TearDown() override {
        if (!IsSkipped()) end_faults();
    }

    // The address of an interface that is closed.
    static Address nobody() { return Entity().address(); }

    // Checks that everything that waits for the connection ends with it.
    static void fails(Entity& a, Endpoint& ep) {
        const Group all{&a};
        Entity friendly;
        std::size_t at_friend = 0;
        friendly.handle(0, [&](Bytes) { ++at_friend; });
        const Endpoint to_friend = a.connect(friendly);
        std::deque<Pending> requests;
        std::size_t tried = 0, called = 0, purged = 0;
        ucs_status_t first = UCS_OK;
        while ((first = am_bcopy(ep, 0, pattern(0, 8))) == UCS_OK) {
        }
        ASSERT_STATUS(UCS_ERR_NO_RESOURCE, first);
        for (int i = 0; i < 3; ++i) {
            Pending& request = requests.emplace_back([&] {
                ++tried;
                const ucs_status_t status = am_bcopy(ep, 0, pattern(0, 8));
                if (status == UCS_ERR_NO_RESOURCE) return status;
                EXPECT_NE(status, UCS_OK);
                ++called;
                return UCS_OK;
            });
            ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &request, 0));
        }
        const auto start = Clock::now();
        for (int i = 0; i < 20; ++i) progress(all);
        EXPECT_STATUS(UCS_INPROGRESS, uct_iface_flush(a.iface(), 0, nullptr))
            << "it covers what waits for a connection";
        ASSERT_TRUE(eventually(
            all, [&] { return a.failures(ep) > 0; }, kLimit));
        EXPECT_GE(Clock::now() - start, milliseconds(100)) << "hardly tried";
        // The user takes back the remaining requests, as UCP does.
        const auto count = [](uct_pending_req_t*, void* arg) { ++*static_cast<std::size_t*>(arg); };
        uct_ep_pending_purge(ep.get(), count, &purged);
        EXPECT_EQ(called + purged, 3u);
        EXPECT_LE(tried, 9u) << "calls of progress try in vain";
        linger(all);
        EXPECT_EQ(a.failures(ep), 1u);
        EXPECT_EQ(a.failures().size(), 1u);
        EXPECT_NE(a.failures()[0].status, UCS_OK);
        // Sends fail at once, and not with UCS_ERR_NO_RESOURCE.
        for (const ucs_status_t status :
             {am_bcopy(ep, 0, pattern(0, 8)), am_short(ep, 0, pattern(0, 8))}) {
            EXPECT_TRUE(UCS_STATUS_IS_ERR(status) && status != UCS_ERR_NO_RESOURCE)
                << Status{status};
        }
        ASSERT_TRUE(
            accepted({&a, &friendly}, [&] { return am_bcopy(to_friend, 0, pattern(0, 8)); }));
        EXPECT_TRUE(eventually({&a, &friendly}, [&] { return at_friend == 1; }));
        ep.reset();
        linger(all);
        EXPECT_EQ(a.failures().size(), 1u);
    }
};

TEST_F(UnreachableTest, InterfaceThatIsGone) {
    Entity a(impatient({{"CONNECT_TIMEOUT", "2s"}}));
    Endpoint ep = a.connect(nobody());
    fails(a, ep);
}

// The queue pair that the address names belongs to another interface now.
TEST_F(UnreachableTest, SuccessorDoesNotAnswerForIt) {
    Entity a(impatient()), b;
    Address address = b.address();
    // The instance is at the end of the address.
    address.interface[b.attr().iface_addr_len - 1] ^= std::byte{0x55};
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    Endpoint ep = a.connect(address);
    ASSERT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
    ASSERT_TRUE(eventually(
        {&a, &b}, [&] { return a.failures(ep) > 0; }, kLimit));
    linger({&a, &b});
    EXPECT_EQ(a.failures(ep), 1u);
    EXPECT_EQ(received, 0u);
}

// The peer computes, but its process answers: the attempt waits as long as necessary.
TEST_F(UnreachableTest, PeerThatComputesIsWaitedFor) {
    Entity a(impatient()), b;
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    // The peer has begun to connect itself, and only its own progress continues that attempt.
    a.forget(0);
    const Endpoint back = b.connect(a);
    ASSERT_STATUS(UCS_OK, am_bcopy(back, 0, pattern(0, 8)));
    const Endpoint ep = a.connect(b);
    ASSERT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
    linger({&a}, milliseconds(1500));
    ASSERT_TRUE(a.failures().empty()) << Status{a.failures()[0].status};
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
}

// Time in which `a` makes no progress, and cannot ask, must not count as silence.
TEST_F(UnreachableTest, TimeAwayDoesNotCount) {
    Entity a(impatient()), b;
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    const Endpoint ep = a.connect(b);
    ASSERT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
    for (int i = 0; i < 2; ++i) {
        linger({&a}, milliseconds(150));
        std::this_thread::sleep_for(milliseconds(600));
    }
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
    EXPECT_TRUE(a.failures().empty());
}

TEST_F(UnreachableTest, GaveUpWhileTheUserWaitsForAFlush) {
    Entity a(impatient());
    const Endpoint ep = a.connect(nobody());
    ASSERT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
    Completion completion;
    ucs_status_t status = UCS_ERR_NO_RESOURCE;
    ASSERT_TRUE(eventually(
        {&a},
        [&] {
            if (status == UCS_ERR_NO_RESOURCE)
                status = uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &completion);
            return a.failures(ep) > 0;
        },
        kLimit));
    if (status == UCS_INPROGRESS) {
        ASSERT_TRUE(eventually({&a}, [&] { return completion.calls == 1; }));
        EXPECT_NE(completion.status, UCS_OK);
    }
}

// All endpoints to the interface are told, each once; one may be destroyed before.
TEST_F(UnreachableTest, EveryEndpointIsTold) {
    Entity a(impatient());
    const Address there = nobody();
    std::vector<Endpoint> eps;
    for (int i = 0; i < 5; ++i) {
        eps.push_back(a.connect(there));
        EXPECT_STATUS(UCS_OK, am_bcopy(eps.back(), 0, pattern(0, 8)));
    }
    eps[2].reset();
    ASSERT_TRUE(eventually(
        {&a}, [&] { return a.failures().size() >= 4; }, kLimit));
    linger({&a});
    for (const Endpoint& ep : eps) {
        EXPECT_EQ(ep ? a.failures(ep) : 0, ep ? 1u : 0u);
    }
}

TEST_F(UnreachableTest, DestroyedWhileConnecting) {
    Entity a(impatient()), b;
    for (int i = 0; i < 20; ++i) {
        Endpoint ep = a.connect(b);
        am_bcopy(ep, 0, pattern(0, 8));
        for (int j = 0; j < i; ++j) a.progress();
        if (i % 3 == 0) linger({&a, &b}, milliseconds(1));
    }
    linger({&a, &b}, milliseconds(100));
    EXPECT_TRUE(a.failures().empty());
}

// UCP queues its own messages, so none wait for the connection.
TEST_F(UnreachableTest, DestroyedWhileNobodyAnswers) {
    Entity a({}, std::make_shared<Host>(), as_ucp);
    const Address there = nobody();
    const uint64_t queue_pairs = objects("queue_pairs");
    Endpoint ep = a.connect(there);
    ASSERT_STATUS(UCS_ERR_NO_RESOURCE, am_bcopy(ep, 0, pattern(0, 8)));
    linger({&a});
    EXPECT_EQ(objects("queue_pairs"), queue_pairs + 1);
    ep.reset();
    EXPECT_TRUE(eventually(
        {&a}, [&] { return objects("queue_pairs") == queue_pairs; }, kLimit));
}

// What the user has sent is sent even if its endpoint is gone, but not for ever.
TEST_F(UnreachableTest, DestroyedWhileMessagesWait) {
    Entity a(impatient());
    const Address there = nobody();
    const uint64_t queue_pairs = objects("queue_pairs");
    Endpoint ep = a.connect(there);
    ASSERT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
    ep.reset();
    EXPECT_TRUE(eventually(
        {&a}, [&] { return objects("queue_pairs") == queue_pairs; }, kLimit));
    EXPECT_TRUE(a.failures().empty());
}

// A peer that leaves in good order is found out at once, though peers may be silent for minutes.
class DepartedPeerTest : public UnreachableTest, public testing::WithParamInterface<bool> {
  protected:
    // Makes a connection; with the parameter, the peer ends it before it leaves.
    void leave() {
        std::size_t at_a = 0, at_b = 0;
        a_.handle(0, [&](Bytes) { ++at_a; });
        b_.handle(0, [&](Bytes) { ++at_b; });
        Endpoint back = b_.connect(a_);
        ASSERT_TRUE(accepted({&a_, &b_}, [&] { return am_short(ep_, 0, pattern(0, 8)); }));
        ASSERT_TRUE(accepted({&a_, &b_}, [&] { return am_short(back, 0, pattern(0, 8)); }));
        ASSERT_TRUE(eventually({&a_, &b_}, [&] { return at_a == 1 && at_b == 1; }));
        ASSERT_TRUE(eventually({&a_, &b_}, [&] {
            return uct_ep_flush(ep_.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
        }));
        if (GetParam()) {
            back.reset();
            linger({&a_, &b_});
        }
        back.reset();
        b_.close();
        linger({&a_});
        EXPECT_TRUE(a_.failures().empty()) << "nothing was lost";
        a_.forget(0);
    }

    Entity a_, b_;
    Endpoint ep_ = a_.connect(b_);
};

TEST_P(DepartedPeerTest, FailsTheNextSend) {
    ASSERT_NO_FATAL_FAILURE(leave());
    // Refused while the end of the connection is under way.
    ucs_status_t sent = UCS_ERR_NO_RESOURCE;
    ASSERT_TRUE(eventually(
        {&a_},
        [&] {
            if (sent == UCS_ERR_NO_RESOURCE) sent = am_bcopy(ep_, 0, pattern(0, 8));
            return a_.failures(ep_) == 1;
        },
        kLimit));
    EXPECT_STATUS(a_.failures()[0].status, am_bcopy(ep_, 0, pattern(0, 8)));
}

TEST_P(DepartedPeerTest, FailsTheNextCheck) {
    ASSERT_NO_FATAL_FAILURE(leave());
    EXPECT_STATUS(UCS_OK, uct_ep_check(ep_.get(), 0, nullptr));
    EXPECT_TRUE(eventually(
        {&a_}, [&] { return a_.failures(ep_) == 1; }, kLimit));
}

TEST_P(DepartedPeerTest, FailsNewEndpoints) {
    const Address there = b_.address();
    ASSERT_NO_FATAL_FAILURE(leave());
    ep_.reset();
    const Endpoint other = a_.connect(there);
    (void)am_bcopy(other, 0, pattern(0, 8));
    EXPECT_TRUE(eventually(
        {&a_}, [&] { return a_.failures(other) == 1; }, kLimit));
}

std::string end_name(const testing::TestParamInfo<bool>& end) {
    return end.param ? "AfterADisconnect" : "WithTheConnection";
}

INSTANTIATE_TEST_SUITE_P(Ends, DepartedPeerTest, testing::Bool(), end_name);

TEST_F(UnreachableTest, DestroyedFromTheErrorHandler) {
    Entity a(impatient());
    const Address there = nobody();
    Endpoint ep = a.connect(there), other = a.connect(there);
    a.on_failure = [&](const Failure& failure) {
        if (failure.ep == other.get()) ep.reset();
        if (failure.ep == ep.get()) other.reset();
    };
    am_bcopy(ep, 0, pattern(0, 8));
    am_bcopy(other, 0, pattern(0, 8));
    // One endpoint's error handler has destroyed the other, which is not told any more.
    ASSERT_TRUE(eventually(
        {&a}, [&] { return !a.failures().empty(); }, kLimit));
    linger({&a});
    EXPECT_EQ(a.failures().size(), 1u);
}

// The first packets are lost in both directions; the connection must be made nevertheless.
TEST_F(UnreachableTest, LostPacketsAreRepeated) {
    NEEDS_SOFTWARE_HCA();
    const uint64_t seed = any_seed();
    for (unsigned round = 0; round < 12; ++round) {
        Entity a, b;
        Stream stream;
        stream.seed = seed + round;
        stream.count = 300;
        Stream other = stream;
        other.id = 2;
        Flow there(a, b, stream), back(b, a, other);
        softhca::inject("drop-qp=any");
        there.sender.step();
        if (round % 2) back.sender.step();
        for (unsigned i = 0; i < round; ++i) (i % 3 ? a : b).progress();
        linger({&a, &b}, milliseconds(5 * (round % 4)));
        EXPECT_EQ(there.receiver.received(), 0u);
        softhca::inject("none");
        ASSERT_TRUE(run({&there, &back})) << "round " << round;
    }
}

TEST_F(UnreachableTest, LostPacketsAreRepeatedAfterConnectRetry) {
    NEEDS_SOFTWARE_HCA();
    for (const char* retry : {"3600000", "1"}) {
        Entity a(Settings{{"connect_retry", retry}}), b;
        std::size_t received = 0;
        b.handle(0, [&](Bytes) { ++received; });
        const Endpoint ep = a.connect(b);
        softhca::inject("drop-qp=any");
        ASSERT_STATUS(UCS_OK, am_bcopy(ep, 0, pattern(0, 8)));
        // The fault says so when it has hit a queue pair.
        ASSERT_TRUE(eventually({&a, &b}, [] { return softhca::faults() != "drop-qp=any"; }));
        softhca::inject("none");
        linger({&a, &b}, milliseconds(400));
        if (retry == std::string("3600000"))
            EXPECT_EQ(received, 0u);
        else
            EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
    }
}

// Packets are lost in the middle of the handshake, in each round at another place.
TEST_F(UnreachableTest, LossInTheMiddle) {
    NEEDS_SOFTWARE_HCA();
    const uint64_t seed = any_seed();
    for (unsigned round = 0; round < 12; ++round) {
        Entity a, b;
        Stream stream;
        stream.seed = seed + round;
        stream.count = 100;
        Stream other = stream;
        other.id = 2;
        Flow there(a, b, stream), back(b, a, other);
        there.sender.step();
        if (round % 2) back.sender.step();
        for (unsigned i = 0; i < round / 2; ++i) {
            a.progress();
            if (i % 2) b.progress();
        }
        if (there.receiver.received() == 0 && back.receiver.received() == 0 &&
            there.sender.sent() == 0 && back.sender.sent() == 0) {
            softhca::inject("drop-qp=any");
            linger({&a, &b}, milliseconds(3));
            softhca::inject("none");
        }
        ASSERT_TRUE(run({&there, &back})) << "round " << round;
    }
}

}  // namespace unreachable_test
}  // namespace uct_test
