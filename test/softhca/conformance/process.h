// SPDX-License-Identifier: BSD-3-Clause
// Tests with several processes. Each process is a new execution of this program: it runs the same
// test up to the spawn() of its own role. No process inherits a verbs object.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

namespace conformance {

// Messages of plain bytes between the test and one of its processes.
class Link {
  public:
    explicit Link(int fd) : fd_(fd) {}
    ~Link();
    Link(Link&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Link& operator=(Link&&) = delete;

    template <typename T>
    void send(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        send_bytes(&value, sizeof value);
    }
    void send() { send('.'); }

    // Throws when no message comes before the deadline, or when the other end is closed.
    template <typename T>
    T receive() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        receive_bytes(&value, sizeof value);
        return value;
    }
    void receive() { receive<char>(); }
    // Waits for a message without a deadline, for a process that serves others: the test knows how
    // long they may take, and ends the process.
    void await();

    // Readable when there is a message, or when the other end is closed.
    int fd() const { return fd_; }

    // Sends a file descriptor, which is duplicated into the other process; the receiver owns its
    // copy.
    void send_file(int fd);
    int receive_file();

  private:
    void send_bytes(const void* bytes, std::size_t size);
    void receive_bytes(void* bytes, std::size_t size);

    int fd_;
};

// The processes of one test. Spawn all of them before talking to any, and before using verbs for
// more than queries of the device. The destructor ends all processes that still run.
class Team {
  public:
    Team() = default;
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Starts a process that runs `role`. A test failure or an exception in the process fails the
    // test.
    int spawn(const std::function<void(Link&)>& role);

    // The test's end of the link to the process `index`.
    Link& operator[](int index);

    // Kills a process without warning.
    void kill(int index);

    // Waits until every process has exited; one that failed, or still runs at the deadline, fails
    // the test. Processes that were killed are not checked.
    void finish();

  private:
    struct Process {
        pid_t pid;
        Link link;
    };
    std::vector<Process> processes_;
    int spawned_ = 0;
};

// Whether this execution is a process of a team.
bool is_team_process();

// Receives one message from each process and passes it on to the other.
template <typename T>
void exchange(Link& one, Link& other) {
    const T from_one = one.receive<T>();
    const T from_other = other.receive<T>();
    one.send(from_other);
    other.send(from_one);
}

}  // namespace conformance
