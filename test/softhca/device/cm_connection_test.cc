// SPDX-License-Identifier: BSD-3-Clause
// Connections by rdma_cm: who listens, who connects, and what the two tell each other.
#include <arpa/inet.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "cm.h"

namespace conformance::softhca::cm {
namespace {

class CmConnectionTest : public FabricTest {};

ibv_qp_attr query(ibv_qp* qp) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attributes, ~0, &init), 0);
    return attributes;
}

// The bytes of a text, and zeros up to the size that InfiniBand's messages have.
std::string padded(std::string text, size_t size) {
    text.resize(size);
    return text;
}

TEST_F(CmConnectionTest, BothSidesTalk) {
    alone([] {
        const Connected pair;
        pair.talk();
    });
}

TEST_F(CmConnectionTest, BothSidesTalkOverEthernetWithAddressesOfTheirOwn) {
    set("LINK_LAYER", "ethernet");
    set("ADDRESSES", "per-process");
    alone([] {
        const Connected pair;
        pair.talk();
    });
}

TEST_F(CmConnectionTest, BothSidesTalkOnTheStrictestDevice) {
    set("PERSONALITY", "strict");
    alone([] {
        const Connected pair;
        pair.talk();
    });
}

TEST_F(CmConnectionTest, TheSidesLearnOfEachOther) {
    alone([] {
        Listener listener;
        Caller caller(listener.port);
        make_queue_pair(caller.id.get());
        rdma_conn_param param = parameters("question");
        param.responder_resources = 3;
        param.initiator_depth = 2;
        ASSERT_EQ(rdma_connect(caller.id.get(), &param), 0);

        Seen request;
        const Id accepted = listener.request(&request);
        EXPECT_EQ(request.data, padded("question", 56));
        EXPECT_EQ(request.event.param.conn.responder_resources, 2) << "what the other may do";
        EXPECT_EQ(request.event.param.conn.initiator_depth, 3);
        EXPECT_EQ(request.event.param.conn.retry_count, 5);
        EXPECT_EQ(request.event.param.conn.rnr_retry_count, 6);
        EXPECT_EQ(request.event.param.conn.qp_num, caller.id->qp->qp_num);
        EXPECT_EQ(rdma_get_dst_port(accepted.get()), rdma_get_src_port(caller.id.get()));
        EXPECT_EQ(ntohs(rdma_get_src_port(accepted.get())), listener.port);
        EXPECT_EQ(accepted->verbs, caller.id->verbs);

        make_queue_pair(accepted.get());
        EXPECT_EQ(query(accepted->qp).qp_state, IBV_QPS_INIT);
        rdma_conn_param answer = parameters("answer");
        answer.responder_resources = 2;
        answer.initiator_depth = 3;
        answer.rnr_retry_count = 4;
        ASSERT_EQ(rdma_accept(accepted.get(), &answer), 0);
        EXPECT_EQ(query(accepted->qp).qp_state, IBV_QPS_RTS);
        const Seen reply = expect(caller.channel, RDMA_CM_EVENT_ESTABLISHED, caller.id.get());
        EXPECT_EQ(reply.data, padded("answer", 196));
        expect(listener.channel, RDMA_CM_EVENT_ESTABLISHED, accepted.get());

        const ibv_qp_attr here = query(caller.id->qp);
        const ibv_qp_attr there = query(accepted->qp);
        EXPECT_EQ(here.qp_state, IBV_QPS_RTS);
        EXPECT_EQ(here.dest_qp_num, accepted->qp->qp_num);
        EXPECT_EQ(there.dest_qp_num, caller.id->qp->qp_num);
        EXPECT_EQ(here.sq_psn, there.rq_psn);
        EXPECT_EQ(there.sq_psn, here.rq_psn);
        EXPECT_EQ(here.max_rd_atomic, 2);
        EXPECT_EQ(here.max_dest_rd_atomic, 3);
        EXPECT_EQ(there.max_rd_atomic, 3);
        EXPECT_EQ(there.max_dest_rd_atomic, 2);
        EXPECT_EQ(here.rnr_retry, 4) << "each side says how often the other repeats";
        EXPECT_EQ(there.rnr_retry, 6);
        EXPECT_EQ(there.retry_cnt, 5);
    });
}

