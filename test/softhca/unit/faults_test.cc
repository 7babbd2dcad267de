// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/faults.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace softhca {
namespace {

TEST(Faults, NothingIsWrongAtFirst) {
    Faults faults = {};
    EXPECT_EQ(describe(faults), "none");
    EXPECT_FALSE(take_failure(faults.reg_fail));
    EXPECT_FALSE(take_rnr(faults));
    EXPECT_FALSE(qp_dropped(faults, 17));
    EXPECT_FALSE(port_down(faults, 0, 1));
    EXPECT_EQ(apply_faults("", faults), std::nullopt);
    EXPECT_EQ(describe(faults), "none");
}

TEST(Faults, TheNthRegistrationFailsOnce) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("reg-fail=3", faults), std::nullopt);
    EXPECT_FALSE(take_failure(faults.reg_fail));
    EXPECT_FALSE(take_failure(faults.reg_fail));
    EXPECT_TRUE(take_failure(faults.reg_fail));
    EXPECT_FALSE(take_failure(faults.reg_fail));
    EXPECT_EQ(describe(faults), "none");
}

TEST(Faults, CreationsAndPostsCountApart) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("create-fail=2,post-fail=1", faults), std::nullopt);
    EXPECT_FALSE(take_failure(faults.create_fail));
    EXPECT_TRUE(take_failure(faults.post_fail));
    EXPECT_EQ(describe(faults), "create-fail=1");
    EXPECT_FALSE(take_failure(faults.post_fail));
    EXPECT_TRUE(take_failure(faults.create_fail));
    EXPECT_FALSE(take_failure(faults.create_fail));
    EXPECT_EQ(describe(faults), "none");
}

TEST(Faults, OneThreadGetsTheFailingRegistration) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("reg-fail=1000", faults), std::nullopt);
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) failures += take_failure(faults.reg_fail);
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(failures, 1);
}

TEST(Faults, RnrCountsDown) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("rnr=2", faults), std::nullopt);
    EXPECT_TRUE(take_rnr(faults));
    EXPECT_EQ(describe(faults), "rnr=1");
    EXPECT_TRUE(take_rnr(faults));
    EXPECT_FALSE(take_rnr(faults));
}

TEST(Faults, DropsTheQueuePairNamed) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("drop-qp=0x11", faults), std::nullopt);
    EXPECT_FALSE(qp_dropped(faults, 16));
    EXPECT_TRUE(qp_dropped(faults, 17));
    EXPECT_TRUE(qp_dropped(faults, 17)) << "it stays dropped";
    ASSERT_EQ(apply_faults("drop-qp=none", faults), std::nullopt);
    EXPECT_FALSE(qp_dropped(faults, 17));
}

TEST(Faults, DropsTheNextQueuePairUsedAndThenOnlyThatOne) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("drop-qp=any", faults), std::nullopt);
    EXPECT_TRUE(qp_dropped(faults, 42));
    EXPECT_FALSE(qp_dropped(faults, 43));
    EXPECT_TRUE(qp_dropped(faults, 42));
    EXPECT_EQ(describe(faults), "drop-qp=42");
}

TEST(Faults, Ports) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("port-down=softhca1:2,port-down=15:2", faults), std::nullopt);
    EXPECT_TRUE(port_down(faults, 1, 2));
    EXPECT_TRUE(port_down(faults, 15, 2));
    EXPECT_FALSE(port_down(faults, 1, 1));
    EXPECT_FALSE(port_down(faults, 0, 2));
    ASSERT_EQ(apply_faults("port-up=1:2", faults), std::nullopt);
    EXPECT_FALSE(port_down(faults, 1, 2));
    EXPECT_TRUE(port_down(faults, 15, 2));
    ASSERT_EQ(apply_faults("port-down", faults), std::nullopt);
    EXPECT_TRUE(port_down(faults, 0, 1));
    ASSERT_EQ(apply_faults("port-up", faults), std::nullopt);
    EXPECT_FALSE(port_down(faults, 15, 2));
    EXPECT_FALSE(port_down(faults, 0, 0));
    EXPECT_FALSE(port_down(faults, 16, 1));
    EXPECT_FALSE(port_down(faults, 0, 3));
}

