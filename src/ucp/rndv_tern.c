/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucp/rndv_tern.h"

#include "ucp/install.h"

#define MOST_RANGES 8

static ucp_proto_t rndv_tern;
static const ucp_proto_t *original;
static const struct tern_transport *tern;

/* Checked with the first worker, before the first request: no worker exists when the plug-in is installed. */
static enum { UNCHECKED, FITS, MISFIT } layout;

static int layout_fits(ucp_worker_h worker) {
    char text[128];

    if (layout == UNCHECKED) {
        const char *misfit = install_request_misfit(worker, text, sizeof(text));
        layout = misfit == NULL ? FITS : MISFIT;
        if (misfit != NULL) ucs_info("tern: UCP keeps its own protocols: %s", misfit);
    }
    return layout == FITS;
}

/* The times of Tern's interface, if the protocol uses one lane and that lane is Tern's. Returns their number or 0. */
static unsigned fetch_ranges(ucp_worker_h worker, const ucp_ep_config_key_t *config,
                             const ucp_proto_rndv_bulk_priv_t *priv, struct tern_fetch_range *ranges) {
    const ucp_worker_iface_t *wiface;

    if (!layout_fits(worker) || priv->mpriv.num_lanes != 1) return 0;
    wiface = ucp_worker_iface(worker, config->lanes[priv->mpriv.lanes[0].super.lane].rsc_index);
    if (wiface == NULL || wiface->iface->ops.ep_get_zcopy != tern->get_zcopy) return 0;
    return tern->fetch_ranges(wiface->iface, ranges, MOST_RANGES);
}

#if TERN_UCP_PROBES

/* One message waits for everything, many wait only for what cannot overlap. */
static ucs_status_t add_range(ucp_proto_perf_t *perf, size_t start, const struct tern_fetch_range *range) {
    ucp_proto_perf_factors_t times = UCP_PROTO_PERF_FACTORS_INITIALIZER;

    times[UCP_PROTO_PERF_FACTOR_LATENCY] = ucs_linear_func_make(range->latency, 0);
    times[UCP_PROTO_PERF_FACTOR_LOCAL_TL] = ucs_linear_func_make(range->fixed, range->per_byte);
    return tern_add_times(perf, start, range->upto, times, range->scheme);
}

static ucs_status_t make_times(size_t start, const struct tern_fetch_range *ranges, unsigned count, int many,
                               ucp_proto_perf_t **perf, ucp_proto_flat_perf_t **flat) {
    ucs_status_t status = ucp_proto_perf_create(rndv_tern.name, perf);
    unsigned i;

    if (status != UCS_OK) return status;
    for (i = 0; i < count && status == UCS_OK; ++i) {
        if (ranges[i].upto < start) continue;
        status = add_range(*perf, start, &ranges[i]);
        start = ranges[i].upto + 1;
    }
    if (status == UCS_OK)
        status = many ? ucp_proto_perf_envelope(*perf, 0, flat) : ucp_proto_perf_sum(*perf, flat);
    if (status != UCS_OK) ucp_proto_perf_destroy(*perf);
    return status;
}

/* Replaces the times of a protocol that UCP has just added. If there is no memory for them, the old ones stay. */
static void set_times(const ucp_proto_init_params_t *params, ucp_proto_init_elem_t *element) {
    const uint32_t attributes = ucp_proto_select_op_attr_unpack(params->select_param->op_attr);
    const void *priv = &ucs_array_elem(&params->ctx->priv_buf, element->priv_offset);
    struct tern_fetch_range ranges[MOST_RANGES];
    const unsigned count = fetch_ranges(params->worker, params->ep_config_key, priv, ranges);
    const ucp_proto_perf_segment_t *first = ucp_proto_perf_find_segment_lb(element->perf, 0);
    ucp_proto_flat_perf_t *flat;
    ucp_proto_perf_t *perf;

    if (count == 0 || first == NULL) return;
    if (make_times(ucp_proto_perf_segment_start(first), ranges, count,
                   (attributes & UCP_OP_ATTR_FLAG_MULTI_SEND) != 0, &perf, &flat) != UCS_OK)
        return;
    ucp_proto_flat_perf_destroy(element->flat_perf);
    ucp_proto_perf_destroy(element->perf);
    element->perf = perf;
    element->flat_perf = flat;
}

static void probe(const ucp_proto_init_params_t *params) {
    unsigned i = ucs_array_length(&params->ctx->protocols);

    original->probe(params);
    for (; i < ucs_array_length(&params->ctx->protocols); ++i)
        set_times(params, &ucs_array_elem(&params->ctx->protocols, i));
}

#else

static ucs_status_t init(const ucp_proto_init_params_t *params) {
    struct tern_fetch_range ranges[MOST_RANGES];
    ucp_proto_caps_t *caps = params->caps;
    const ucs_status_t status = original->init(params);
    unsigned count;
    unsigned i;

    if (status != UCS_OK) return status;
    count = fetch_ranges(params->worker, params->ep_config_key, params->priv, ranges);
    if (count == 0) return UCS_OK;
    caps->num_ranges = count;
    for (i = 0; i < count; ++i) {
        /* One message waits for everything, many wait only for what cannot overlap. */
        caps->ranges[i].name = ranges[i].scheme;
        caps->ranges[i].max_length = ranges[i].upto;
        caps->ranges[i].perf[UCP_PROTO_PERF_TYPE_SINGLE] =
            ucs_linear_func_make(ranges[i].latency + ranges[i].fixed, ranges[i].per_byte);
        caps->ranges[i].perf[UCP_PROTO_PERF_TYPE_MULTI] =
            ucs_linear_func_make(ranges[i].fixed, ranges[i].per_byte);
    }
    return UCS_OK;
}

