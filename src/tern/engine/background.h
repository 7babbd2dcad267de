// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tern/connection/connector.h"
#include "tern/engine/batches.h"
#include "tern/engine/sleep.h"

namespace tern {

// What other threads than the interface's own may do. None may call it when the engine is
// destroyed.
class Background {
  public:
    Background(Connector& connector, Sleep& sleep, Batches& batches)
        : connector_(connector), sleep_(sleep), batches_(batches) {}

    // A thread that calls answer() when the descriptor is readable answers the probes of peers, and
    // accepts connections, even if the process does not poll. Call answer() once to begin.
    int fd() const { return connector_.datagrams().event_fd(); }
    void answer() const { connector_.answer(); }
    // For a second one: see Sleep::look().
    void look() const { sleep_.look(); }
    // For a third one: see Batches::enable().
    Batches& batches() const { return batches_; }

  private:
    Connector& connector_;
    Sleep& sleep_;
    Batches& batches_;
};

}  // namespace tern
