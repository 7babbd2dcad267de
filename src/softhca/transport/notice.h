// SPDX-License-Identifier: BSD-3-Clause
// Telling the owner of an object that something happened to it: a bit on the object, a bit in the
// owner's table of dirty objects, and a ring of its doorbell. Every step can be repeated, so a
// death in between loses nothing that matters.
#pragma once

#include <cstdint>

#include "fabric/host.h"

namespace softhca {

class Adapter;

void raise_cq_notice(Host& host, CqShared& cq, uint32_t number, uint32_t flags);
void raise_qp_notice(Host& host, QpShared& qp, uint32_t number, uint32_t flags);
void raise_srq_notice(Host& host, SrqShared& srq, uint32_t number, uint32_t flags);

/// raise_cq_notice(), but an event of this process's own queue is delivered at once.
void notify_cq(Adapter& adapter, CqShared& cq, uint32_t number, uint32_t flags);

/// Wakes the engine of a process.
void ring_doorbell(ProcessSlot& process);

}  // namespace softhca
