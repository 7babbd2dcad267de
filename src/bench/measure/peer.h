// SPDX-License-Identifier: BSD-3-Clause
// The two processes of a measurement. One of them measures, the other one answers.
#pragma once

#include <sys/types.h>

#include <functional>
#include <type_traits>

namespace bench {

class Peer {
  public:
    /// Runs the same script in this process, which measures, and in a child. Throws what the script
    /// throws here, and Failure if the child failed. The child never outlives the call.
    static void run_pair(const std::function<void(Peer&)>& script);

    /// The process at the other end of a SOCK_SEQPACKET socket, which stays the caller's.
    Peer(int fd, pid_t pid, bool measures) : fd_(fd), pid_(pid), measures_(measures) {}
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    bool measures() const { return measures_; }
    /// The other process.
    pid_t pid() const { return pid_; }
    /// Waits until the other process has come here, too.
    void meet() { exchange('.'); }
    /// Swaps one message with the other process.
    template <typename T>
    T exchange(const T& mine) {
        static_assert(std::is_trivially_copyable_v<T>);
        T theirs;
        send(&mine, sizeof mine);
        receive(&theirs, sizeof theirs);
        return theirs;
    }

    void send(const void* bytes, size_t size);
    void receive(void* bytes, size_t size);
    /// Whether receive() need not wait.
    bool has_message() const;

  private:
    const int fd_;
    const pid_t pid_;
    const bool measures_;
};

}  // namespace bench
