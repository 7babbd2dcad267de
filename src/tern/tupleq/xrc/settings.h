// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "tern/base/tunables.h"
#include "tern/tupleq/core/held_frames.h"
#include "tern/tupleq/core/policy.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

struct TupleQSettings {
    uint32_t tuples = 0;                  // bound at a time, at most, in each direction; 0: none
    uint32_t depth = kTunables.tm_depth;  // receives granted at a time for each tuple
    uint32_t sends = 256;                 // under way to a node at a time
    uint32_t inline_bytes = 128;
    uint32_t copy_most = 8192;  // bytes, of messages that are copied to be sent
    // ns: how long an announced message may take to come, if a receive that is to be canceled or
    // messages of other peers wait for it.
    uint64_t announced_limit = 2'000'000'000;
    bool pages_on_demand = false;  // memory is not pinned: the device faults its pages in
    HeldFrames::Limits held;
    TuplePolicy::Limits policy;
    verbs::RetrySettings retry;

    // Entries of the completion queue that all tuples and this many links need. A destroyed queue
    // may leave as many completions behind as it had receives, so each queue counts twice.
    uint64_t completions(uint32_t links) const;
    // These settings, reduced to what the device can hold, so that no queue overflows. `tuples` is
    // 0 if the device cannot hold any.
    TupleQSettings within(const ibv_device_attr& device) const;
};

}  // namespace tern
