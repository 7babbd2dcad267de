// SPDX-License-Identifier: BSD-3-Clause
// ibv_wr_*, and what they share with other verbs of queue pairs.
#pragma once

#include "softhca/verbs/objects.h"

namespace softhca {

// Whether queue pairs of the type support all these operations (IBV_QP_EX_WITH_* bits) in
// ibv_wr_*.
bool send_ops_supported(const Personality& personality, ibv_qp_type type, uint64_t operations);
void add_send_ops(QpObject& object, uint64_t operations);

// The shared part of the queue pair, also of one that another process owns; nullptr if it is
// destroyed.
QpShared* shared_part(QpObject& object);

// Fills the work request's bind. 0 or EINVAL.
int fill_bind(Wqe& wqe, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info);

// Copies a list of elements, or inline data, into the work request. 0, or the error of the post.
int set_elements(Qp& qp, Wqe& wqe, const ibv_sge* list, size_t count);
int set_inline(Qp& qp, Wqe& wqe, const ibv_data_buf* list, size_t count);
const Personality::Errors& errors_of(Qp& qp);

// A request of so many inline bytes in blocks of 64, as an adapter of mlx5 gets it: those after the
// first one.
uint64_t further_blocks(const Qp& qp, WrOpcode opcode, uint64_t bytes);

// The operations of a transport, bit WrOpcode each.
uint32_t operations_of(const Personality& personality, QpType type);
// How the personality treats a post to the send queue in the queue pair's state.
struct Admission {
    bool queued;
    int error;  // what the post returns, even if the request is queued
};
Admission admit_send(Qp& qp);

}  // namespace softhca
