// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes that wait for the timing model. The receiving process can place their packets, too,
// because data must arrive even if the sender computes.
#pragma once

#include <cstdint>

namespace softhca {

class Adapter;
class Host;
struct Faults;
struct InboundWrite;
struct ProcessSlot;

// Whether no fault acts on data: with a fault, the receiver gets no more writes, and places only
// committed ones.
bool receiver_may_place(const Faults& faults);
// Locks the entry if it is free or its owner has died.
bool try_lock(Host& host, InboundWrite& write);
// Frees the entry and its lock, which the caller holds.
void unlock_and_free(ProcessSlot& process, InboundWrite& write);

// Places packets of writes to this process's memory that have arrived by `now` (ns), except for
// those that somebody else is placing.
void place_inbound_writes(Adapter& adapter, uint64_t now);
// When the next packet arrives at a process after `now`; InboundWrite::kNotDue: none waits.
uint64_t next_inbound_after(const ProcessSlot& process, uint64_t now);
// Places the writes that a send has overtaken and that have arrived by `now`. Waits for those that
// somebody else is placing: when it returns, their bytes are in memory.
void settle_inbound_writes(Adapter& adapter, uint64_t now);
// When a queue pair of this process is reset: forgets the writes to it that its peer has left.
void drop_abandoned_writes(Host& host, uint32_t qp_number);

}  // namespace softhca
