// SPDX-License-Identifier: BSD-3-Clause
// Notifies the owner of an object: sets a bit in the object, sets a bit in the owner's table of
// dirty objects, and rings the owner's doorbell. Each step may be repeated, so a death between them
// does no harm.
#pragma once

#include <cstdint>

#include "softhca/fabric/host.h"

namespace softhca {

class Adapter;

// `number`: of the object. `flags`: Notice bits. The caller holds an AccessGuard on another owner.
void raise_cq_notice(Host& host, CqShared& cq, uint32_t number, uint32_t flags);
void raise_qp_notice(Host& host, QpShared& qp, uint32_t number, uint32_t flags);
void raise_srq_notice(Host& host, SrqShared& srq, uint32_t number, uint32_t flags);

// Like raise_cq_notice(), but delivers an event of this process's own queue at once.
void notify_cq(Adapter& adapter, CqShared& cq, uint32_t number, uint32_t flags);

}  // namespace softhca
