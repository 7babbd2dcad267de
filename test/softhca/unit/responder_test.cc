// SPDX-License-Identifier: BSD-3-Clause
// Receives that a sender claims: of a shared queue whose owner destroys it, and one that the
// owner's program has overwritten.
#include "softhca/transport/responder.h"

#include <gtest/gtest.h>

#include <map>

#include "fabric_process.h"
#include "requests.h"

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

// What the receive holds is its owner's mistake: the sender is told, and lives.
TEST_F(ResponderTest, RefusesAReceiveWithTooManyElements) {
    test::Child both([this] {
        Adapter& adapter = *test::start_adapter(name_);
        Cq* cq = Cq::create(adapter, 16);
        Qp& from = *test::make_qp(adapter, cq, nullptr);
        Qp& to = *test::make_qp(adapter, cq, nullptr);
        test::connect(from, to.number());
        test::connect(to, from.number());
        const test::Memory memory(adapter);
        const Sge sge = memory.at(0, 64);
        if (to.receive_queue.post(7, &sge, 1) != 0) return 1;
        char* const arena = adapter.host().arena(adapter.host().slot());
        to.shared().ring.at(arena, 0).num_sge = 0xffffffff;
        Wqe what{};
        what.opcode = WrOpcode::kSend;
        what.length = 8;
        test::post(from, what, {});
        std::map<WcOpcode, WcStatus> ended;
        const auto poll = [&] {
            cq->poll(16, [&](const Completion& wc) { ended[wc.opcode] = wc.status; });
            return ended.size() == 2;
        };
        if (!test::wait_for(poll)) return 2;
        if (ended[WcOpcode::kReceive] != WcStatus::kLocalProtectionError) return 3;
        return ended[WcOpcode::kSend] == WcStatus::kRemoteOperationError ? 0 : 4;
    });
    EXPECT_EQ(both.join(), 0);
}

}  // namespace
}  // namespace softhca
