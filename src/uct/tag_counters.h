// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

/// What the tag interface has done.
struct TagCounters {
    uint64_t posted = 0;        ///< receives
    uint64_t wildcards = 0;     ///< of these; receives with another mask than most have
    uint64_t refused = 0;       ///< receives for which there was no room
    uint64_t canceled = 0;      ///< receives
    uint64_t matched = 0;       ///< messages that came whole
    uint64_t unexpected = 0;    ///< the same, without a receive
    uint64_t truncated = 0;     ///< messages of any kind that were too long for their receive
    uint64_t rndv_matched = 0;  ///< requests to send
    uint64_t rndv_unexpected = 0;
    uint64_t software_matched = 0;  ///< requests that UCX sees to
    uint64_t software_unexpected = 0;
    uint64_t eager_sent = 0;
    uint64_t rndv_sent = 0;
    uint64_t rndv_canceled = 0;  ///< of those, by the sender
    uint64_t software_sent = 0;
};

}  // namespace tern
