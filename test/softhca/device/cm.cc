// SPDX-License-Identifier: BSD-3-Clause
#include "cm.h"

#include <arpa/inet.h>
#include <poll.h>

namespace conformance::softhca::cm {

EventChannel make_channel() {
    EventChannel channel(rdma_create_event_channel());
    if (channel == nullptr) fail_errno("rdma_create_event_channel");
    return channel;
}

void DestroyId::operator()(rdma_cm_id* id) const {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
}

Id make_id(const EventChannel& channel, rdma_port_space space) {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel.get(), &id, nullptr, space) != 0) fail_errno("rdma_create_id");
    return Id(id);
}

sockaddr_in ip(uint16_t port, const char* address) {
    sockaddr_in ip{};
    ip.sin_family = AF_INET;
    ip.sin_port = htons(port);
    inet_pton(AF_INET, address, &ip.sin_addr);
    return ip;
}

Seen next(const EventChannel& channel) {
    pollfd wait{channel->fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(deadline().count())) != 1) fail("no event came");
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel.get(), &event) != 0) fail_errno("rdma_get_cm_event");
    Seen seen{*event, {}};
    const bool datagram = event->id->qp_type == IBV_QPT_UD;
    const void* data = datagram ? event->param.ud.private_data : event->param.conn.private_data;
    const size_t size =
        datagram ? event->param.ud.private_data_len : event->param.conn.private_data_len;
    if (data != nullptr) seen.data.assign(static_cast<const char*>(data), size);
    if (rdma_ack_cm_event(event) != 0) fail_errno("rdma_ack_cm_event");
    return seen;
}

Seen expect(const EventChannel& channel, rdma_cm_event_type type, const rdma_cm_id* id,
            int status) {
    Seen seen = next(channel);
    EXPECT_STREQ(rdma_event_str(seen.event.event), rdma_event_str(type));
    EXPECT_EQ(seen.event.status, status);
    EXPECT_TRUE(id == nullptr || seen.event.id == id);
    return seen;
}

bool silent(const EventChannel& channel) {
    pollfd wait{channel->fd, POLLIN, 0};
    return poll(&wait, 1, static_cast<int>(kQuiet.count())) == 0;
}

Listener::Listener(rdma_port_space space, int backlog) : id(make_id(channel, space)) {
    sockaddr_in address = ip(0, "0.0.0.0");
    if (rdma_bind_addr(id.get(), any(address)) != 0) fail_errno("rdma_bind_addr");
    if (rdma_listen(id.get(), backlog) != 0) fail_errno("rdma_listen");
    port = ntohs(rdma_get_src_port(id.get()));
}

Id Listener::request(Seen* seen) {
    const Seen request = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, nullptr);
    EXPECT_EQ(request.event.listen_id, id.get());
    if (seen != nullptr) *seen = request;
    return Id(request.event.id);
}

Caller::Caller(uint16_t port, rdma_port_space space, const char* address)
    : id(make_id(channel, space)) {
    sockaddr_in to = ip(port, address);
    if (rdma_resolve_addr(id.get(), nullptr, any(to), 1000) != 0) fail_errno("rdma_resolve_addr");
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, id.get());
    if (rdma_resolve_route(id.get(), 1000) != 0) fail_errno("rdma_resolve_route");
    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, id.get());
}

void make_queue_pair(rdma_cm_id* id) {
    ibv_qp_init_attr attributes{};
    attributes.cap = {4, 4, 1, 1, 0};
    attributes.qp_type = id->qp_type;
    attributes.sq_sig_all = 1;
    if (rdma_create_qp(id, nullptr, &attributes) != 0) fail_errno("rdma_create_qp");
}

rdma_conn_param parameters(std::string_view data) {
    rdma_conn_param param{};
    param.private_data = data.data();
    param.private_data_len = static_cast<uint8_t>(data.size());
    param.responder_resources = 1;
    param.initiator_depth = 1;
    param.retry_count = 5;
    param.rnr_retry_count = 6;
    return param;
}

void talk(rdma_cm_id* from, rdma_cm_id* to) {
    const Region source(from->pd, 64);
    const Region target(to->pd, 64);
    source.fill(3);
    ibv_sge receive = target.sge();
    ibv_recv_wr receive_wr{1, nullptr, &receive, 1};
    ibv_recv_wr* bad_receive = nullptr;
    ASSERT_EQ(ibv_post_recv(to->qp, &receive_wr, &bad_receive), 0);
    ibv_sge send = source.sge();
    ibv_send_wr send_wr{};
    send_wr.wr_id = 2;
    send_wr.sg_list = &send;
    send_wr.num_sge = 1;
    send_wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad_send = nullptr;
    ASSERT_EQ(ibv_post_send(from->qp, &send_wr, &bad_send), 0);
    for (ibv_cq* queue : {from->send_cq, to->recv_cq}) {
        ibv_wc wc{};
        ASSERT_TRUE(comes([&] { return ibv_poll_cq(queue, 1, &wc) == 1; }));
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    }
    EXPECT_TRUE(target.holds(3, 0, 64));
}

void begin_connect(const Caller& caller) {
    make_queue_pair(caller.id.get());
    rdma_conn_param param = parameters();
    if (rdma_connect(caller.id.get(), &param) != 0) fail_errno("rdma_connect");
}

Id Listener::accept() {
    Id accepted = request();
    make_queue_pair(accepted.get());
    rdma_conn_param param = parameters();
    if (rdma_accept(accepted.get(), &param) != 0) fail_errno("rdma_accept");
    return accepted;
}

Connected::Connected() : caller(listener.port) {
    begin_connect(caller);
    accepted = listener.accept();
    expect(caller.channel, RDMA_CM_EVENT_ESTABLISHED, caller.id.get());
    expect(listener.channel, RDMA_CM_EVENT_ESTABLISHED, accepted.get());
}

void Connected::talk() const {
    cm::talk(caller.id.get(), accepted.get());
    cm::talk(accepted.get(), caller.id.get());
}

}  // namespace conformance::softhca::cm
