// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tern/rendezvous/refusals.h"
#include "tern/rendezvous/transfer_accounts.h"

namespace tern {

// The objects of a rendezvous that its incoming and outgoing transfers use. They outlive both.
struct RendezvousParts {
    Engine& engine;
    TransferMemory& memory;
    TransferAccounts& accounts;
    Refusals& refusals;
    Decider& decider;
    const RendezvousSettings& settings;
    RendezvousCounters& counters;
    ProgressBudget& budget;
    RendezvousOwner& owner;
};

}  // namespace tern
