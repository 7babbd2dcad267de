// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging: regions whose pages the device maps when it first uses them. A device keeps a
// page table of its own, from which the kernel takes pages that the process loses.
#pragma once

#include <cstdint>
#include <optional>

#include "softhca/transport/execute.h"

namespace softhca {

// Whether the device accesses the memory of `key` for the transport of this queue pair.
bool pages_for(Qp& qp, const KeyEntry& key);

// Whether a work request names a region of this kind, at either end.
bool names_paged_region(Host& host, const Wqe& wqe);

// Faults in the local pages of a work request. Nothing if the device has them; otherwise the
// outcome for now.
std::optional<Outcome> fault_local(Qp& qp, Wqe& wqe);

// Faults in the responder's pages [address, address + length) of process `slot`, of the region of
// `key`. The responder refuses the request as if it had no receive.
std::optional<Outcome> fault_remote(Qp& qp, Wqe& wqe, const Target& target, const KeyEntry& key,
                                    uint64_t address, uint64_t length);
// Faults in the pages of a receive.
std::optional<Outcome> fault_receive(Qp& qp, Wqe& wqe, const Target& target,
                                     const RecvWqe& receive);

}  // namespace softhca
