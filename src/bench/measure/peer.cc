// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace bench {
namespace {

constexpr size_t kSamplesAtOnce = 2048;
constexpr uint64_t kLookNs = 100'000'000;

// Waits until a descriptor can be read. Returns false if that takes longer than `ns`; 0: no limit.
bool wait_until_readable(int fd, uint64_t ns) {
    for (const uint64_t end = now_ns() + ns;;) {
        const uint64_t now = now_ns();
        if (ns != 0 && now >= end) return false;
        pollfd ready{fd, POLLIN, 0};
        const int left = ns == 0 ? -1 : static_cast<int>((end - now) / 1'000'000) + 1;
        const int got = ::poll(&ready, 1, left);
        if (got > 0) return true;
        if (got < 0 && errno != EINTR) throw call_failed("poll");
    }
}

// An address that is not a file: the socket alone has it.
struct Abstract {
    explicit Abstract(const std::string& name)
        : length(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
        if (name.size() >= sizeof address.sun_path) throw Failure(name + " is too long");
        address.sun_family = AF_UNIX;
        std::copy(name.begin(), name.end(), address.sun_path + 1);
    }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

    sockaddr_un address = {};
    socklen_t length;
};

int make_socket() {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) throw call_failed("socket");
    return fd;
}

// The user of the process at the other end of a connection.
uid_t user_at(int fd) {
    ucred who = {};
    socklen_t size = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        throw call_failed("getsockopt");
    return who.uid;
}

}  // namespace

Channel Channel::join(const std::string& name, const std::string& whom) {
    const Abstract address(name);
    Channel channel(make_socket(), whom);
    if (::connect(channel.fd(), address.get(), address.length) != 0) throw call_failed("connect");
    return channel;
}

void Channel::send(const void* bytes, size_t size) {
    if (::send(fd(), bytes, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
        throw Failure(whom_ + " is gone");
    }
}

bool Channel::receive(void* bytes, size_t size, uint64_t patience_ns) {
    if (!wait_until_readable(fd(), patience_ns)) throw Failure(whom_ + " does not answer");
    return ::recv(fd(), bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

bool Channel::has_message() const {
    pollfd ready{fd(), POLLIN, 0};
    return ::poll(&ready, 1, 0) > 0;
}

void Channel::put_samples(const Samples& samples) {
    for (size_t done = 0; done < samples.size(); done += kSamplesAtOnce) {
        const size_t count = std::min(kSamplesAtOnce, samples.size() - done);
        send(samples.data() + done, count * sizeof(double));
    }
}

Samples Channel::take_samples(size_t count) {
    Samples samples(count);
    for (size_t done = 0; done < count; done += kSamplesAtOnce) {
        const size_t some = std::min(kSamplesAtOnce, count - done);
        if (!receive(samples.data() + done, some * sizeof(double), 3 * kPatienceNs)) {
            throw Failure(whom_ + " has died");
        }
    }
    return samples;
}

Meeting::Meeting() : socket_(make_socket(), "a process") {
    // The kernel chooses the name.
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address.sun_family;
    if (::bind(socket_.fd(), any, length) != 0) throw call_failed("bind");
    if (::listen(socket_.fd(), SOMAXCONN) != 0) throw call_failed("listen");
    length = sizeof address;
    if (::getsockname(socket_.fd(), any, &length) != 0) throw call_failed("getsockname");
    name_.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
}

Channel Meeting::wait(const std::string& whom, const std::function<void()>& look) {
    for (const uint64_t end = now_ns() + kPatienceNs; now_ns() < end; look()) {
        if (!wait_until_readable(socket_.fd(), kLookNs)) continue;
        Channel channel(::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC), whom);
        if (channel.fd() < 0) throw call_failed("accept");
        if (user_at(channel.fd()) == ::getuid()) return channel;
    }
    throw Failure(whom + " does not start");
}

}  // namespace bench
