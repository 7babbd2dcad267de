// SPDX-License-Identifier: BSD-3-Clause
// The sockets and messages of rdma_cm, without a device.
#include "softhca/cm/port.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace softhca::cm {
namespace {

struct Socket {
    explicit Socket(int descriptor) : fd(descriptor) {}
    ~Socket() {
        if (fd >= 0) ::close(fd);
    }
    Socket(Socket&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
    int fd;
};

std::string own_fabric() {
    return "cm-port-test-" + std::to_string(::getpid());
}

Message request() {
    Message message{};
    message.magic = Message::kMagic;
    message.kind = MessageKind::kRequest;
    message.source.any.sa_family = AF_INET;
    message.destination.any.sa_family = AF_INET6;
    return message;
}

TEST(CmPort, AFreePortIsTakenOnce) {
    PortName name{own_fabric(), 0x106, 0};
    const Socket one(bind_port(name));
    ASSERT_GE(one.fd, 0);
    EXPECT_NE(name.port, 0);
    const Socket two(bind_port(name));
    EXPECT_EQ(two.fd, -1);
    EXPECT_EQ(errno, EADDRINUSE);
    PortName other_space{own_fabric(), 0x111, name.port};
    EXPECT_GE(Socket(bind_port(other_space)).fd, 0);
    PortName other_fabric{own_fabric() + "x", 0x106, name.port};
    EXPECT_GE(Socket(bind_port(other_fabric)).fd, 0);
}

TEST(CmPort, NobodyListens) {
    PortName name{own_fabric(), 0x106, 0};
    PortName own{own_fabric(), 0x106, 0};
    Socket listener(bind_port(name));
    const Socket caller(bind_port(own));
    EXPECT_EQ(connect_port(caller.fd, name), ECONNREFUSED) << "it is bound only";
    ASSERT_EQ(listen_port(listener.fd), 0);
    EXPECT_EQ(connect_port(caller.fd, name), 0) << "a socket may try again";
}

class Pair {
  public:
    Pair() {
        listener_ = bind_port(name_);
        listen_port(listener_);
        PortName own{own_fabric(), 0x106, 0};
        caller = bind_port(own);
        EXPECT_EQ(connect_port(caller, name_), 0);
        accepted = accept_port(listener_);
        EXPECT_GE(accepted, 0);
    }
    ~Pair() {
        for (const int fd : {listener_, caller, accepted})
            if (fd >= 0) ::close(fd);
    }
    int caller = -1;
    int accepted = -1;

  private:
    PortName name_{own_fabric(), 0x106, 0};
    int listener_ = -1;
};

TEST(CmPort, MessagesBeforeTheEnd) {
    Pair pair;
    Message message;
    size_t size = 0;
    EXPECT_EQ(receive_message(pair.accepted, message, size), Received::kNothing);
    Message sent = request();
    sent.qp_number = 77;
    EXPECT_TRUE(send_message(pair.caller, sent));
    ::close(std::exchange(pair.caller, -1));
    ASSERT_EQ(receive_message(pair.accepted, message, size), Received::kMessage);
    EXPECT_TRUE(valid(message, size, false));
    EXPECT_EQ(message.qp_number, 77u);
    EXPECT_EQ(receive_message(pair.accepted, message, size), Received::kHangUp);
    EXPECT_FALSE(send_message(pair.accepted, sent));
}

TEST(CmPort, MessagesOfOtherSizes) {
    Pair pair;
    char bytes[sizeof(Message) + 8] = {};
    const Message good = request();
    std::memcpy(bytes, &good, sizeof good);
    for (const size_t length : {sizeof(Message) - 1, sizeof(Message), sizeof(Message) + 8}) {
        ASSERT_EQ(::send(pair.caller, bytes, length, 0), static_cast<ssize_t>(length));
        Message message;
        size_t size = 0;
        ASSERT_EQ(receive_message(pair.accepted, message, size), Received::kMessage);
        EXPECT_EQ(valid(message, size, false), length == sizeof(Message)) << length;
    }
}

TEST(CmMessage, OneWrongFieldIsEnough) {
    ASSERT_TRUE(valid(request(), sizeof(Message), false));
    const auto wrong = [](auto&& change, bool datagram = false) {
        Message message = request();
        change(message);
        return !valid(message, sizeof message, datagram);
    };
    EXPECT_TRUE(wrong([](Message& m) { m.magic ^= 1; }));
    EXPECT_TRUE(wrong([](Message& m) { m.kind = static_cast<MessageKind>(0); }));
    EXPECT_TRUE(wrong([](Message& m) { m.kind = static_cast<MessageKind>(7); }));
    EXPECT_TRUE(wrong([](Message& m) { m.qp_number = 1 << 24; }));
    EXPECT_TRUE(wrong([](Message& m) { m.psn = 1 << 24; }));
    EXPECT_TRUE(wrong([](Message& m) { m.retry_count = 8; }));
    EXPECT_TRUE(wrong([](Message& m) { m.rnr_retry_count = 8; }));
    EXPECT_TRUE(wrong([](Message& m) { m.source.any.sa_family = AF_UNIX; }));
    EXPECT_TRUE(wrong([](Message& m) { m.destination.any.sa_family = 0; }));
    EXPECT_TRUE(wrong([](Message& m) { m.private_data_size = 57; }));
    EXPECT_FALSE(wrong([](Message& m) { m.private_data_size = 57; }, true));
    EXPECT_TRUE(wrong([](Message& m) { m.private_data_size = 181; }, true));
    for (const auto kind : {MessageKind::kRequest, MessageKind::kReply, MessageKind::kReject}) {
        EXPECT_LE(private_data_limit(kind, false), sizeof Message{}.private_data);
        EXPECT_LE(private_data_limit(kind, true), sizeof Message{}.private_data);
    }
}

}  // namespace
}  // namespace softhca::cm
