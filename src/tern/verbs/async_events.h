// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace tern::verbs {

// An asynchronous event of a device, its ports, queues or queue pairs.
struct DeviceEvent {
    ibv_event_type type = IBV_EVENT_DEVICE_FATAL;
    uint32_t qp_num = 0;  // of a queue pair
    // The context of a queue or queue pair. An event may be read after its object is destroyed, and
    // another one has its address or number: only next_identity() tells them apart.
    const void* identity = nullptr;
    int port = 0;  // of a port
};

// A context for a queue or queue pair that no other object of this process has had. Any thread.
void* next_identity();

// The asynchronous events of an open device, for all interfaces that share it: the interface that
// reads an event puts it into all inboxes. For any thread. Control path.
class AsyncEvents {
  public:
    explicit AsyncEvents(ibv_context* context);
    AsyncEvents(const AsyncEvents&) = delete;
    AsyncEvents& operator=(const AsyncEvents&) = delete;

    // Readable when the device has an event.
    int device_fd() const { return context_->async_fd; }

    // The events of one interface.
    class Inbox {
      public:
        explicit Inbox(AsyncEvents& events);
        ~Inbox();
        Inbox(const Inbox&) = delete;
        Inbox& operator=(const Inbox&) = delete;

        int device_fd() const { return events_.device_fd(); }
        // Readable while the inbox has events, read by any interface. -1: there is no descriptor.
        int fd() const { return fd_; }
        // Takes the oldest event, if any. Makes a system call.
        std::optional<DeviceEvent> take();

      private:
        friend AsyncEvents;
        AsyncEvents& events_;
        int fd_;
        std::deque<DeviceEvent> pending_;  // under the mutex of `events_`
    };

  private:
    void read();

    ibv_context* context_;
    bool readable_;  // without blocking
    std::mutex mutex_;
    std::vector<Inbox*> inboxes_;
};

}  // namespace tern::verbs
