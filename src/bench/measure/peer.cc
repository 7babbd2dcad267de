// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace bench {
namespace {

constexpr size_t kSamplesAtOnce = 2048;

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

void Channel::send(const void* bytes, size_t size) {
    if (::send(fd_, bytes, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
        throw Failure(whom_ + " is gone");
    }
}

bool Channel::receive(void* bytes, size_t size, uint64_t patience_ns) {
    for (const uint64_t end = now_ns() + patience_ns;;) {
        const uint64_t now = now_ns();
        if (patience_ns != 0 && now >= end) throw Failure(whom_ + " does not answer");
        pollfd ready{fd_, POLLIN, 0};
        const int left = patience_ns == 0 ? -1 : static_cast<int>((end - now) / 1'000'000) + 1;
        const int got = ::poll(&ready, 1, left);
        if (got > 0) break;
        if (got < 0 && errno != EINTR) throw call_failed("poll");
    }
    return ::recv(fd_, bytes, size, 0) == static_cast<ssize_t>(size);
}

bool Channel::has_message() const {
    pollfd ready{fd_, POLLIN, 0};
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

Peer::Peer(int fd, bool measures)
    : channel_(fd, "the peer process"), measures_(measures), pid_(exchange(::getpid())) {}

}  // namespace bench
