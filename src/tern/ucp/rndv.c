/* SPDX-License-Identifier: BSD-3-Clause */
/* rndv/tern and rndv/put/zcopy, of which UCP gets the times of Tern's cost model. */
#include "tern/ucp/protocols.h"

#define TIMES_MOST 8

/* The times of one interface; none if `count` is 0. */
struct times {
    struct tern_fetch_range ranges[TIMES_MOST];
    unsigned count;
};

/* Finds the times of a protocol of which UCP has just filled in `priv`; sets `count` to 0 if UCP's are to stay. */
typedef void (*find_func_t)(const ucp_proto_init_params_t *params, const void *priv, struct times *times);

static ucp_proto_t rndv_tern;
static ucp_proto_t rndv_put;
static const ucp_proto_t *get_zcopy;
static const ucp_proto_t *put_zcopy;
static const struct tern_transport *tern;
static _Atomic enum { UNCHECKED, FITS, MISFIT } layout;

/* Compares the size of requests with that in the headers of the build, which depends on how UCX was configured. Returns
 * null, or what does not agree, in `to`. */
static const char *request_misfit(ucp_worker_h worker, char *to, size_t size) {
    ucp_context_attr_t attributes = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
    size_t pooled;

    if (ucp_context_query(worker->context, &attributes) != UCS_OK || attributes.request_size != sizeof(ucp_request_t)) {
        snprintf(to, size, "a request has %zu bytes and not %zu", attributes.request_size, sizeof(ucp_request_t));
        return to;
    }
    pooled = sizeof(ucs_mpool_elem_t) + sizeof(ucp_request_t) + worker->context->config.request.size;
    if (worker->req_mp.data->elem_size != pooled) {
        snprintf(to, size, "a worker's requests have %zu bytes and not %zu", (size_t)worker->req_mp.data->elem_size,
                 pooled);
        return to;
    }
    return NULL;
}

/* Whether requests have the layout that this library was built for; logs once if not. Checked with the first worker: no
 * worker exists when the plug-in is installed. */
static int check_layout(ucp_worker_h worker) {
    char text[128];
    const char *misfit;

    if (layout != UNCHECKED) return layout == FITS;
    misfit = request_misfit(worker, text, sizeof(text));
    layout = misfit == NULL ? FITS : MISFIT;
    if (misfit != NULL) ucs_info("tern: UCP keeps its own protocols: %s", misfit);
    return misfit == NULL;
}

/* Whether the memory of both sides is the host's. The device reads and writes other memory in place, at the rate of the
 * wire, which UCP's own times are for. */
static int is_of_host(const ucp_proto_init_params_t *params) {
    const ucp_rkey_config_key_t *remote = params->rkey_config_key;

    return params->select_param->mem_type == UCS_MEMORY_TYPE_HOST &&
           (remote == NULL || remote->mem_type == UCS_MEMORY_TYPE_HOST);
}

/* The times of a lane's interface; none if it is not Tern's. The layout must fit. */
static void times_of_lane(ucp_worker_h worker, const ucp_ep_config_key_lane_t *lane, struct times *times) {
    const ucp_worker_iface_t *wiface;

    times->count = 0;
    wiface = ucp_worker_iface(worker, lane->rsc_index);
    if (wiface == NULL || wiface->iface->ops.ep_get_zcopy != tern->get_zcopy) return;
    times->count = tern->fetch_ranges(wiface->iface, worker->context->config.ext.bcopy_bw, times->ranges, TIMES_MOST);
}

/* The range of a message. */
static const struct tern_fetch_range *times_range(const struct times *times, size_t length) {
    unsigned i = 0;

    while (i + 1 < times->count && times->ranges[i].upto < length) ++i;
    return &times->ranges[i];
}

/* Finds the times for the host's memory. */
static void find(const ucp_proto_init_params_t *params, const void *priv, find_func_t find_times, struct times *times) {
    times->count = 0;
    if (is_of_host(params) && check_layout(params->worker)) find_times(params, priv, times);
}

