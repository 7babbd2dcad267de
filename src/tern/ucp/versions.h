/* SPDX-License-Identifier: BSD-3-Clause */
/* UCP's private headers, which are C, and the differences between its releases. docs/tern/ucp.md lists the steps of a
 * port.
 */
#ifndef TERN_UCP_VERSIONS_H_
#define TERN_UCP_VERSIONS_H_

#ifndef HAVE_CONFIG_H
#error "UCX's headers need HAVE_CONFIG_H, or they do not read the configuration of the installed UCX"
#endif
#include <config.h>

#include <ucp/api/ucp_version.h>
#include <ucp/proto/proto_debug.h>
#include <ucp/proto/proto_init.h>
#include <ucp/core/ucp_ep.inl>
#include <ucp/core/ucp_worker.inl>
#include <ucp/rndv/proto_rndv.inl>

#ifndef UCX_CONFIG_H
#error "UCX's headers have read a config.h that is not UCX's"
#endif

/* Whether this is built for UCX 1.minor or later. */
#define TERN_UCX_SINCE(minor) (UCP_API_MAJOR > 1 || UCP_API_MINOR >= (minor))

/* 1. Up to 1.17, a protocol has one function, init, that fills in a table of times. Later releases have probe, which
 *    adds protocols with their times to a list. */
#define TERN_UCP_PROBES TERN_UCX_SINCE(18)

/* 2. The transport's endpoint of a lane. */
static inline uct_ep_h tern_lane(ucp_ep_h ep, ucp_lane_index_t lane) {
#if TERN_UCX_SINCE(16)
    return ucp_ep_get_lane(ep, lane);
#else
    return ep->uct_eps[lane];
#endif
}

#if TERN_UCP_PROBES

/* 3. Adds times to a range of lengths. */
static inline ucs_status_t tern_add_times(ucp_proto_perf_t *perf, size_t start, size_t end,
                                          const ucp_proto_perf_factors_t times, const char *name) {
#if TERN_UCX_SINCE(19)
    return ucp_proto_perf_add_funcs(perf, start, end, times, ucp_proto_perf_node_new_data(name, ""), NULL);
#else
    return ucp_proto_perf_add_funcs(perf, start, end, times, NULL, name, "");
#endif
}

#else

/* 4. Empties a table of times. From 1.16 on, a range has in place of a name a node, by which UCX shows what its times
 *    consist of. */
static inline void tern_clear_ranges(ucp_proto_caps_t *caps) {
#if TERN_UCX_SINCE(16)
    unsigned i;

    for (i = 0; i < caps->num_ranges; ++i) ucp_proto_perf_node_deref(&caps->ranges[i].node);
#endif
    caps->num_ranges = 0;
}

/* Adds a range. From 1.16 on, UCP also asks for the part of the processor, and adds it to the processor's times of the
 * messages before. It is 0 here, as with later releases: the other two contain it. */
static inline void tern_add_range(ucp_proto_caps_t *caps, size_t end, ucs_linear_func_t single, ucs_linear_func_t multi,
                                  const char *name) {
    ucp_proto_perf_range_t *range = &caps->ranges[caps->num_ranges++];

    range->max_length = end;
    range->perf[UCP_PROTO_PERF_TYPE_SINGLE] = single;
    range->perf[UCP_PROTO_PERF_TYPE_MULTI] = multi;
#if TERN_UCX_SINCE(16)
    range->perf[UCP_PROTO_PERF_TYPE_CPU] = ucs_linear_func_make(0, 0);
    range->node = ucp_proto_perf_node_new_data(name, "");
    ucp_proto_perf_range_add_data(range);
#else
    range->name = name;
#endif
}

#endif

#if TERN_UCX_SINCE(16)

/* 5. From which length on the user's settings, or a fixed threshold for sends with fast completion, ask for a
 *    rendezvous. 1.16 has this function for itself, and 1.13 no fixed threshold. */
static inline size_t tern_rndv_thresh(const ucp_proto_init_params_t *params) {
#if TERN_UCX_SINCE(17)
    return ucp_proto_rndv_thresh(params);
#else
    const ucp_context_config_t *config = &params->worker->context->config.ext;
    const unsigned fast = UCP_OP_ATTR_FLAG_FAST_CMPL / UCP_PROTO_SELECT_OP_ATTR_BASE;

    if (config->rndv_thresh == UCS_MEMUNITS_AUTO && (params->select_param->op_attr & fast) != 0)
        return config->rndv_send_nbr_thresh;
    return config->rndv_thresh;
#endif
}

#endif

#endif
