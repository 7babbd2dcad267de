/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucp/rndv_put.h"

#include "ucp/times.h"

static ucp_proto_t rndv_put;
static const ucp_proto_t *original;

/* None if several lanes may be used. The offer and the message that ends the rendezvous take two further latencies. */
static void find_times(const ucp_proto_init_params_t *params, struct times *times) {
    const ucp_ep_config_key_t *config = params->ep_config_key;
    const ucp_ep_config_key_lane_t *only = NULL;
    ucp_lane_index_t lane;
    unsigned i;

    times->count = 0;
    if (!times_check_layout(params->worker)) return;
    for (lane = 0; lane < config->num_lanes; ++lane) {
        if (!(config->lanes[lane].lane_types & UCS_BIT(UCP_LANE_TYPE_RMA_BW))) continue;
        if (only != NULL) return;
        only = &config->lanes[lane];
    }
    if (only != NULL) times_of_lane(params->worker, only, times);
    for (i = 0; i < times->count; ++i) times->ranges[i].latency *= 5.0 / 3; /* of three */
}

#if TERN_UCP_PROBES

static void probe(const ucp_proto_init_params_t *params) {
    unsigned i = ucs_array_length(&params->ctx->protocols);
    struct times times;

    original->probe(params);
    find_times(params, &times);
    for (; i < ucs_array_length(&params->ctx->protocols); ++i)
        times_set(params, &ucs_array_elem(&params->ctx->protocols, i), &times);
}

#else

static ucs_status_t init(const ucp_proto_init_params_t *params) {
    const ucs_status_t status = original->init(params);
    struct times times;

    if (status != UCS_OK) return status;
    find_times(params, &times);
    times_set(params, &times);
    return UCS_OK;
}

#endif

const ucp_proto_t *rndv_put_make(const ucp_proto_t *put_zcopy) {
    original = put_zcopy;
    rndv_put = *put_zcopy;
#if TERN_UCP_PROBES
    rndv_put.probe = probe;
#else
    rndv_put.init = init;
#endif
    return &rndv_put;
}
