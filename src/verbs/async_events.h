// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace tern::verbs {

// What a device tells of itself, its ports, queues and queue pairs.
struct DeviceNews {
    ibv_event_type type = IBV_EVENT_DEVICE_FATAL;
    const void* queue = nullptr;  // of a completion or shared receive queue: which. Not to be used
    uint32_t qp_num = 0;          // of a queue pair
    int port = 0;                 // of a port
};

// The asynchronous events of an open device, for all interfaces that share it: whoever looks takes
// them off the device, and everybody gets them. For any thread. Control path.
class AsyncEvents {
  public:
    explicit AsyncEvents(ibv_context* context);
    AsyncEvents(const AsyncEvents&) = delete;
    AsyncEvents& operator=(const AsyncEvents&) = delete;

    // Readable when the device has something to tell.
    int device_fd() const { return context_->async_fd; }

    // Of one interface, from its creation on.
    class Inbox {
      public:
        explicit Inbox(AsyncEvents& events);
        ~Inbox();
        Inbox(const Inbox&) = delete;
        Inbox& operator=(const Inbox&) = delete;

        int device_fd() const { return events_.device_fd(); }
        // Readable when somebody else has taken something off the device. -1: there is none.
        int fd() const { return fd_; }
        // The oldest that was not taken yet; a system call.
        std::optional<DeviceNews> take();

      private:
        friend AsyncEvents;
        AsyncEvents& events_;
        int fd_;
        std::deque<DeviceNews> news_;  // under the mutex of `events_`
    };

  private:
    void read();

    ibv_context* context_;
    bool readable_;  // without waiting
    std::mutex mutex_;
    std::vector<Inbox*> inboxes_;
};

}  // namespace tern::verbs