/* One message waits for everything, many wait only for what cannot overlap. */
#if TERN_UCP_PROBES

static ucs_status_t add_range(ucp_proto_perf_t *perf, size_t start, const struct tern_fetch_range *range) {
    ucp_proto_perf_factors_t factors = UCP_PROTO_PERF_FACTORS_INITIALIZER;

    factors[UCP_PROTO_PERF_FACTOR_LATENCY] = ucs_linear_func_make(range->latency, 0);
    factors[UCP_PROTO_PERF_FACTOR_LOCAL_TL] = ucs_linear_func_make(range->fixed, range->per_byte);
    return tern_add_times(perf, start, range->upto, factors, range->scheme);
}

static ucs_status_t make_perf(const char *name, size_t start, const struct times *times, int many,
                              ucp_proto_perf_t **perf, ucp_proto_flat_perf_t **flat) {
    ucs_status_t status = ucp_proto_perf_create(name, perf);
    unsigned i;

    if (status != UCS_OK) return status;
    for (i = 0; i < times->count && status == UCS_OK; ++i) {
        if (times->ranges[i].upto < start) continue;
        status = add_range(*perf, start, &times->ranges[i]);
        start = times->ranges[i].upto + 1;
    }
    if (status == UCS_OK) status = many ? ucp_proto_perf_envelope(*perf, 0, flat) : ucp_proto_perf_sum(*perf, flat);
    if (status != UCS_OK) ucp_proto_perf_destroy(*perf);
    return status;
}

static void set(const ucp_proto_init_params_t *params, ucp_proto_init_elem_t *element, const struct times *times) {
    const uint32_t attributes = ucp_proto_select_op_attr_unpack(params->select_param->op_attr);
    const ucp_proto_perf_segment_t *first = ucp_proto_perf_find_segment_lb(element->perf, 0);
    ucp_proto_flat_perf_t *flat;
    ucp_proto_perf_t *perf;

    if (times->count == 0 || first == NULL) return;
    if (make_perf(ucp_proto_perf_name(element->perf), ucp_proto_perf_segment_start(first), times,
                  (attributes & UCP_OP_ATTR_FLAG_MULTI_SEND) != 0, &perf, &flat) != UCS_OK)
        return;
    ucp_proto_flat_perf_destroy(element->flat_perf);
    ucp_proto_perf_destroy(element->perf);
    element->perf = perf;
    element->flat_perf = flat;
}

/* Starts the original protocol for a configuration, and replaces the times of what UCP has thereby got. If there is no
 * memory for them, the old ones stay. */
static void probe(const ucp_proto_t *original, const ucp_proto_init_params_t *params, find_func_t find_times) {
    unsigned i = ucs_array_length(&params->ctx->protocols);
    struct times times;

    original->probe(params);
    for (; i < ucs_array_length(&params->ctx->protocols); ++i) {
        ucp_proto_init_elem_t *element = &ucs_array_elem(&params->ctx->protocols, i);
        find(params, &ucs_array_elem(&params->ctx->priv_buf, element->priv_offset), find_times, &times);
        set(params, element, &times);
    }
}

#else

static void set(const ucp_proto_init_params_t *params, const struct times *times) {
    unsigned i;

    if (times->count == 0) return;
    tern_clear_ranges(params->caps);
    for (i = 0; i < times->count; ++i) {
        const struct tern_fetch_range *range = &times->ranges[i];
        tern_add_range(params->caps, range->upto, ucs_linear_func_make(range->latency + range->fixed, range->per_byte),
                       ucs_linear_func_make(range->fixed, range->per_byte), range->scheme);
    }
}

/* Starts the original protocol for a configuration, and replaces the times of what UCP has thereby got. If there is no
 * memory for them, the old ones stay. */
