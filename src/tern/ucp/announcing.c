/* SPDX-License-Identifier: BSD-3-Clause */
#include "tern/ucp/protocols.h"

struct announcing {
    const ucp_proto_t *original;
    ucp_proto_t made;
};
static struct announcing tag;
static struct announcing am;

#if TERN_UCX_SINCE(16)

#include <ucp/proto/proto_select.inl>

/* UCX_RNDV_SEND_NBR_THRESH of a user who has not set it. */
#define NBR_THRESH_DEFAULT (256 * UCS_KBYTE)

static ucp_proto_select_param_t without_fast_completion(const ucp_proto_select_param_t *param) {
    ucp_proto_select_param_t copy = *param;

    copy.op_attr &= (uint8_t) ~(UCP_OP_ATTR_FLAG_FAST_CMPL / UCP_PROTO_SELECT_OP_ATTR_BASE);
    return copy;
}

/* Whether these sends have the fixed threshold, and nobody has asked for it. */
static int has_fixed_threshold(const ucp_proto_init_params_t *params) {
    const ucp_proto_select_param_t slow = without_fast_completion(params->select_param);
    ucp_proto_init_params_t other = *params;

    other.select_param = &slow;
    return tern_rndv_thresh(&other) == UCS_MEMUNITS_AUTO && tern_rndv_thresh(params) == NBR_THRESH_DEFAULT &&
           getenv("UCX_RNDV_SEND_NBR_THRESH") == NULL;
}

/* From this length on, UCP announces by `protocol` all messages that are sent in the same way, but without fast
 * completion. With fast completion its own times do not show the length: those of eager protocols end before the
 * message leaves. The selection is not UCP's own, in which it would be missing from UCX's tables. SIZE_MAX: unknown. */
static size_t costs_threshold(const ucp_proto_init_params_t *params, const ucp_proto_t *protocol) {
    const ucp_proto_select_param_t slow = without_fast_completion(params->select_param);
    ucp_proto_select_t selection = ucs_array_elem(&params->worker->ep_config, params->ep_cfg_index).proto_select;
    const ucp_proto_select_elem_t *selected;
    const ucp_proto_threshold_elem_t *range;
    size_t threshold = SIZE_MAX;

    selection.hash = kh_init(ucp_proto_select_hash);
    if (selection.hash == NULL) return SIZE_MAX;
    selected = ucp_proto_select_lookup_slow(params->worker, &selection, 1, params->ep_cfg_index, params->rkey_cfg_index,
                                            &slow);
    if (selected != NULL) {
        threshold = 0;
        for (range = selected->thresholds; range->max_msg_length < SIZE_MAX; ++range)
            if (range->proto_config.proto != protocol) threshold = range->max_msg_length + 1;
        if (range->proto_config.proto != protocol) threshold = SIZE_MAX;
    }
    ucp_proto_select_cleanup(&selection);
    return threshold;
}

/* A setting of UCX gives all sends fast completion. Then there is no other selection, and this would not end. */
static _Thread_local int nested;

#endif

#if TERN_UCP_PROBES

/* Whether receivers fetch by Tern the messages that a protocol announces. */
static int announces_to_tern(const ucp_proto_init_params_t *params, const ucp_proto_init_elem_t *element) {
    const ucp_proto_rndv_ctrl_priv_t *priv =
        (const void *)&ucs_array_elem(&params->ctx->priv_buf, element->priv_offset);
    const ucp_proto_config_t *remote = &priv->remote_proto_config;

    return rndv_tern_fetches(params->worker, params->ep_config_key, remote->proto, remote->priv);
}

/* All variants get the same threshold: one below that of the others would be UCP's only choice there. */
static void set_threshold(const ucp_proto_init_params_t *params, const ucp_proto_t *protocol, unsigned first) {
    const unsigned end = ucs_array_length(&params->ctx->protocols);
    size_t threshold;
    unsigned i;

    for (i = first; i < end && !announces_to_tern(params, &ucs_array_elem(&params->ctx->protocols, i)); ++i)
        ;
    if (i == end) return;
    threshold = costs_threshold(params, protocol);
    if (threshold == SIZE_MAX) return;
    for (i = first; i < end; ++i) {
        ucp_proto_init_elem_t *element = &ucs_array_elem(&params->ctx->protocols, i);
        if (element->cfg_thresh == NBR_THRESH_DEFAULT) element->cfg_thresh = threshold;
    }
}

static void probe(const struct announcing *own, const ucp_proto_init_params_t *params) {
    const unsigned first = ucs_array_length(&params->ctx->protocols);

    own->original->probe(params);
    if (nested || !has_fixed_threshold(params)) return;
    nested = 1;
    set_threshold(params, &own->made, first);
    nested = 0;
}

static void probe_tag(const ucp_proto_init_params_t *params) {
    probe(&tag, params);
}
static void probe_am(const ucp_proto_init_params_t *params) {
    probe(&am, params);
}

#else

/* Whether receivers fetch by Tern messages of some length that a protocol announces. */
static int announces_to_tern(ucp_worker_h worker, const ucp_ep_config_key_t *config,
                             const ucp_proto_rndv_ctrl_priv_t *priv) {
    const ucp_proto_threshold_elem_t *range = priv->remote_proto.thresholds;

    for (;; ++range) {
        if (rndv_tern_fetches(worker, config, range->proto_config.proto, range->proto_config.priv)) return 1;
        if (range->max_msg_length == SIZE_MAX) return 0;
    }
}

static void query(const ucp_proto_query_params_t *params, ucp_proto_query_attr_t *attributes) {
    const ucp_proto_rndv_ctrl_priv_t *priv = params->priv;
    ucp_proto_query_attr_t remote;

    ucp_proto_rndv_rts_query(params, attributes);
    if (!announces_to_tern(params->worker, params->ep_config_key, priv)) return;
    ucp_proto_select_elem_query(params->worker, &priv->remote_proto, params->msg_length, &remote);
    attributes->max_msg_length = remote.max_msg_length;
}

#if TERN_UCX_SINCE(16)

static ucs_status_t init(const struct announcing *own, const ucp_proto_init_params_t *params) {
    const ucs_status_t status = own->original->init(params);
    size_t threshold;

    if (status != UCS_OK || nested || !has_fixed_threshold(params)) return status;
    if (!announces_to_tern(params->worker, params->ep_config_key, params->priv)) return UCS_OK;
    nested = 1;
    threshold = costs_threshold(params, &own->made);
    nested = 0;
    if (threshold != SIZE_MAX && params->caps->cfg_thresh == NBR_THRESH_DEFAULT) params->caps->cfg_thresh = threshold;
    return UCS_OK;
}

static ucs_status_t init_tag(const ucp_proto_init_params_t *params) {
    return init(&tag, params);
}
static ucs_status_t init_am(const ucp_proto_init_params_t *params) {
    return init(&am, params);
}

#endif

#endif

const ucp_proto_t *announcing_make(const ucp_proto_t *stock, int of_am) {
    struct announcing *const own = of_am ? &am : &tag;

    own->original = stock;
    own->made = *stock;
#if TERN_UCP_PROBES
    own->made.probe = of_am ? probe_am : probe_tag;
#else
    own->made.query = query;
#if TERN_UCX_SINCE(16)
    own->made.init = of_am ? init_am : init_tag;
#endif
#endif
    return &own->made;
}
