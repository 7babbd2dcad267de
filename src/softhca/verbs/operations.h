// SPDX-License-Identifier: BSD-3-Clause
// The entry points that programs reach through a context's tables, not by name.
#pragma once

#include "softhca/core/personality.h"
#include "softhca/verbs/export.h"

namespace softhca {

// Sets the operations that the personality has; programs find that the others are not supported.
void fill_operations(verbs_context& verbs, const Personality& personality);

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attributes);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int get_srq_num(ibv_srq* srq, uint32_t* number);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes);
int close_xrcd(ibv_xrcd* xrcd);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attributes);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned int access);
ibv_mr* alloc_null_mr(ibv_pd* pd);

}  // namespace softhca
