// SPDX-License-Identifier: BSD-3-Clause
// A simulation of table 2 of the Veloblock paper: the share of messages that find room on the fast
// path, by the memory of a channel.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/series/figure.h"

namespace bench {

// The result depends on the arguments alone. Throws Failure if a block damages a frame.
std::vector<Figure> run_fastpath(uint64_t seed, bool quick);

constexpr const char* kFastpathNotes =
    "One sender, one receiver. Of ten messages one is too long for a fast path, the others "
    "have 8 B to 8 KiB, as\n"
    "many in each doubling. The receiver takes a whole burst at once; after every other burst "
    "it sends a message\n"
    "back, which brings credit, and otherwise reports credit when a quarter of the room is "
    "free. A message that\n"
    "finds no room takes the other path. Veloblock is the transport's own code. \"paper\" is "
    "AMG2006, refinement 3,\n"
    "where the reduced design has 32 KiB in all.\n";

}  // namespace bench
