/* SPDX-License-Identifier: BSD-3-Clause */
#include "tern/ucp/protocols.h"

#include "tern/ucp/times.h"

static ucp_proto_t rndv_put;
static const ucp_proto_t *original;

/* None if several lanes may be used. The offer and the message that ends the rendezvous take two further latencies. */
static void find(const ucp_proto_init_params_t *params, const void *priv, struct times *times) {
    const ucp_ep_config_key_t *config = params->ep_config_key;
    const ucp_ep_config_key_lane_t *only = NULL;
    ucp_lane_index_t lane;
    unsigned i;

    (void)priv; /* laid out in a source file of UCP */
    times->count = 0;
    if (!times_is_of_host(params) || !times_check_layout(params->worker)) return;
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
    times_probe(original, params, find);
}
#else
static ucs_status_t init(const ucp_proto_init_params_t *params) {
    return times_init_protocol(original, params, find);
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
