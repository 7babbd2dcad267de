// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cm/port.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>

namespace softhca::cm {

namespace {

constexpr int kSocketFlags = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr uint32_t kFirstFreePort = 32768;
constexpr uint32_t kFreePorts = 28232;  // as Linux has by default

struct Name {
    sockaddr_un address;
    socklen_t size;
};

// In the abstract namespace: no file is left behind.
Name make_name(const PortName& port) {
    Name name{};
    name.address.sun_family = AF_UNIX;
    char* text = name.address.sun_path + 1;
    const int length =
        std::snprintf(text, sizeof name.address.sun_path - 1, "softhca-cm/%u/%s/%x/%u", geteuid(),
                      port.fabric.c_str(), port.port_space, port.port);
    name.size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
    return name;
}

bool bind_socket(int fd, const PortName& port) {
    const Name name = make_name(port);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&name.address), name.size) == 0;
}

// Other users can use the same names.
bool is_own_user(int fd) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

bool bind_free(int fd, PortName& port) {
    std::random_device random;
    const uint32_t start = random();
    for (uint32_t i = 0; i < kFreePorts; ++i) {
        port.port = static_cast<uint16_t>(kFirstFreePort + (start + i) % kFreePorts);
        if (bind_socket(fd, port)) return true;
        if (errno != EADDRINUSE) break;
    }
    return false;
}

}  // namespace

int bind_port(PortName& name) {
    const int fd = ::socket(AF_UNIX, kSocketFlags, 0);
    if (fd < 0) return -1;
    if (name.port != 0 ? bind_socket(fd, name) : bind_free(fd, name)) return fd;
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
}

int listen_port(int fd) {
    return ::listen(fd, SOMAXCONN);
}

int connect_port(int fd, const PortName& port) {
    const Name name = make_name(port);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0)
        return errno;
    return is_own_user(fd) ? 0 : ECONNREFUSED;
}

int accept_port(int fd) {
    const int connection = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0 || is_own_user(connection)) return connection;
    ::close(connection);
    return -1;
}

bool send_message(int fd, const Message& message) {
    return ::send(fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(sizeof message);
}

Received receive_message(int fd, Message& message, size_t& size) {
    // MSG_TRUNC: the size is that of the whole message.
    const ssize_t got = ::recv(fd, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0) {
        size = static_cast<size_t>(got);
        return Received::kMessage;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothing;
    return Received::kHangUp;
}

}  // namespace softhca::cm