// The program has its queue pairs to itself, as UCX does.
TEST_F(CmConnectionTest, QueuePairsOfTheProgram) {
    alone([] {
        Listener listener;
        Caller caller(listener.port);
        rdma_conn_param param = parameters();
        param.qp_num = 0x1234;
        ASSERT_EQ(rdma_connect(caller.id.get(), &param), 0);
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTR;
        int mask = 0;
        EXPECT_EQ(rdma_init_qp_attr(caller.id.get(), &attributes, &mask), -1);
        EXPECT_EQ(errno, EINVAL) << "the peer is not known yet";
        const Id accepted = listener.request();
        param.qp_num = 0x4321;
        ASSERT_EQ(rdma_accept(accepted.get(), &param), 0);
        const Seen reply = expect(caller.channel, RDMA_CM_EVENT_CONNECT_RESPONSE, caller.id.get());
        EXPECT_EQ(reply.event.param.conn.qp_num, 0x4321u);
        EXPECT_TRUE(silent(listener.channel));
        ASSERT_EQ(rdma_init_qp_attr(caller.id.get(), &attributes, &mask), 0);
        EXPECT_EQ(attributes.dest_qp_num, 0x4321u);
        EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        ASSERT_EQ(rdma_establish(caller.id.get()), 0);
        expect(listener.channel, RDMA_CM_EVENT_ESTABLISHED, accepted.get());
        EXPECT_TRUE(silent(caller.channel));
    });
}

TEST_F(CmConnectionTest, RejectedWithReasons) {
    alone([] {
        Listener listener;
        Caller caller(listener.port);
        begin_connect(caller);
        const Id rejected = listener.request();
        ASSERT_EQ(rdma_reject(rejected.get(), "no", 2), 0);
        const Seen seen = expect(caller.channel, RDMA_CM_EVENT_REJECTED, caller.id.get(), 28);
        EXPECT_EQ(seen.data, padded("no", 148));
        EXPECT_EQ(query(caller.id->qp).qp_state, IBV_QPS_ERR);
        rdma_conn_param param = parameters();
        EXPECT_EQ(rdma_accept(rejected.get(), &param), -1);
        EXPECT_EQ(errno, EINVAL);
    });
}

TEST_F(CmConnectionTest, DestroyedInsteadOfAnswered) {
    alone([] {
        Listener listener;
        Caller caller(listener.port);
        begin_connect(caller);
        listener.request().reset();
        expect(caller.channel, RDMA_CM_EVENT_REJECTED, caller.id.get(), 28);
    });
}

TEST_F(CmConnectionTest, NobodyListens) {
    alone([] {
        Caller caller(9);
        begin_connect(caller);
        expect(caller.channel, RDMA_CM_EVENT_REJECTED, caller.id.get(), 8);
    });
}

// A listener that comes a little later is found.
TEST_F(CmConnectionTest, TheListenerIsLate) {
    alone([] {
        const EventChannel channel = make_channel();
        const Id id = make_id(channel);
        sockaddr_in address = ip(0);
        ASSERT_EQ(rdma_bind_addr(id.get(), any(address)), 0);
        Caller caller(ntohs(rdma_get_src_port(id.get())));
        begin_connect(caller);
        ASSERT_EQ(rdma_listen(id.get(), 1), 0);
        const Seen seen = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, nullptr);
        Id(seen.event.id).reset();
    });
}

