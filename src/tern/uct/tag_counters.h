// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Counts of the tag interface's work.
struct TagCounters {
    uint64_t posted = 0;        // receives
    uint64_t wildcards = 0;     // of these, with another mask than the key's
    uint64_t refused = 0;       // receives for which there was no room
    uint64_t canceled = 0;      // receives
    uint64_t matched = 0;       // eager messages that found a receive
    uint64_t unexpected = 0;    // eager messages that found none
    uint64_t truncated = 0;     // messages of any kind longer than their receive
    uint64_t rndv_matched = 0;  // requests to send that found a receive
    uint64_t rndv_unexpected = 0;
    uint64_t software_matched = 0;  // requests that UCX handles in software
    uint64_t software_unexpected = 0;
    uint64_t eager_sent = 0;
    uint64_t rndv_sent = 0;
    uint64_t rndv_canceled = 0;  // of these, canceled by the sender
    uint64_t software_sent = 0;
};

}  // namespace tern
