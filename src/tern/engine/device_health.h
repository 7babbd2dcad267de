// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "tern/engine/parts.h"
#include "tern/verbs/async_events.h"

namespace tern {

class Batches;

// The device's asynchronous events, and its end. Control path.
class DeviceHealth {
  public:
    explicit DeviceHealth(const EngineParts& parts);

    bool has_failed() const { return failed_; }
    // Handles the events that have come. False: there were none.
    bool take_events();
    // Ends all channels at once and for good, since the device has failed: its queues report no
    // more completions.
    void break_down(const std::string& why);

    // For the sleeper: readable when there are events; -1: there is no such descriptor.
    int device_fd() const { return events_ != nullptr ? events_->device_fd() : -1; }
    int inbox_fd() const { return events_ != nullptr ? events_->fd() : -1; }

  private:
    void on_device_event(const verbs::DeviceEvent& event);
    void on_queue_pair_event(const verbs::DeviceEvent& event, const std::string& what);

    verbs::AsyncEvents::Inbox* events_;  // null: the device has none
    // Events of another queue or port are not for this interface.
    const ibv_cq* cq_;
    const ibv_srq* srq_;
    int port_;
    Connector& connector_;
    CompletionPoller& completions_;
    Batches& batches_;
    EngineOwner& owner_;
    bool failed_ = false;
};

}  // namespace tern