static ucs_status_t init(const ucp_proto_t *original, const ucp_proto_init_params_t *params, find_func_t find_times) {
    const ucs_status_t status = original->init(params);
    struct times times;

    if (status != UCS_OK) return status;
    find(params, params->priv, find_times, &times);
    set(params, &times);
    return UCS_OK;
}

#endif

/* None if the protocol uses several lanes. */
static void find_times(ucp_worker_h worker, const ucp_ep_config_key_t *config, const ucp_proto_rndv_bulk_priv_t *priv,
                       struct times *times) {
    times->count = 0;
    if (check_layout(worker) && priv->mpriv.num_lanes == 1)
        times_of_lane(worker, &config->lanes[priv->mpriv.lanes[0].super.lane], times);
}

static void find_of_get(const ucp_proto_init_params_t *params, const void *priv, struct times *times) {
    find_times(params->worker, params->ep_config_key, priv, times);
}

/* None if several lanes may be used. The offer and the message that ends the rendezvous take two further latencies. */
static void find_of_put(const ucp_proto_init_params_t *params, const void *priv, struct times *times) {
    const ucp_ep_config_key_t *config = params->ep_config_key;
    const ucp_ep_config_key_lane_t *only = NULL;
    ucp_lane_index_t lane;
    unsigned i;

    (void)priv; /* laid out in a source file of UCP */
    for (lane = 0; lane < config->num_lanes; ++lane) {
        if (!(config->lanes[lane].lane_types & UCS_BIT(UCP_LANE_TYPE_RMA_BW))) continue;
        if (only != NULL) return;
        only = &config->lanes[lane];
    }
    if (only != NULL) times_of_lane(params->worker, only, times);
    for (i = 0; i < times->count; ++i) times->ranges[i].latency *= 5.0 / 3; /* of three */
}

#if TERN_UCP_PROBES
static void probe_get(const ucp_proto_init_params_t *params) {
    probe(get_zcopy, params, find_of_get);
}
static void probe_put(const ucp_proto_init_params_t *params) {
    probe(put_zcopy, params, find_of_put);
}
#else
static ucs_status_t init_get(const ucp_proto_init_params_t *params) {
    return init(get_zcopy, params, find_of_get);
}
static ucs_status_t init_put(const ucp_proto_init_params_t *params) {
    return init(put_zcopy, params, find_of_put);
}
#endif

/* UCX's tables show one row for each scheme, whatever the number of ranges. */
static void query(const ucp_proto_query_params_t *params, ucp_proto_query_attr_t *attributes) {
    const struct tern_fetch_range *range;
    struct times times;

    get_zcopy->query(params, attributes);
    if (params->select_param->mem_type != UCS_MEMORY_TYPE_HOST) return;
    find_times(params->worker, params->ep_config_key, params->priv, &times);
    if (times.count == 0) return;
    range = times_range(&times, params->msg_length);
    ucs_snprintf_safe(attributes->desc, sizeof(attributes->desc), "%s read from remote", range->scheme);
    while (range + 1 < times.ranges + times.count && strcmp(range[0].scheme, range[1].scheme) == 0) ++range;
    attributes->max_msg_length = ucs_min(attributes->max_msg_length, range->upto);
}

/* The endpoint of the only lane; null: there are several, or it is another transport's. */
static uct_ep_h only_endpoint(const ucp_request_t *req) {
    const ucp_proto_rndv_bulk_priv_t *priv = req->send.proto_config->priv;
    uct_ep_h ep;

    if (layout != FITS || priv->mpriv.num_lanes != 1) return NULL;
    ep = tern_lane(req->send.ep, priv->mpriv.lanes[0].super.lane);
    return ep->iface->ops.ep_get_zcopy == tern->get_zcopy ? ep : NULL;
}

/* Whether one get fetches the whole message, and the sender waits for the acknowledgement. */
static int is_whole(const ucp_request_t *req) {
    const ucp_proto_rndv_bulk_priv_t *priv = req->send.proto_config->priv;

    return priv->super.lane != UCP_NULL_LANE && req->send.state.dt_iter.offset == 0 &&
           !(req->flags & UCP_REQUEST_FLAG_RNDV_FRAG) && req->send.rndv.remote_req_id != UCS_PTR_MAP_KEY_INVALID;
}

