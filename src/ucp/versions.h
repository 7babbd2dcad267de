/* SPDX-License-Identifier: BSD-3-Clause */
/* UCP's private headers, which are C, and the differences between its releases. docs/ucp.md lists the steps of a port.
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

/* 1. In 1.13, a protocol has one function, init, that fills in a table of times. Later releases have probe, which
 *    adds protocols with their times to a list. */
#define TERN_UCP_PROBES TERN_UCX_SINCE(18)

/* 2. The transport's endpoint of a lane. */
static inline uct_ep_h tern_lane(ucp_ep_h ep, ucp_lane_index_t lane) {
#if TERN_UCP_PROBES
    return ucp_ep_get_lane(ep, lane);
#else
    return ep->uct_eps[lane];
#endif
}

#if TERN_UCP_PROBES
/* 3. Adds times to a range of lengths. */
static inline ucs_status_t tern_add_times(ucp_proto_perf_t *perf, size_t start, size_t end,
                                          const ucp_proto_perf_factors_t times, const char *name) {
#if TERN_UCX_SINCE(22)
    return ucp_proto_perf_add_funcs(perf, start, end, times, ucp_proto_perf_node_new_data(name, ""), NULL);
#else
    return ucp_proto_perf_add_funcs(perf, start, end, times, NULL, name, "");
#endif
}
#endif

#endif
