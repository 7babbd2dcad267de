// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tern {

// One descriptor for a sleeper to wait for: it is readable when one of others is, or at a deadline.
// Control path.
class WakeDescriptor {
  public:
    WakeDescriptor() = default;
    ~WakeDescriptor();
    WakeDescriptor(const WakeDescriptor&) = delete;
    WakeDescriptor& operator=(const WakeDescriptor&) = delete;

    // Makes the descriptor and adds `others`, except negative ones. False: `why` says why.
    bool open(std::span<const int> others, std::string& why);
    // -1 before open().
    int fd() const { return epoll_; }

    // In nanoseconds of the monotonic clock; UINT64_MAX: none.
    void set_deadline(uint64_t deadline);
    // True: the deadline has passed. It is then no longer set.
    bool take_deadline();

  private:
    int epoll_ = -1;
    int timer_ = -1;
    bool timer_is_set_ = false;
};

}  // namespace tern
