// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/connection/cookie.h"
#include "tern/engine/engine.h"
#include "tern/tupleq/core/action.h"
#include "tern/tupleq/xrc/grant_memory.h"
#include "tern/tupleq/xrc/table.h"

namespace tern {

// Takes grants back without the sender's processor: writes zero over them, and then reads the
// number that the sender has announced. Control path.
class Revoker {
  public:
    // The word that a read fills, until the read is complete.
    static constexpr uint64_t kNothingRead = ~uint64_t{0};

    Revoker(Engine& engine, GrantMemory& memory) : engine_(engine), memory_(memory) {}

    // Performs a kRevoke action, whose `place` counts the grants taken back so far. False: there is
    // no room now.
    bool post(Channel& channel, const PeerWords& words, const DirectMatcher& matcher,
              TupleAction& action);

    // What the read of a queue's sender has filled so far. Any time after post().
    uint64_t announced(uint16_t queue) const {
        return __atomic_load_n(&memory_.read_word(queue), __ATOMIC_ACQUIRE);
    }

    // The queue, and the count of its kRevoke, in the cookie of a read.
    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kRevocation; }
    static uint16_t queue_of(const void* cookie) {
        return static_cast<uint16_t>(reinterpret_cast<uintptr_t>(cookie) >> 3);
    }
    static uint32_t count_of(const void* cookie) {
        return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(cookie) >> 19);
    }

  private:
    static void* cookie_of(const TupleAction& action) {
        return make_cookie(CookieKind::kRevocation,
                           uintptr_t{action.count} << 19 | uintptr_t{action.tuple} << 3);
    }

    Engine& engine_;
    GrantMemory& memory_;
};

}  // namespace tern
