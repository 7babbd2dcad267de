// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace bench {

// A descriptor that is closed with its owner.
class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    int get() const { return fd_; }

  private:
    int fd_;
};

// Two connected SOCK_SEQPACKET sockets, closed on exec.
std::pair<Descriptor, Descriptor> socket_pair();

using Environment = std::vector<std::pair<std::string, std::string>>;

// This program in another process; never outlives this object, nor this process.
class Process {
  public:
    // Runs `tern-bench words...` in this environment changed by `environment`, in which a variable
    // without a value is not set. The descriptors stay open in it under the same numbers.
    Process(const std::vector<std::string>& words, const Environment& environment,
            const std::vector<int>& descriptors);
    ~Process();
    Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
    Process& operator=(Process&&) = delete;

    pid_t pid() const { return pid_; }
    // Waits for its end, not for ever. Whether it ended well.
    bool finish();

  private:
    pid_t pid_ = 0;
};

}  // namespace bench
