// SPDX-License-Identifier: BSD-3-Clause
// A device that has few queue pairs and short completion queues (test/tern/uct_limits.sh): what the
// log says when Tern meets a limit, and that what has room works on.
#include <vector>

#include "../../softhca/conformance/device.h"
#include "short_job.h"

namespace uct_test {
namespace limit_test {

// Queues that are within the limits.
Settings small() {
    return {{"RX_QUEUE_LEN", "64"}, {"TX_QUEUE_LEN", "32"}};
}

// Queue pairs of another program: all that the device has left but `spare`.
class Others {
  public:
    explicit Others(unsigned spare) {
        while (make()) {
        }
        EXPECT_GE(pairs_.size(), spare);
        pairs_.resize(pairs_.size() - spare);
    }

  private:
    bool make() {
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq_.get();
        init.qp_type = IBV_QPT_RC;
        init.cap = {1, 1, 1, 1, 0};
        conformance::Qp qp(ibv_create_qp(pd_.get(), &init));
        if (qp == nullptr) return false;
        pairs_.push_back(std::move(qp));
        return true;
    }

    conformance::Hca hca_;
    conformance::Pd pd_ = hca_.make_pd();
    conformance::Cq cq_ = hca_.make_cq(16);
    std::vector<conformance::Qp> pairs_;
};

class LimitTest : public TernTest {
  protected:
    void SetUp() override {
        const ibv_device_attr limits = conformance::Hca().attr();
        if (limits.max_qp > 16 || limits.max_cqe > 300)
            GTEST_SKIP() << "the device has no such limits";
        TernTest::SetUp();
    }
    static testing::AssertionResult says(const char* part) {
        if (std::string_view(Errors::last).find(part) != std::string_view::npos)
            return testing::AssertionSuccess();
        return testing::AssertionFailure() << "'" << Errors::last << "' has no " << part;
    }
    // Whether a message arrives.
    static testing::AssertionResult reaches(Entity& from, const Endpoint& ep, Entity& to) {
        std::size_t got = 0;
        to.handle(2, [&](Bytes) { ++got; });
        if (auto sent =
                accepted({&from, &to}, [&] { return uct_ep_am_short(ep.get(), 2, 7, nullptr, 0); });
            !sent)
            return sent;
        const auto arrives = eventually({&from, &to}, [&] { return got == 1; });
        to.forget(2);
        return arrives;
    }
    // The first message makes the connection.
    static ucs_status_t begin(const Endpoint& ep) {
        return uct_ep_am_short(ep.get(), 2, 7, nullptr, 0);
    }
};

TEST_F(LimitTest, AnInterfaceThatFindsNoQueuePair) {
    Entity a(small());
    for (const unsigned spare : {0u, 1u}) {
        const Others others(spare);
        const Errors errors;
        uct_iface_h iface = nullptr;
        EXPECT_NE(BareInterface("n").open(&iface), UCS_OK);
        EXPECT_EQ(Errors::count, 1u);
        EXPECT_TRUE(says("UCX_TERN_QP_MAX"));
    }
    Entity b(small());
    EXPECT_TRUE(reaches(a, a.connect(b), b));
}

// Connections that nobody uses end for others, and their endpoints stay.
TEST_F(LimitTest, EndpointsThatFindNoQueuePair) {
    Entity a(small()), b(small()), c(small()), d(small());
    const Endpoint before = a.connect(b);
    ASSERT_TRUE(reaches(a, before, b));
    const Others others(0);
    const Errors errors;
    std::size_t got = 0;
    const Endpoint to_c = a.connect(c), to_d = a.connect(d);
    for (const auto& to : {std::pair(&c, &to_c), std::pair(&d, &to_d)}) {
        to.first->handle(2, [&](Bytes) { ++got; });
        ASSERT_TRUE(accepted({&a, &b, &c, &d}, [&] { return begin(*to.second); }));
    }
    EXPECT_TRUE(eventually({&a, &b, &c, &d}, [&] { return got == 2; }));
    b.handle(2, [&](Bytes) { ++got; });
    ASSERT_TRUE(accepted({&a, &b, &c, &d}, [&] { return begin(before); }));
    EXPECT_TRUE(eventually({&a, &b, &c, &d}, [&] { return got == 3; }));
    EXPECT_EQ(Errors::count, 0u);
    for (Entity* const peer : {&b, &c, &d}) peer->forget(2);
}

TEST_F(LimitTest, AnEndpointThatFindsNoneInTime) {
    Settings settings = small();
    settings["CONNECT_TIMEOUT"] = "200ms";
    Entity a(settings), b(small());
    {
        const Others others(0);
        const Endpoint ep = a.connect(b);
        EXPECT_STATUS(UCS_OK, begin(ep));
        EXPECT_TRUE(eventually({&a, &b}, [&] { return a.failures(ep) == 1; }));
    }
    const Endpoint after = a.connect(b);
    EXPECT_TRUE(reaches(a, after, b));
}

// It says so, and the endpoint waits.
TEST_F(LimitTest, APeerThatFindsNoQueuePair) {
    Entity a(small()), b(small());
    std::size_t got = 0;
    b.handle(2, [&](Bytes) { ++got; });
    const Endpoint ep = a.connect(b);
    {
        const Others others(1);
        EXPECT_STATUS(UCS_OK, begin(ep));
        for (int i = 0; i < 2000; ++i) {
            a.progress();
            b.progress();
        }
        EXPECT_EQ(got, 0u);
        EXPECT_EQ(a.failures(ep), 0u);
    }
    EXPECT_TRUE(eventually({&a, &b}, [&] { return got == 1; }));
    b.forget(2);
}

// The completion queue has no room for the receives of the default settings.
TEST_F(LimitTest, CompletionsThatDoNotFit) {
    Entity a, b;
    const Errors errors;
    const Endpoint ep = a.connect(b);
    EXPECT_STATUS(UCS_ERR_IO_ERROR, begin(ep));
    EXPECT_EQ(Errors::count, 1u);
    EXPECT_TRUE(says("the completion queue cannot grow"));
    EXPECT_TRUE(says("UCX_TERN_QP_MAX"));
    EXPECT_TRUE(says("UCX_TERN_RX_QUEUE_LEN"));
}

}  // namespace limit_test
}  // namespace uct_test
