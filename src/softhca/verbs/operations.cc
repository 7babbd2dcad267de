// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/verbs/operations.h"

namespace softhca {

void fill_operations(verbs_context& verbs, const Personality& personality) {
    verbs.sz = sizeof verbs;
    verbs.query_port = query_port;
    verbs.query_device_ex = query_device_ex;
    if (personality.has.timestamps != 0) verbs.query_rt_values = query_rt_values;
    if (personality.has.cq_ex != 0) verbs.create_cq_ex = create_cq_ex;
    if (personality.has.cq_moderation != 0) verbs.modify_cq = modify_cq;
    verbs.create_qp_ex = create_qp_ex;
    if (personality.has.srq != 0) verbs.create_srq_ex = create_srq_ex;
    if (personality.has.xrc != 0) {
        verbs.open_qp = open_qp;
        verbs.get_srq_num = get_srq_num;
        verbs.open_xrcd = open_xrcd;
        verbs.close_xrcd = close_xrcd;
    }
    if (personality.has.parent_domain != 0) {
        verbs.alloc_td = alloc_td;
        verbs.dealloc_td = dealloc_td;
        verbs.alloc_parent_domain = alloc_parent_domain;
    }
    if (personality.has.device_memory != 0) {
        verbs.alloc_dm = alloc_dm;
        verbs.free_dm = free_dm;
        verbs.reg_dm_mr = reg_dm_mr;
    }
    if (personality.has.null_mr != 0) verbs.alloc_null_mr = alloc_null_mr;

    ibv_context_ops& ops = verbs.context.ops;
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = req_notify_cq;
    ops.post_srq_recv = post_srq_recv;
    ops.post_send = post_send;
    ops.post_recv = post_recv;
    if (personality.has.windows != 0) {
        ops.alloc_mw = alloc_mw;
        ops.dealloc_mw = dealloc_mw;
        ops.bind_mw = bind_mw;
    }
}

}  // namespace softhca
