// SPDX-License-Identifier: BSD-3-Clause
// Posting by calls (ibv_wr_*), and what it shares with the other queue-pair verbs.
#pragma once

#include "verbs/objects.h"

namespace softhca {

/// Whether a queue pair of the type can have all these operations (IBV_QP_EX_WITH_* bits).
bool send_ops_supported(ibv_qp_type type, uint64_t operations);
void add_send_ops(QpObject& object, uint64_t operations);

/// The queue pair in the fabric, of an opened one in its owner's process; nullptr when that is
/// gone.
QpShared* shared_part(QpObject& object);

/// Puts the binding of a window into a work request. 0 or EINVAL.
int fill_bind(Wqe& wqe, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info);

/// Whether the transport has the operation.
bool transport_has(QpType type, WrOpcode opcode);

}  // namespace softhca