// Requests that the program has not read are at most as many as it said.
TEST_F(CmConnectionTest, FullBacklog) {
    alone([] {
        Listener listener(RDMA_PS_TCP, 2);
        std::vector<std::unique_ptr<Caller>> callers;
        rdma_conn_param param = parameters();
        for (int i = 0; i < 3; ++i) {
            callers.push_back(std::make_unique<Caller>(listener.port));
            make_queue_pair(callers[i]->id.get());
            ASSERT_EQ(rdma_connect(callers[i]->id.get(), &param), 0);
        }
        expect(callers[2]->channel, RDMA_CM_EVENT_REJECTED, callers[2]->id.get(), 28);
        EXPECT_TRUE(silent(callers[0]->channel));
        const Id first = listener.request();
        Caller late(listener.port);
        make_queue_pair(late.id.get());
        ASSERT_EQ(rdma_connect(late.id.get(), &param), 0);
        const Id second = listener.request();
        const Id third = listener.request();
        EXPECT_EQ(rdma_get_dst_port(third.get()), rdma_get_src_port(late.id.get()));
    });
}

// A connection for which the process has no descriptor waits until there is one.
TEST_F(CmConnectionTest, WithoutDescriptors) {
    Team team;
    const int listens = team.spawn([](Link& link) {
        Listener listener;
        std::vector<int> taken;
        for (int fd = dup(0); fd >= 0; fd = dup(0)) taken.push_back(fd);
        ASSERT_EQ(errno, EMFILE);
        link.send(listener.port);
        link.receive();
        EXPECT_TRUE(silent(listener.channel));
        for (const int fd : taken) close(fd);
        listener.request().reset();
    });
    const int calls = team.spawn([](Link& link) {
        Caller caller(link.receive<uint16_t>());
        begin_connect(caller);
        link.send();
        expect(caller.channel, RDMA_CM_EVENT_REJECTED, caller.id.get(), 28);
    });
    team[calls].send(team[listens].receive<uint16_t>());
    team[calls].receive();
    team[listens].send();
    team.finish();
}

TEST_F(CmConnectionTest, DatagramServices) {
    alone([] {
        Listener listener(RDMA_PS_UDP);
        Caller caller(listener.port, RDMA_PS_UDP);
        make_queue_pair(caller.id.get());
        EXPECT_EQ(query(caller.id->qp).qp_state, IBV_QPS_RTS);
        rdma_conn_param param = parameters("who");
        ASSERT_EQ(rdma_connect(caller.id.get(), &param), 0);
        Seen request;
        const Id served = listener.request(&request);
        EXPECT_EQ(request.data, padded("who", 180));
        make_queue_pair(served.get());
        rdma_conn_param answer = parameters("me");
        answer.qp_num = served->qp->qp_num;
        ASSERT_EQ(rdma_accept(served.get(), &answer), 0);
        const Seen seen = expect(caller.channel, RDMA_CM_EVENT_ESTABLISHED, caller.id.get());
        EXPECT_EQ(seen.data, padded("me", 136));
        EXPECT_EQ(seen.event.param.ud.qp_num, served->qp->qp_num);
        EXPECT_EQ(seen.event.param.ud.qkey, uint32_t{RDMA_UDP_QKEY});
        ibv_ah_attr address = seen.event.param.ud.ah_attr;
        const Owned<ibv_ah> handle(ibv_create_ah(caller.id->pd, &address));
        ASSERT_NE(handle, nullptr);
        EXPECT_TRUE(silent(listener.channel));
    });
}

TEST_F(CmConnectionTest, DatagramServicesThatAreRefused) {
    alone([] {
        Listener listener(RDMA_PS_UDP);
        Caller caller(listener.port, RDMA_PS_UDP);
        begin_connect(caller);
        const Id rejected = listener.request();
        ASSERT_EQ(rdma_reject(rejected.get(), nullptr, 0), 0);
        expect(caller.channel, RDMA_CM_EVENT_UNREACHABLE, caller.id.get(), 2);
        Caller other(9, RDMA_PS_UDP);
        begin_connect(other);
        expect(other.channel, RDMA_CM_EVENT_UNREACHABLE, other.id.get(), 1);
    });
}

}  // namespace
}  // namespace conformance::softhca::cm
