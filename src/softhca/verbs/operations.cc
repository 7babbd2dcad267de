// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/verbs/operations.h"

namespace softhca {

void fill_operations(verbs_context& verbs) {
    verbs.sz = sizeof verbs;
    verbs.query_port = query_port;
    verbs.query_device_ex = query_device_ex;
    verbs.query_rt_values = query_rt_values;
    verbs.create_cq_ex = create_cq_ex;
    verbs.modify_cq = modify_cq;
    verbs.create_qp_ex = create_qp_ex;
    verbs.open_qp = open_qp;
    verbs.create_srq_ex = create_srq_ex;
    verbs.get_srq_num = get_srq_num;
    verbs.open_xrcd = open_xrcd;
    verbs.close_xrcd = close_xrcd;
    verbs.alloc_td = alloc_td;
    verbs.dealloc_td = dealloc_td;
    verbs.alloc_parent_domain = alloc_parent_domain;
    verbs.alloc_dm = alloc_dm;
    verbs.free_dm = free_dm;
    verbs.reg_dm_mr = reg_dm_mr;
    verbs.alloc_null_mr = alloc_null_mr;

    ibv_context_ops& ops = verbs.context.ops;
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = req_notify_cq;
    ops.post_srq_recv = post_srq_recv;
    ops.post_send = post_send;
    ops.post_recv = post_recv;
    ops.alloc_mw = alloc_mw;
    ops.dealloc_mw = dealloc_mw;
    ops.bind_mw = bind_mw;
}

}  // namespace softhca
