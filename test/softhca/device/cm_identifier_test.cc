// SPDX-License-Identifier: BSD-3-Clause
// Identifiers of rdma_cm without a connection: addresses, ports, channels, and calls that do not
// fit.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "cm.h"

namespace conformance::softhca::cm {
namespace {

class CmIdentifierTest : public FabricTest {};

#define FAILS_WITH(error, call)         \
    do {                                \
        errno = 0;                      \
        EXPECT_EQ((call), -1) << #call; \
        EXPECT_EQ(errno, error);        \
    } while (false)

std::string address_of(const sockaddr* address) {
    char text[64] = "";
    getnameinfo(address, sizeof(sockaddr_in), text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    return text;
}

TEST_F(CmIdentifierTest, AddressesChooseDevices) {
    set("DEVICES", "2");
    set("PORTS", "2");
    alone([] {
        const auto chosen = [](const char* address) {
            const Caller caller(9, RDMA_PS_TCP, address);
            EXPECT_NE(caller.id->pd, nullptr);
            return ibv_get_device_name(caller.id->verbs->device) +
                   (":" + std::to_string(caller.id->port_num));
        };
        EXPECT_EQ(chosen("127.0.0.1"), "softhca0:1");
        EXPECT_EQ(chosen("10.72.0.1"), "softhca0:1");
        EXPECT_EQ(chosen("10.72.0.2"), "softhca0:2");
        EXPECT_EQ(chosen("10.72.0.3"), "softhca1:1");
        EXPECT_EQ(chosen("10.72.0.4"), "softhca1:2");
        const Caller caller(9, RDMA_PS_TCP, "10.72.0.4");
        EXPECT_EQ(address_of(rdma_get_local_addr(caller.id.get())), "10.72.0.4");
        EXPECT_EQ(address_of(rdma_get_peer_addr(caller.id.get())), "10.72.0.4");
        EXPECT_EQ(caller.id->route.num_paths, 1);
    });
}

TEST_F(CmIdentifierTest, ForeignAddressesAreRefused) {
    alone([] {
        const EventChannel channel = make_channel();
        for (const char* address : {"192.0.2.177", "10.72.0.5", "10.73.0.1"}) {
            const Id id = make_id(channel);
            sockaddr_in foreign = ip(9, address);
            FAILS_WITH(EADDRNOTAVAIL, rdma_bind_addr(id.get(), any(foreign)));
            ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, any(foreign), 1000), 0);
            expect(channel, RDMA_CM_EVENT_ADDR_ERROR, id.get(), -EHOSTUNREACH);
            // The identifier is bound now, and may try again.
            sockaddr_in own = ip(9);
            ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, any(own), 1000), 0);
            expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, id.get());
        }
    });
}

TEST_F(CmIdentifierTest, PortsAreOfOneIdentifier) {
    alone([] {
        const EventChannel channel = make_channel();
        const Id one = make_id(channel);
        const Id two = make_id(channel);
        const Id datagram = make_id(channel, RDMA_PS_UDP);
        sockaddr_in address = ip(0);
        ASSERT_EQ(rdma_bind_addr(one.get(), any(address)), 0);
        EXPECT_NE(one->verbs, nullptr);
        const uint16_t port = ntohs(rdma_get_src_port(one.get()));
        EXPECT_NE(port, 0);
        address = ip(port, "0.0.0.0");
        FAILS_WITH(EADDRINUSE, rdma_bind_addr(two.get(), any(address)));
        EXPECT_EQ(rdma_bind_addr(datagram.get(), any(address)), 0) << "in another port space";
        EXPECT_EQ(datagram->verbs, nullptr);
        FAILS_WITH(EINVAL, rdma_bind_addr(one.get(), any(address)));
    });
}

TEST_F(CmIdentifierTest, EventsAreMigrated) {
    alone([] {
        const EventChannel before = make_channel();
        const EventChannel after = make_channel();
        const Id id = make_id(before);
        sockaddr_in to = ip(9);
        ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, any(to), 1000), 0);
        ASSERT_EQ(rdma_migrate_id(id.get(), after.get()), 0);
        EXPECT_EQ(id->channel, after.get());
        EXPECT_TRUE(silent(before));
        expect(after, RDMA_CM_EVENT_ADDR_RESOLVED, id.get());
    });
}

TEST_F(CmIdentifierTest, AChannelMayBeNonBlocking) {
    alone([] {
        const EventChannel channel = make_channel();
        ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
        rdma_cm_event* event = nullptr;
        FAILS_WITH(EAGAIN, rdma_get_cm_event(channel.get(), &event));
    });
}

TEST_F(CmIdentifierTest, CallsThatDoNotFitTheState) {
    alone([] {
        const EventChannel channel = make_channel();
        const Id id = make_id(channel);
        rdma_conn_param param = parameters();
        FAILS_WITH(EINVAL, rdma_resolve_route(id.get(), 1000));
        FAILS_WITH(EINVAL, rdma_connect(id.get(), &param));
        FAILS_WITH(EINVAL, rdma_accept(id.get(), &param));
        FAILS_WITH(EINVAL, rdma_reject(id.get(), nullptr, 0));
        FAILS_WITH(EINVAL, rdma_disconnect(id.get()));
        FAILS_WITH(EINVAL, rdma_establish(id.get()));
        FAILS_WITH(EINVAL, rdma_notify(id.get(), IBV_EVENT_COMM_EST));
        rdma_cm_id* none = nullptr;
        FAILS_WITH(EINVAL,
                   rdma_create_id(channel.get(), &none, nullptr, static_cast<rdma_port_space>(7)));
        Listener listener;
        sockaddr_in to = ip(9);
        FAILS_WITH(EINVAL, rdma_resolve_addr(listener.id.get(), nullptr, any(to), 1000));
    });
}

