// SPDX-License-Identifier: BSD-3-Clause
// A sender claims a receive of a shared queue while the queue's owner destroys it.
#include "softhca/transport/responder.h"

#include <gtest/gtest.h>

#include "fabric_process.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/srq.h"

namespace softhca {
namespace {

using ResponderTest = test::ProcessesTest<int>;

// The owner clears the number first, and then waits for senders that have found the queue.
TEST_F(ResponderTest, ClaimsNothingOfAQueueThatIsBeingDestroyed) {
    test::Child owner([this] {
        Adapter& adapter = *test::start_adapter(name_);
        Cq* cq = Cq::create(adapter, 16);
        Srq::Attributes queue;
        queue.max_wr = 4;
        queue.max_sge = 1;
        queue.cq = cq;
        Srq* srq = Srq::create(adapter, queue);
        if (Srq::Posts(*srq).post(7, nullptr, 0) != 0) return 1;
        Qp::Attributes attributes;
        attributes.send_cq = attributes.recv_cq = cq;
        QpShared& qp = Qp::create(adapter, attributes)->shared();

        std::atomic<uint32_t>& number = srq->shared().number;
        number = 0;
        if (claim_receive(adapter, qp, srq->number()) != nullptr) return 2;
        number = srq->number();
        const RecvWqe* receive = claim_receive(adapter, qp, srq->number());
        return receive != nullptr && receive->wr_id == 7 ? 0 : 3;
    });
    EXPECT_EQ(owner.join(), 0);
}

}  // namespace
}  // namespace softhca
