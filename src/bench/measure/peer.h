// SPDX-License-Identifier: BSD-3-Clause
// Messages between processes, and the two processes of a measurement.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "bench/measure/clock.h"
#include "common/descriptor.h"

namespace bench {

// One end of a connection, by SOCK_SEQPACKET, or by TCP between machines. Functions throw Failure,
// with a text that names the process at the other end.
class Channel {
  public:
    Channel() = default;
    Channel(int fd, std::string whom) : fd_(fd), whom_(std::move(whom)) {}
    // The end of a process that a Meeting with this name waits for.
    static Channel join(const std::string& name, const std::string& whom);

    int fd() const { return fd_.get(); }
    void send(const void* bytes, size_t size);
    // Waits for at most `patience_ns`; 0 means no limit. Returns false if the other end is closed.
    bool receive(void* bytes, size_t size, uint64_t patience_ns);
    // Whether receive() need not wait.
    bool has_message() const;

    template <typename T>
    void put(const T& message) {
        static_assert(std::is_trivially_copyable_v<T>);
        send(&message, sizeof message);
    }
    template <typename T>
    T take(uint64_t patience_ns = 3 * kPatienceNs) {
        static_assert(std::is_trivially_copyable_v<T>);
        T message;
        if (!receive(&message, sizeof message, patience_ns)) throw Failure(whom_ + " has died");
        return message;
    }
    // Samples, in several messages. Both sides have agreed on their number.
    void put_samples(const Samples& samples);
    Samples take_samples(size_t count);

  private:
    tools::Descriptor fd_;
    std::string whom_;
};

// Where other processes of this user get a channel to this one.
class Meeting {
  public:
    Meeting();

    // For join(). No other process has the same.
    const std::string& name() const { return name_; }
    // Waits for the next process. Calls look() from time to time, which may throw. Throws Failure
    // if no process comes.
    Channel wait(const std::string& whom, const std::function<void()>& look);

  private:
    Channel socket_;
    std::string name_;
};

// The other process of a measurement. One process measures, the other one answers.
class Peer {
  public:
    Peer(Channel channel, bool measures) : channel_(std::move(channel)), measures_(measures) {}

    bool measures() const { return measures_; }
    // Waits until the other process calls it, too.
    void meet() { exchange('.'); }
    // Swaps one message with the other process.
    template <typename T>
    T exchange(const T& mine) {
        channel_.put(mine);
        return channel_.take<T>(kPatienceNs);
    }
    Channel& channel() { return channel_; }

  private:
    Channel channel_;
    const bool measures_;
};

}  // namespace bench
