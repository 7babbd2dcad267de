// SPDX-License-Identifier: BSD-3-Clause

// Asynchronous events of queue pairs: an event may be read when its queue pair has gone and another
// one has the number.

#include <string>

#include "node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace device_event_test {

class DeviceEventTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string why;
        channel_ = a_.engine->attach(b_.engine->address(), &user_, why);
        ASSERT_NE(channel_, nullptr) << why;
        ASSERT_TRUE(until([this] { step(); }, [this] { return channel_->up(); }));
    }
    void step() {
        a_.poll();
        b_.poll();
    }
    // An event of a queue pair with the channel's number, and with this identity.
    void raise(ibv_event_type type, const void* identity) {
        raise_event(type, identity, channel_->qp->qp_num);
        ASSERT_TRUE(until([this] { step(); }, [] { return !event_waits(); }));
        for (int i = 0; i < 100; ++i) step();
    }

    Node a_, b_;
    Channel* channel_ = nullptr;
    int user_ = 0;
};

TEST_F(DeviceEventTest, OfAnEarlierQueuePairConcernsNobody) {
    for (const ibv_event_type type :
         {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR})
        raise(type, verbs::next_identity());
    EXPECT_TRUE(a_.losses.empty()) << a_.reason;
    ASSERT_TRUE(channel_->up());
    ASSERT_TRUE(a_.send(*channel_, 1, "hello", b_));
    EXPECT_TRUE(until([this] { step(); }, [this] { return !b_.messages.empty(); }));
}

TEST_F(DeviceEventTest, OfItsOwnQueuePairEndsTheChannel) {
    raise(IBV_EVENT_QP_FATAL, channel_->qp->qp_context);
    ASSERT_TRUE(until([this] { step(); }, [this] { return !a_.losses.empty(); }));
    EXPECT_EQ(a_.losses[0], Status::kDevice);
    EXPECT_NE(a_.reason.find("the device reports of the queue pair"), std::string::npos)
        << a_.reason;
}

}  // namespace device_event_test
}  // namespace tern::test
