// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "engine/owner.h"

namespace tern {

// The sink for a channel that has failed: only reports completions. (For sinks see Engine.)
struct CompletionSink {
    EngineOwner& owner;

    void completed(void* cookie, Status status) const { owner.completed(cookie, status); }
    static void message(uint32_t, const void*, uint32_t) {}
    static bool tagged(Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
};

}  // namespace tern