TEST_F(CmIdentifierTest, TooMuchIsRefused) {
    alone([] {
        Caller caller(9);
        make_queue_pair(caller.id.get());
        const std::string too_long(57, 'x');
        rdma_conn_param param = parameters(too_long);
        FAILS_WITH(EINVAL, rdma_connect(caller.id.get(), &param));
        param = parameters();
        param.initiator_depth = 100;
        FAILS_WITH(EINVAL, rdma_connect(caller.id.get(), &param));
        const std::string whole(56, 'x');
        param = parameters(whole);
        param.initiator_depth = RDMA_MAX_INIT_DEPTH;
        EXPECT_EQ(rdma_connect(caller.id.get(), &param), 0);
        expect(caller.channel, RDMA_CM_EVENT_REJECTED, caller.id.get(), 8);
    });
}

TEST_F(CmIdentifierTest, WhatIsNotOffered) {
    alone([] {
        const EventChannel channel = make_channel();
        const Id id = make_id(channel, RDMA_PS_UDP);
        sockaddr_in group = ip(0, "224.0.0.1");
        FAILS_WITH(EADDRNOTAVAIL, rdma_bind_addr(id.get(), any(group)));
        ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, any(group), 1000), 0);
        expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, id.get());
        FAILS_WITH(EADDRNOTAVAIL, rdma_leave_multicast(id.get(), any(group)));
        FAILS_WITH(EOPNOTSUPP, rsocket(AF_INET, SOCK_STREAM, 0));
        FAILS_WITH(ENOSYS,
                   rdma_set_option(id.get(), RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, nullptr, 0));
        uint8_t timeout = 20;
        EXPECT_EQ(
            rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
    });
}

TEST_F(CmIdentifierTest, VirtualTimeHasNoChannels) {
    set("CLOCK", "virtual");
    alone([] {
        EXPECT_EQ(rdma_create_event_channel(), nullptr);
        EXPECT_EQ(errno, ENODEV);
    });
}

TEST_F(CmIdentifierTest, EndpointsWaitForTheirEvents) {
    alone([] {
        rdma_addrinfo hints{};
        hints.ai_port_space = RDMA_PS_TCP;
        hints.ai_flags = RAI_PASSIVE;
        rdma_addrinfo* found = nullptr;
        ASSERT_EQ(rdma_getaddrinfo(nullptr, "7471", &hints, &found), 0);
        ibv_qp_init_attr attributes{};
        attributes.cap = {4, 4, 1, 1, 0};
        attributes.sq_sig_all = 1;
        rdma_cm_id* listener = nullptr;
        ASSERT_EQ(rdma_create_ep(&listener, found, nullptr, &attributes), 0)
            << std::strerror(errno);
        rdma_freeaddrinfo(found);
        ASSERT_EQ(rdma_listen(listener, 0), 0);
        std::thread server([&] {
            rdma_cm_id* id = nullptr;
            ASSERT_EQ(rdma_get_request(listener, &id), 0);
            ASSERT_NE(id->qp, nullptr);
            ASSERT_EQ(rdma_accept(id, nullptr), 0);
            EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
            EXPECT_EQ(rdma_disconnect(id), 0);
            EXPECT_EQ(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
            rdma_destroy_ep(id);
        });
        hints.ai_flags = 0;
        ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &found), 0);
        rdma_cm_id* id = nullptr;
        ASSERT_EQ(rdma_create_ep(&id, found, nullptr, &attributes), 0) << std::strerror(errno);
        ASSERT_EQ(rdma_connect(id, nullptr), 0) << std::strerror(errno);
        EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
        server.join();
        rdma_destroy_ep(id);
        rdma_destroy_ep(listener);
        attributes.send_cq = attributes.recv_cq = nullptr;  // those of the first
        ASSERT_EQ(rdma_create_ep(&id, found, nullptr, &attributes), 0);
        FAILS_WITH(ECONNREFUSED, rdma_connect(id, nullptr));
        rdma_destroy_ep(id);
        rdma_freeaddrinfo(found);
    });
}

// As programs do that load librdmacm themselves.
TEST_F(CmIdentifierTest, LoadedAtRunTime) {
    alone([] {
        void* library = dlopen("librdmacm.so.1", RTLD_NOW);
        ASSERT_NE(library, nullptr);
        using Create = rdma_event_channel*();
        for (void* function : {dlsym(library, "rdma_create_event_channel"),
                               dlvsym(library, "rdma_create_event_channel", "RDMACM_1.0")}) {
            ASSERT_NE(function, nullptr);
            const EventChannel channel(reinterpret_cast<Create*>(function)());
            EXPECT_NE(channel, nullptr);
        }
        EXPECT_NE(dlvsym(library, "rdma_establish", "RDMACM_1.2"), nullptr);
    });
}

TEST_F(CmIdentifierTest, DevicesStayOpen) {
    set("DEVICES", "2");
    alone([] {
        int count = 0;
        ibv_context** devices = rdma_get_devices(&count);
        ASSERT_NE(devices, nullptr);
        EXPECT_EQ(count, 2);
        EXPECT_EQ(devices[2], nullptr);
        const Caller caller(9);
        EXPECT_EQ(caller.id->verbs, devices[0]);
        rdma_free_devices(devices);
    });
}

}  // namespace
}  // namespace conformance::softhca::cm
