// SPDX-License-Identifier: BSD-3-Clause
// The device refuses the n-th creation or post, for each n: a call returns an error, or an
// interface's endpoints fail, with one line in the log each; or the transport does without. Nothing
// is left.
#include <algorithm>
#include <memory>
#include <string>

#include "../../softhca/device/fabric.h"
#include "short_job.h"

namespace uct_test {
namespace refused_call_test {

namespace softhca = conformance::softhca;

class RefusedCallTest : public TernTest {
  protected:
    void SetUp() override {
        if (!on_software_hca()) GTEST_SKIP() << "the device cannot inject faults";
        TernTest::SetUp();
    }
    void TearDown() override {
        if (!IsSkipped()) end_faults();
    }
    // Calls `attempt`, which arms the fault of the n-th call, with n = 1, 2 ... until fewer calls
    // are made.
    template <class Attempt>
    static void for_each_call(const std::string& fault, Attempt&& attempt) {
        unsigned n = 0;
        for (bool refused = true; refused;) {
            ASSERT_LT(++n, 1000u);
            SCOPED_TRACE(fault + "=" + std::to_string(n));
            const auto arm = [&] { softhca::inject(fault + "=" + std::to_string(n)); };
            const auto was_refused = [] { return softhca::faults() == "none"; };
            ASSERT_NO_FATAL_FAILURE(attempt(arm, was_refused));
            refused = was_refused();
            softhca::inject("none");
            if (HasFailure()) return;
        }
        EXPECT_GT(n, 1u) << "nothing was refused";
    }
};

class RefusedOpenTest : public RefusedCallTest, public testing::WithParamInterface<const char*> {};

TEST_P(RefusedOpenTest, AnInterface) {
    const BareInterface bare(GetParam());
    const uint64_t queue_pairs = objects("queue_pairs"), regions = objects("memory_regions");
    for_each_call("create-fail", [&](auto&& arm, auto&& was_refused) {
        uct_iface_h iface = nullptr;
        const Errors errors;
        arm();
        const ucs_status_t status = bare.open(&iface);
        EXPECT_TRUE(status == UCS_OK || was_refused()) << ucs_status_string(status);
        EXPECT_EQ(Errors::count, status == UCS_OK ? 0u : 1u) << Errors::last;
        if (status == UCS_OK) uct_iface_close(iface);
        EXPECT_EQ(objects("queue_pairs"), queue_pairs);
        EXPECT_EQ(objects("memory_regions"), regions);
    });
}

INSTANTIATE_TEST_SUITE_P(Tags, RefusedOpenTest, testing::Values("n", "y"),
                         [](const auto& matching) {
                             return std::string(*matching.param == 'y' ? "Direct" : "None");
                         });

struct Job {
    const char* fault;
    std::size_t length;
};

std::ostream& operator<<(std::ostream& out, const Job& job) {
    return out << job.fault << " " << job.length;
}

class RefusedCallInJobTest : public RefusedCallTest, public testing::WithParamInterface<Job> {};

TEST_P(RefusedCallInJobTest, WorksOrEnds) {
    const std::size_t length = GetParam().length;
    auto host_a = std::make_shared<Host>(), host_b = std::make_shared<Host>();
    const Declared memory_a(*host_a, length), memory_b(*host_b, length);
    const RemoteKey of_a(*host_b, memory_a.remote()), of_b(*host_a, memory_b.remote());
    const uint64_t queue_pairs = objects("queue_pairs");
    for_each_call(GetParam().fault, [&](auto&& arm, auto&& was_refused) {
        const Errors errors;
        auto a = std::make_unique<JobSide>(host_a, length);
        auto b = std::make_unique<JobSide>(host_b, length);
        arm();
        run_job(*a, *b, memory_a.remote(), of_a, memory_b.remote(), of_b);
        const bool both_over = a->over && b->over;
        for (JobSide* side : {a.get(), b.get()}) {
            side->ep.reset();
            EXPECT_LE(side->done.calls, side->waits);
            side->entity.close();
        }
        EXPECT_TRUE(both_over || was_refused());
        EXPECT_LE(Errors::count, both_over ? 0u : 2u) << Errors::last;
        a.reset(), b.reset();
        EXPECT_EQ(objects("queue_pairs"), queue_pairs);
    });
}

INSTANTIATE_TEST_SUITE_P(Faults, RefusedCallInJobTest,
                         testing::Values(Job{"create-fail", 1000}, Job{"post-fail", 1000},
                                         Job{"post-fail", 100'000}),
                         [](const auto& test) {
                             std::string name(test.param.fault);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name + "_" + std::to_string(test.param.length);
                         });

}  // namespace refused_call_test
}  // namespace uct_test
