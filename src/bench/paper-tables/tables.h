// SPDX-License-Identifier: BSD-3-Clause
// Results of three papers, as simulations.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/report/figure.h"

namespace paper_tables {

// Table 2 of the Veloblock paper: the share of messages that find room on the fast path, by the
// memory of a channel. The result depends on the arguments alone. Throws report::Failure if a block
// damages a frame.
std::vector<report::Figure> run_fastpath(uint64_t seed, bool quick);

// Section 5 and figure 6 of the superpipeline paper: the protocol without a rendezvous, and how
// much it depends on C_0 and q. The transport's own ChunkSource, Schedule and RingReader move a
// message in simulated time. Throws report::Failure if a message is not read as it was sent.
std::vector<report::Figure> run_superpipeline();

// Table 1 and section 4 of the pinning paper: what pinning costs a message on its processors, and
// what is left of that behind the wire, by the transport's own cost model.
std::vector<report::Figure> run_pinning();

}  // namespace paper_tables
