// SPDX-License-Identifier: BSD-3-Clause
// A device that has few queue pairs and short completion queues (test/uct_limits.sh): what the log
// says when Tern meets a limit, and that what has room works on.
#include <vector>

#include "../conformance/device.h"
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

// Of several endpoints only the first is logged.
TEST_F(LimitTest, EndpointsThatFindNoQueuePair) {
    Entity a(small()), b(small()), c(small()), d(small());
    const Endpoint before = a.connect(b);
    ASSERT_TRUE(reaches(a, before, b));
    {
        const Others others(0);
        const Errors errors;
        for (Entity* const peer : {&c, &d}) {
            const Endpoint ep = a.connect(*peer);
            EXPECT_STATUS(UCS_ERR_IO_ERROR, begin(ep));
        }
        EXPECT_EQ(Errors::count, 1u);
        EXPECT_TRUE(says("cannot create a queue pair"));
        EXPECT_TRUE(says("UCX_TERN_QP_MAX"));
        EXPECT_TRUE(reaches(a, before, b)) << "what is connected stays so";
    }
    const Endpoint after = a.connect(c);
    EXPECT_TRUE(reaches(a, after, c));
}

// The peer tells it (test/engine/refused_test.cc has the text), and the endpoint fails alone.
TEST_F(LimitTest, APeerThatFindsNoQueuePair) {
    Entity a(small()), b(small());
    {
        const Others others(1);
        const Endpoint ep = a.connect(b);
        EXPECT_STATUS(UCS_OK, begin(ep));
        EXPECT_TRUE(eventually({&a, &b}, [&] { return a.failures(ep) == 1; }));
    }
    const Endpoint ep = a.connect(b);
    EXPECT_TRUE(reaches(a, ep, b));
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
