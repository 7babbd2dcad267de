// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/peer.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "bench/measure/clock.h"

namespace bench {
namespace {

/// Ends a child whatever happens to its parent.
class Child {
  public:
    explicit Child(pid_t pid) : pid_(pid) {}
    ~Child() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /// Waits for its end. Whether it went well.
    bool finish() {
        const uint64_t end = now_ns() + kPatienceNs;
        int status = 0;
        while (::waitpid(pid_, &status, WNOHANG) == 0) {
            if (now_ns() > end) return false;
            ::usleep(1000);
        }
        pid_ = 0;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }

  private:
    pid_t pid_;
};

/// Closes a descriptor at the end of a scope.
struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
};

[[noreturn]] void be_child(const std::function<void()>& body) {
    int status = 0;
    try {
        body();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: peer: %s\n", program_invocation_short_name, error.what());
        status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
}

}  // namespace

void Peer::run_pair(const std::function<void(Peer&)>& script) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        throw call_failed("socketpair");
    }
    const Closer mine{ends[0]};
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) {
        ::close(ends[1]);
        throw call_failed("fork");
    }
    if (pid == 0) {
        ::close(ends[0]);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        be_child([&] {
            Peer peer(ends[1], parent, false);
            script(peer);
        });
    }
    ::close(ends[1]);
    Child child(pid);
    Peer peer(ends[0], pid, true);
    script(peer);
    if (!child.finish()) throw Failure("the peer process failed");
}

void Peer::send(const void* bytes, size_t size) {
    if (::send(fd_, bytes, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
        throw call_failed("sending to the peer process");
    }
}

void Peer::receive(void* bytes, size_t size) {
    const uint64_t end = now_ns() + kPatienceNs;
    for (;;) {
        const uint64_t now = now_ns();
        pollfd ready{fd_, POLLIN, 0};
        const int left = now < end ? static_cast<int>((end - now) / 1'000'000) : 0;
        const int got = ::poll(&ready, 1, left);
        if (got > 0) break;
        if (got == 0) throw Failure("timed out waiting for the peer process");
        if (errno != EINTR) throw call_failed("poll");
    }
    if (::recv(fd_, bytes, size, 0) != static_cast<ssize_t>(size)) {
        throw Failure("the peer process is gone");
    }
}

bool Peer::has_message() const {
    pollfd ready{fd_, POLLIN, 0};
    return ::poll(&ready, 1, 0) > 0;
}

}  // namespace bench
