/* SPDX-License-Identifier: BSD-3-Clause */
#include "tern/ucp/protocols.h"

#include "tern/ucp/times.h"

static ucp_proto_t rndv_tern;
static const ucp_proto_t *original;
static const struct tern_transport *tern;

/* None if the protocol uses several lanes. */
static void find_times(ucp_worker_h worker, const ucp_ep_config_key_t *config, const ucp_proto_rndv_bulk_priv_t *priv,
                       struct times *times) {
    times->count = 0;
    if (times_check_layout(worker) && priv->mpriv.num_lanes == 1)
        times_of_lane(worker, &config->lanes[priv->mpriv.lanes[0].super.lane], times);
}

static void find(const ucp_proto_init_params_t *params, const void *priv, struct times *times) {
    times->count = 0;
    if (times_is_of_host(params)) find_times(params->worker, params->ep_config_key, priv, times);
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

/* UCX's tables show one row for each scheme, whatever the number of ranges. */
static void query(const ucp_proto_query_params_t *params, ucp_proto_query_attr_t *attributes) {
    const struct tern_fetch_range *range;
    struct times times;

    original->query(params, attributes);
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

    if (!times_layout_fits() || priv->mpriv.num_lanes != 1) return NULL;
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

    if (ep == NULL || !is_whole(req)) return original->progress[0](self);
    iface = ep->iface;
    ucp_proto_rndv_pack_ack(req, &ack, req->send.state.dt_iter.length);
    tern->offer_reply(ep, UCP_AM_ID_RNDV_ATS, &ack, sizeof(ack), req->send.state.dt_iter.length,
                      &req->send.state.uct_comp);
    status = original->progress[0](self);
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
    if (!is_acknowledged(req)) return original->progress[1](self);
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
