// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes that wait for the timing model. The receiving process can place their packets, too,
// because data must arrive even if the sender computes.
#pragma once

#include <cstdint>

namespace softhca {

class Adapter;
struct Faults;
struct InboundWrite;
struct ProcessSlot;

/// Whether no fault acts on data: with a fault, only the sender places.
bool receiver_may_place(const Faults& faults);
/// Frees the entry and its lock, which the caller holds.
void unlock_and_free(ProcessSlot& process, InboundWrite& write);

/// Places packets of writes to this process's memory that have arrived by `now` (ns), except for
/// those that somebody else is placing.
void place_inbound_writes(Adapter& adapter, uint64_t now);
/// The same, but waits for those: when it returns, everything that arrived by `now` in front of a
/// send is in memory.
void settle_inbound_writes(Adapter& adapter, uint64_t now);

}  // namespace softhca
