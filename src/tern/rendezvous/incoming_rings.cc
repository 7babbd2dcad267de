// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/incoming_rings.h"

#include <random>

namespace tern {

IncomingRings::IncomingRings(ibv_pd* pd, const TransferMemory& memory,
                             const RendezvousSettings& settings, ProgressBudget& budget)
    : pool_(pd, settings.ring_slots(), settings.most_rings(),
            [&memory](uint64_t bytes) { return memory.make_room(bytes); }),
      budget_(budget),
      generation_(std::random_device()()) {}

void IncomingRings::prepare_for_writes(Incoming& transfer) {
    if (transfer.ring.slots != 0) pool_.prepare_flags(transfer.ring);
    transfer.generation = ++generation_ & WireRing::kGeneration;
}

}  // namespace tern