#endif

/* UCX's tables show one row for each scheme, whatever the number of ranges. */
static void query(const ucp_proto_query_params_t *params, ucp_proto_query_attr_t *attributes) {
    struct tern_fetch_range ranges[MOST_RANGES];
    unsigned count;
    unsigned i = 0;

    original->query(params, attributes);
    count = fetch_ranges(params->worker, params->ep_config_key, params->priv, ranges);
    if (count == 0) return;
    while (i + 1 < count && ranges[i].upto < params->msg_length) ++i;
    ucs_snprintf_safe(attributes->desc, sizeof(attributes->desc), "%s read from remote", ranges[i].scheme);
    while (i + 1 < count && strcmp(ranges[i].scheme, ranges[i + 1].scheme) == 0) ++i;
    attributes->max_msg_length = ucs_min(attributes->max_msg_length, ranges[i].upto);
}

/* The endpoint on which one get fetches the whole message; null: another transport's, or the message is cut, or nobody
 * waits for an acknowledgement. */
static uct_ep_h only_endpoint(const ucp_request_t *req) {
    const ucp_proto_rndv_bulk_priv_t *priv = req->send.proto_config->priv;
    uct_ep_h ep;

    if (layout != FITS) return NULL;
    if (priv->mpriv.num_lanes != 1 || priv->super.lane == UCP_NULL_LANE || req->send.state.dt_iter.offset != 0 ||
        (req->flags & UCP_REQUEST_FLAG_RNDV_FRAG) || req->send.rndv.remote_req_id == UCS_PTR_MAP_KEY_INVALID)
        return NULL;
    ep = tern_lane(req->send.ep, priv->mpriv.lanes[0].super.lane);
    return ep->iface->ops.ep_get_zcopy == tern->get_zcopy ? ep : NULL;
}

/* The address of a message that has been asked for is not needed any more, and is never 0. */
static void set_acknowledged(ucp_request_t *req) { req->send.rndv.remote_address = 0; }
static int is_acknowledged(const ucp_request_t *req) { return req->send.rndv.remote_address == 0; }

/* A get of Tern never ends within the call, so a request whose acknowledgement was taken still exists. */
static ucs_status_t fetch(uct_pending_req_t *self) {
    ucp_request_t *req = ucs_container_of(self, ucp_request_t, send.uct);
    uct_ep_h ep = only_endpoint(req);
    ucp_rndv_ack_hdr_t ack;
    uct_iface_h iface;
    ucs_status_t status;

    if (ep == NULL) return original->progress[0](self);
    iface = ep->iface;
    ucp_proto_rndv_pack_ack(req, &ack, req->send.state.dt_iter.length);
    tern->offer_reply(ep, UCP_AM_ID_RNDV_ATS, &ack, sizeof(ack), req->send.state.dt_iter.length);
    status = original->progress[0](self);
    if (tern->reply_taken(iface)) set_acknowledged(req);
    return status;
}

/* Where the fetch has failed, the last frame has not carried the acknowledgement. */
static ucs_status_t acknowledge(uct_pending_req_t *self) {
    ucp_request_t *req = ucs_container_of(self, ucp_request_t, send.uct);

    if (!is_acknowledged(req) || req->send.state.uct_comp.status != UCS_OK) return original->progress[1](self);
#if TERN_UCP_PROBES
    return ucp_proto_rndv_ats_complete(req);
#else
    return ucp_proto_rndv_recv_complete(req);
#endif
}

const ucp_proto_t *rndv_tern_make(const ucp_proto_t *get_zcopy, const struct tern_transport *transport) {
    original = get_zcopy;
    tern = transport;
    rndv_tern = *get_zcopy;
    rndv_tern.name = "rndv/tern";
#if TERN_UCP_PROBES
    rndv_tern.probe = probe;
#else
    rndv_tern.init = init;
#endif
    rndv_tern.query = query;
    rndv_tern.progress[0] = fetch;
    rndv_tern.progress[1] = acknowledge;
    return &rndv_tern;
}

#if !TERN_UCP_PROBES

static void query_announcing(const ucp_proto_query_params_t *params, ucp_proto_query_attr_t *attributes) {
    const ucp_proto_rndv_ctrl_priv_t *priv = params->priv;
    ucp_proto_query_attr_t remote;

    ucp_proto_rndv_rts_query(params, attributes);
    ucp_proto_select_elem_query(params->worker, &priv->remote_proto, params->msg_length, &remote);
    attributes->max_msg_length = remote.max_msg_length;
}

void rndv_tern_show_ranges(ucp_proto_t *copy, const ucp_proto_t *announcing) {
    *copy = *announcing;
    copy->query = query_announcing;
}

#endif
