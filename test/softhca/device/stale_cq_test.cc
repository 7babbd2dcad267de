// SPDX-License-Identifier: BSD-3-Clause
// Completions of a shared receive queue that has been destroyed.
#include <cerrno>
#include <vector>

#include "../conformance/xrc.h"
#include "fabric.h"

namespace conformance::softhca {
namespace {

class StaleCqTest : public FabricTest {};

// An XRC connection of a process to itself, and receive queues that share a completion queue.
struct World {
    World()
        : pd(hca.make_pd()),
          mem(pd.get(), 4096),
          xrcd(open_xrcd(hca)),
          cq(hca.make_cq()),
          send_cq(hca.make_cq()),
          sender(make_xrc_sender(hca, pd.get(), send_cq.get(), {})),
          receiver(make_xrc_receiver(hca, xrcd.get())) {
        connect_xrc(hca, sender, receiver);
    }
    Srq queue() { return make_xrc_srq(hca, pd.get(), xrcd.get(), cq.get()); }
    // Sends a message that is received; its receive completion is not polled.
    void message(const Srq& srq, uint64_t id) {
        ASSERT_EQ(RecvWr(id).sge(mem.sge(0, 64)).post(srq), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, id).sge(mem.sge(64, 64)).srqn(srq_number(srq)).post(sender),
                  0);
        ASSERT_TRUE(next_are(send_cq, {id}));
    }

    Hca hca;
    Pd pd;
    Region mem;
    Xrcd xrcd;
    Cq cq;
    Cq send_cq;
    Qp sender;
    Qp receiver;
};

TEST_F(StaleCqTest, FailsThePollThatReachesIt) {
    alone([] {
        World world;
        inject("stale-cq");
        Srq stays = world.queue();
        Srq goes = world.queue();
        world.message(stays, 1);
        world.message(goes, 2);
        world.message(stays, 3);
        ASSERT_EQ(ibv_destroy_srq(goes.release()), 0);
        ibv_wc completions[8];
        EXPECT_LT(ibv_poll_cq(world.cq.get(), 8, completions), 0) << "and 1 is lost";
        ASSERT_TRUE(next_are(world.cq, {3})) << "the queue is of use all the same";
        world.message(stays, 4);
        EXPECT_TRUE(next_are(world.cq, {4}));
    });
}

TEST_F(StaleCqTest, PolledBeforeItIsGoneItIsAsAnyOther) {
    alone([] {
        World world;
        inject("stale-cq");
        Srq stays = world.queue();
        Srq goes = world.queue();
        world.message(goes, 1);
        world.message(stays, 2);
        ASSERT_TRUE(next_are(world.cq, {1}));
        ASSERT_EQ(ibv_destroy_srq(goes.release()), 0);
        EXPECT_TRUE(next_are(world.cq, {2}));
    });
}

TEST_F(StaleCqTest, WithoutTheFaultItStays) {
    alone([] {
        World world;
        Srq goes = world.queue();
        world.message(goes, 1);
        ASSERT_EQ(ibv_destroy_srq(goes.release()), 0);
        EXPECT_TRUE(next_are(world.cq, {1}));
    });
}

TEST_F(StaleCqTest, FailsAPollEntryByEntry) {
    alone([] {
        World world;
        inject("stale-cq");
        ibv_cq_init_attr_ex attributes{};
        attributes.cqe = 16;
        ibv_cq_ex* const extended = ibv_create_cq_ex(world.hca.get(), &attributes);
        ASSERT_NE(extended, nullptr);
        const Cq cq(ibv_cq_ex_to_cq(extended));
        Srq stays = make_xrc_srq(world.hca, world.pd.get(), world.xrcd.get(), cq.get());
        Srq goes = make_xrc_srq(world.hca, world.pd.get(), world.xrcd.get(), cq.get());
        world.message(goes, 1);
        world.message(stays, 2);
        world.message(goes, 3);
        ASSERT_EQ(ibv_destroy_srq(goes.release()), 0);
        ibv_poll_cq_attr none{};
        EXPECT_EQ(ibv_start_poll(extended, &none), EIO);
        ASSERT_EQ(ibv_start_poll(extended, &none), 0);
        EXPECT_EQ(extended->wr_id, 2u);
        EXPECT_EQ(ibv_next_poll(extended), EIO);
        ibv_end_poll(extended);
        EXPECT_EQ(ibv_start_poll(extended, &none), ENOENT);
    });
}

}  // namespace
}  // namespace conformance::softhca