/* The address of a message that has been asked for is not needed any more, and is never 0. */
static void set_acknowledged(ucp_request_t *req) {
    req->send.rndv.remote_address = 0;
}
static int is_acknowledged(const ucp_request_t *req) {
    return req->send.rndv.remote_address == 0;
}

/* A get of Tern never ends within the call, so a request whose acknowledgement was taken still exists. */
static ucs_status_t fetch(uct_pending_req_t *self) {
    ucp_request_t *req = ucs_container_of(self, ucp_request_t, send.uct);
    uct_ep_h ep = only_endpoint(req);
    ucp_rndv_ack_hdr_t ack;
    uct_iface_h iface;
    ucs_status_t status;

    if (ep == NULL || !is_whole(req)) return get_zcopy->progress[0](self);
    iface = ep->iface;
    ucp_proto_rndv_pack_ack(req, &ack, req->send.state.dt_iter.length);
    tern->offer_reply(ep, UCP_AM_ID_RNDV_ATS, &ack, sizeof(ack), req->send.state.dt_iter.length,
                      &req->send.state.uct_comp);
    status = get_zcopy->progress[0](self);
    if (tern->reply_taken(iface)) set_acknowledged(req);
    return status;
}

#if TERN_UCX_SINCE(16)
/* UCP ends such requests before. */
static int has_failed(ucp_request_t *req) {
    (void)req;
    return 0;
}
#else
/* Whether Tern could not fetch the message. The endpoint may have lost its lanes by now. */
static int has_failed(ucp_request_t *req) {
    const ucp_proto_config_t *config = req->send.proto_config;
    struct times times;

    if (req->send.state.uct_comp.status == UCS_OK) return 0;
    find_times(req->send.ep->worker, &req->send.ep->worker->ep_config[config->ep_cfg_index].key, config->priv, &times);
    return times.count != 0;
}
#endif

/* UCX 1.13 acknowledges a message whose fetch has failed, and treats it as received. Later releases end the receive
 * with the error, as is done here. */
static ucs_status_t acknowledge(uct_pending_req_t *self) {
    ucp_request_t *req = ucs_container_of(self, ucp_request_t, send.uct);

    if (has_failed(req)) return ucp_proto_rndv_recv_complete_status(req, req->send.state.uct_comp.status);
    if (!is_acknowledged(req)) return get_zcopy->progress[1](self);
#if TERN_UCX_SINCE(16)
    return ucp_proto_rndv_ats_complete(req);
#else
    return ucp_proto_rndv_recv_complete(req);
#endif
}

int rndv_tern_fetches(ucp_worker_h worker, const ucp_ep_config_key_t *config, const ucp_proto_t *protocol,
                      const void *priv) {
    struct times times;

    if (protocol != &rndv_tern) return 0;
    find_times(worker, config, priv, &times);
    return times.count != 0;
}

const ucp_proto_t *rndv_tern_make(const ucp_proto_t *stock, const struct tern_transport *transport) {
    get_zcopy = stock;
    tern = transport;
    rndv_tern = *stock;
    rndv_tern.name = "rndv/tern";
#if TERN_UCP_PROBES
    rndv_tern.probe = probe_get;
#else
    rndv_tern.init = init_get;
#endif
    rndv_tern.query = query;
    rndv_tern.progress[0] = fetch;
    rndv_tern.progress[1] = acknowledge;
    return &rndv_tern;
}

const ucp_proto_t *rndv_put_make(const ucp_proto_t *stock) {
    put_zcopy = stock;
    rndv_put = *stock;
#if TERN_UCP_PROBES
    rndv_put.probe = probe_put;
#else
    rndv_put.init = init_put;
#endif
    return &rndv_put;
}
