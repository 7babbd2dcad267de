// SPDX-License-Identifier: BSD-3-Clause
// Rules that show mistakes that some devices forgive. Each test has a program that is wrong, and
// one that is right.
#include "fabric.h"

namespace conformance::softhca::wrong_program {
namespace {

constexpr ibv_wc_opcode kNoOpcode = static_cast<ibv_wc_opcode>(0x5a);

class WrongProgramTest : public FabricTest {};

// A queue pair that writes to itself, and its completion queue with events.
struct Writer {
    explicit Writer(const Hca& hca)
        : pd(hca.make_pd()),
          channel(hca.make_channel()),
          cq(hca.make_cq(16, channel.get())),
          qp(make_qp(pd.get(), {}, cq.get(), cq.get())) {
        bring_up(hca, qp.get(), {}, as_peer(hca, qp.get(), {}));
    }
    void write(uint64_t id) const { ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, id).post(qp), 0); }
    void arm() const { ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0); }
    bool silent() const { return !readable(channel->fd, kQuiet); }

    Pd pd;
    Channel channel;
    Cq cq;
    Qp qp;
};

// Empties the queue, arms it and sleeps: what came in between wakes it only by default.
TEST_F(WrongProgramTest, ArmsWithoutPollingAgain) {
    for (const bool misses : {false, true}) {
        set("RULES", misses ? "missed-events=1" : "missed-events=0");
        alone([misses] {
            const Hca hca;
            const Writer program(hca);
            program.write(1);
            program.arm();
            EXPECT_EQ(program.silent(), misses);
            ASSERT_TRUE(next_are(program.cq, {1}));
        });
    }
}

TEST_F(WrongProgramTest, ArmsAndPollsAgain) {
    set("RULES", "missed-events=1");
    alone([] {
        const Hca hca;
        const Writer program(hca);
        program.write(1);
        program.arm();
        ASSERT_TRUE(next_are(program.cq, {1}));
        program.write(2);
        EXPECT_EQ(wait_cq_event(program.channel.get()), program.cq.get());
        ASSERT_TRUE(next_are(program.cq, {2}));
    });
}

// With a timing model, a completion that has been written and is not visible yet is a later one.
TEST_F(WrongProgramTest, WhatIsNotVisibleYetIsNotMissed) {
    set("RULES", "missed-events=1");
    set("MODEL", "latency=2s");
    alone([] {
        const Hca hca;
        const Writer program(hca);
        program.write(1);
        program.arm();
        EXPECT_EQ(wait_cq_event(program.channel.get()), program.cq.get());
        ASSERT_TRUE(next_are(program.cq, {1}));
    });
}

// A handler of completions that looks at the opcode before the status takes the wrong way.
void see_failed_write(ibv_wc* wc, bool poisoned) {
    EXPECT_EQ(wc->wr_id, 7u);
    EXPECT_EQ(wc->status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(wc->opcode, poisoned ? kNoOpcode : IBV_WC_RDMA_WRITE);
    EXPECT_EQ(wc->byte_len == 8, !poisoned);
    EXPECT_EQ((wc->wc_flags & IBV_WC_WITH_IMM) != 0, poisoned);
}

TEST_F(WrongProgramTest, LooksAtTheOpcodeOfAnError) {
    for (const bool poisoned : {false, true}) {
        set("RULES", poisoned ? "poisoned-errors=1" : "poisoned-errors=0");
        alone([poisoned] {
            const Hca hca;
            const Writer program(hca);
            const Region memory(program.pd.get(), 4096);
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 7)
                          .sge(memory.sge(0, 8))
                          .remote(memory.addr(), 0xdead)
                          .post(program.qp),
                      0);
            ibv_wc wc{};
            ASSERT_TRUE(comes([&] { return ibv_poll_cq(program.cq.get(), 1, &wc) == 1; }));
            EXPECT_EQ(wc.qp_num, program.qp->qp_num);
            see_failed_write(&wc, poisoned);
        });
    }
}

TEST_F(WrongProgramTest, LooksAtTheOpcodeOfAnErrorOfAnExtendedQueue) {
    set("RULES", "poisoned-errors=1");
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        ibv_cq_init_attr_ex attributes{};
        attributes.cqe = 16;
        attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex* const cq = ibv_create_cq_ex(hca.get(), &attributes);
        ASSERT_NE(cq, nullptr);
        const Cq owner(ibv_cq_ex_to_cq(cq));
        const Qp qp = make_qp(pd.get(), {}, owner.get(), owner.get());
        bring_up(hca, qp.get(), {}, as_peer(hca, qp.get(), {}));
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 7).post(qp), 0);
        ASSERT_EQ(RecvWr(8).post(qp), 0);
        const auto next = [cq] {
            ibv_poll_cq_attr none{};
            return ibv_start_poll(cq, &none) == 0;
        };
        ASSERT_TRUE(comes(next));
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE) << "it has succeeded";
        ibv_end_poll(cq);
        apply_all(qp.get(), {to_state(IBV_QPS_ERR)});
        ASSERT_TRUE(comes(next));
        EXPECT_EQ(cq->wr_id, 8u);
        EXPECT_EQ(cq->status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(ibv_wc_read_opcode(cq), kNoOpcode);
        ibv_end_poll(cq);
    });
}

}  // namespace
}  // namespace conformance::softhca::wrong_program