TEST(Faults, ListChangesOnlyWhatItNames) {
    Faults faults = {};
    ASSERT_EQ(apply_faults("rnr=5,delay-completions=1.5ms", faults), std::nullopt);
    ASSERT_EQ(apply_faults("segment=4K:10us,out-of-order,stale-cq", faults), std::nullopt);
    EXPECT_EQ(faults.rnr, 5u);
    EXPECT_EQ(faults.delay_completions_ns, 1'500'000u);
    EXPECT_EQ(faults.segment_bytes, 4096u);
    EXPECT_EQ(faults.segment_pause_ns, 10'000u);
    EXPECT_EQ(faults.out_of_order, 1u);
    EXPECT_EQ(faults.stale_cq, 1u);
    ASSERT_EQ(apply_faults("none", faults), std::nullopt);
    EXPECT_EQ(describe(faults), "none");
    ASSERT_EQ(apply_faults("rnr=9,none,rnr=1", faults), std::nullopt);
    EXPECT_EQ(describe(faults), "rnr=1") << "entries count from left to right";
}

TEST(Faults, DescriptionReadsBack) {
    const std::string list =
        "reg-fail=3,drop-qp=17,delay-completions=5us,rnr=9,port-down=softhca0:1,port-down=softhca2:"
        "2,"
        "segment=100:2.5ms,out-of-order,swap-writes,replay-write=2,stale-cq,device-fatal";
    Faults faults = {};
    ASSERT_EQ(apply_faults(list, faults), std::nullopt);
    EXPECT_EQ(describe(faults), list);
    ASSERT_EQ(apply_faults("none,drop-qp=any,port-down", faults), std::nullopt);
    EXPECT_EQ(describe(faults), "drop-qp=any,port-down");
}

TEST(Faults, WrongListsChangeNothing) {
    for (const char* list : {"rnr",
                             "rnr=",
                             "rnr=x",
                             "rnr=-1",
                             "rnr=1x",
                             "reg-fail=18446744073709551616",
                             "drop-qp=0x1000000",
                             "drop-qp=some",
                             "delay-completions=1h",
                             "port-down=",
                             "port-down=0",
                             "port-down=0:0",
                             "port-down=0:3",
                             "port-down=16:1",
                             "port-down=mlx5_0:1",
                             "port-down=softhca:1",
                             "segment=4096",
                             "segment=:",
                             "segment=1:x",
                             "segment=99999999999G:1",
                             "out-of-order=1",
                             "swap-writes=1",
                             "replay-write",
                             "stale-cq=1",
                             "none=1",
                             "explode",
                             "rnr=1,explode"}) {
        Faults faults = {};
        ASSERT_EQ(apply_faults("rnr=7", faults), std::nullopt);
        EXPECT_TRUE(apply_faults(list, faults).has_value()) << list;
        EXPECT_EQ(describe(faults), "rnr=7") << list;
    }
}

TEST(Faults, ErrorsNameTheChoices) {
    Faults faults = {};
    const std::string unknown = apply_faults("explode", faults).value_or("");
    EXPECT_NE(unknown.find("'explode'"), std::string::npos) << unknown;
    for (const char* choice :
         {"reg-fail=N", "drop-qp=QPN", "delay-completions=TIME", "rnr=N", "port-down", "port-up",
          "segment=BYTES:PAUSE", "out-of-order", "swap-writes", "replay-write=N", "stale-cq",
          "device-fatal", "none"}) {
        EXPECT_NE(unknown.find(choice), std::string::npos) << choice;
        EXPECT_NE(faults_help().find(choice), std::string::npos) << choice;
    }
    const std::string malformed = apply_faults("segment=big", faults).value_or("");
    EXPECT_NE(malformed.find("segment=BYTES:PAUSE"), std::string::npos) << malformed;
}

}  // namespace
}  // namespace softhca
