// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes and messages that wait for the timing model. The receiving process can place their
// packets, too, because data must arrive even if the sender computes.
#pragma once

#include <cstdint>

namespace softhca {

class Adapter;
class Host;
struct Faults;
struct InboundWrite;
struct ProcessSlot;
struct QpShared;

// Whether no fault acts on data: with a fault, the receiver gets no more writes, and places only
// committed ones.
bool receiver_may_place(const Faults& faults);
// Locks the entry if it is free or its owner has died.
bool try_lock(Host& host, InboundWrite& write);
// Frees the entry and its lock, which the caller holds.
void unlock_and_free(ProcessSlot& process, InboundWrite& write);

// In virtual time: a packet arrives at the process then.
void note_inbound(uint32_t receiver, uint64_t due);

// Places what has arrived by `now` (ns) of a write to process `owner`, and frees its lock, which
// the caller holds. Whether all of it is placed now.
bool place_and_unlock(Adapter& adapter, uint32_t owner, InboundWrite& write, uint64_t now);
// Places packets of writes to this process's memory that have arrived by `now` (ns), except for
// those that somebody else is placing.
void place_inbound_writes(Adapter& adapter, uint64_t now);
// Places the messages whose completions are written, and the writes before them, that have arrived
// by `now`. Waits for those that somebody else is placing: when it returns, their bytes are in
// memory.
void settle_inbound_writes(Adapter& adapter, uint64_t now);
// When a queue pair of this process is reset: forgets the writes to it that its peer has left, and,
// with its completions, the messages to it.
void drop_inbound(Host& host, uint32_t qp_number, bool messages);
// Under the lock of a queue pair: forgets the message whose sender died before it had written the
// completion of the claimed receive.
void drop_message_of_claim(Host& host, const QpShared& qp);

}  // namespace softhca
