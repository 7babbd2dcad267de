// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/tupleq/core/action.h"
#include "tern/tupleq/xrc/link_table.h"
#include "tern/tupleq/xrc/queues.h"

namespace tern {

// Drains: empty messages that this process sends to its own queues. An entry can only leave a queue
// by a message.
class Drains {
  public:
    Drains(LinkTable& links, XrcQueues& queues) : links_(links), queues_(queues) {}

    enum class Result : uint8_t { kDone, kNoRoom, kFailed };
    // Sends the drains of a kDrain action; the action's count is decremented with each.
    Result send(TupleAction& action);

    // What the completion of a drain means for its queue.
    enum class Fate : uint8_t {
        kNothing,  // it has arrived, or its queue is gone
        kAgain,    // not executed: send it again, over a new link
        kLost,     // the queue cannot be drained
    };
    struct Outcome {
        Fate fate = Fate::kNothing;
        uint16_t queue = 0;
    };
    // The drain was taken from its link. May destroy the link.
    Outcome on_sent(XrcLink& link, const void* cookie, ibv_wc_status status);

    // True while a drain is on its way to a queue that is gone. A new queue might get that queue's
    // number.
    bool any_astray() const;

  private:
    // In a drain's cookie: the queue's index, and above it the generation.
    void* cookie_of(uint16_t queue) const {
        return reinterpret_cast<void*>(uintptr_t{queues_.generation(queue)} << 16 | queue);
    }
    static uint16_t queue_of(const void* cookie) {
        return static_cast<uint16_t>(reinterpret_cast<uintptr_t>(cookie));
    }
    bool is_astray(const void* cookie) const;

    LinkTable& links_;
    XrcQueues& queues_;
};

}  // namespace tern
