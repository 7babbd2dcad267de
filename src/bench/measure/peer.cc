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
constexpr int kBacklog = 2;

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

// A message of one byte, and a descriptor beside it.
struct Parcel {
    Parcel() {
        header.msg_iov = &piece;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }

    char byte = '.';
    iovec piece{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header = {};
};

}  // namespace

Channel::~Channel() {
    if (fd_ >= 0) ::close(fd_);
}

std::pair<Channel, Channel> Channel::make(const std::string& whom) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        throw call_failed("socketpair");
    }
    return {Channel(ends[0], whom), Channel(ends[1], whom)};
}

Channel Channel::join(const std::string& name) {
    const Abstract address(name);
    Channel channel(make_socket());
    if (::connect(channel.fd_, address.get(), address.length) != 0) throw call_failed("connect");
    return channel;
}

void Channel::send(const void* bytes, size_t size) {
    if (::send(fd_, bytes, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
        throw Failure(whom_ + " is gone");
    }
}

bool Channel::receive(void* bytes, size_t size, uint64_t patience_ns) {
    if (!wait_until_readable(fd_, patience_ns)) throw Failure(whom_ + " does not answer");
    return ::recv(fd_, bytes, size, 0) == static_cast<ssize_t>(size);
}

bool Channel::has_message() const {
    pollfd ready{fd_, POLLIN, 0};
    return ::poll(&ready, 1, 0) > 0;
}

void Channel::put_descriptor(int fd) {
    Parcel parcel;
    cmsghdr* const first = CMSG_FIRSTHDR(&parcel.header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(first), &fd, sizeof fd);
    if (::sendmsg(fd_, &parcel.header, MSG_NOSIGNAL) != 1) throw Failure(whom_ + " is gone");
}

int Channel::take_descriptor() {
    if (!wait_until_readable(fd_, kPatienceNs)) throw Failure(whom_ + " does not answer");
    Parcel parcel;
    const bool came = ::recvmsg(fd_, &parcel.header, MSG_CMSG_CLOEXEC) == 1;
    const cmsghdr* const first = CMSG_FIRSTHDR(&parcel.header);
    if (!came || first == nullptr) throw Failure(whom_ + " has died");
    int fd;
    std::memcpy(&fd, CMSG_DATA(first), sizeof fd);
    return fd;
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

Meeting::Meeting() : socket_(make_socket()) {
    // The kernel chooses the name.
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address.sun_family;
    if (::bind(socket_.fd(), any, length) != 0) throw call_failed("bind");
    if (::listen(socket_.fd(), kBacklog) != 0) throw call_failed("listen");
    length = sizeof address;
    if (::getsockname(socket_.fd(), any, &length) != 0) throw call_failed("getsockname");
    name_.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
}

std::optional<Channel> Meeting::wait(const std::string& whom, uint64_t ns) {
    if (!wait_until_readable(socket_.fd(), ns)) return std::nullopt;
    Channel channel(::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC), whom);
    if (channel.fd() < 0) throw call_failed("accept");
    ucred who = {};
    socklen_t size = sizeof who;
    const bool known = ::getsockopt(channel.fd(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0;
    if (!known || who.uid != ::getuid()) return std::nullopt;
    return channel;
}

Peer::Peer(int fd, bool measures)
    : channel_(fd, "the peer process"), measures_(measures), pid_(exchange(::getpid())) {}

}  // namespace bench
