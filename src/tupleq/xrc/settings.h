// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "tupleq/core/policy.h"
#include "verbs/queue_pair.h"

namespace tern {

struct TupleQSettings {
    uint32_t tuples = 0;   // bound at a time, at most, in each direction; 0: none ever
    uint32_t depth = 16;   // receives granted at a time for each, a power of two
    uint32_t sends = 256;  // under way to a node at a time
    uint32_t inline_bytes = 128;
    uint32_t copy_most = 8192;  // bytes of a message that is copied to be sent
    TuplePolicy::Limits policy;
    verbs::RetrySettings retry;

    // Entries of the completion queue that so many links, and all tuples, need. A queue that is
    // thrown away may leave as many completions behind as it had receives, and the next one in its
    // place has its own.
    uint64_t completions(uint32_t links) const;
    // The same, but no more than the device holds: with that, no queue overflows. No tuples: it
    // holds none.
    TupleQSettings within(const ibv_device_attr& device) const;
};

}  // namespace tern
