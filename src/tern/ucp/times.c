/* SPDX-License-Identifier: BSD-3-Clause */
#include "tern/ucp/times.h"

static const struct tern_transport *tern;
static _Atomic enum { UNCHECKED, FITS, MISFIT } layout;

void times_use(const struct tern_transport *transport) {
    tern = transport;
}

int times_layout_fits(void) {
    return layout == FITS;
}

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

int times_check_layout(ucp_worker_h worker) {
    char text[128];
    const char *misfit;

    if (layout != UNCHECKED) return layout == FITS;
    misfit = request_misfit(worker, text, sizeof(text));
    layout = misfit == NULL ? FITS : MISFIT;
    if (misfit != NULL) ucs_info("tern: UCP keeps its own protocols: %s", misfit);
    return misfit == NULL;
}

int times_is_of_host(const ucp_proto_init_params_t *params) {
    const ucp_rkey_config_key_t *remote = params->rkey_config_key;

    return params->select_param->mem_type == UCS_MEMORY_TYPE_HOST &&
           (remote == NULL || remote->mem_type == UCS_MEMORY_TYPE_HOST);
}

void times_of_lane(ucp_worker_h worker, const ucp_ep_config_key_lane_t *lane, struct times *times) {
    const ucp_worker_iface_t *wiface;

    times->count = 0;
    wiface = ucp_worker_iface(worker, lane->rsc_index);
    if (wiface == NULL || wiface->iface->ops.ep_get_zcopy != tern->get_zcopy) return;
    times->count = tern->fetch_ranges(wiface->iface, worker->context->config.ext.bcopy_bw, times->ranges, TIMES_MOST);
}

const struct tern_fetch_range *times_range(const struct times *times, size_t length) {
    unsigned i = 0;

    while (i + 1 < times->count && times->ranges[i].upto < length) ++i;
    return &times->ranges[i];
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

void times_probe(const ucp_proto_t *original, const ucp_proto_init_params_t *params, times_find_func_t find) {
    unsigned i = ucs_array_length(&params->ctx->protocols);
    struct times times;

    original->probe(params);
    for (; i < ucs_array_length(&params->ctx->protocols); ++i) {
        ucp_proto_init_elem_t *element = &ucs_array_elem(&params->ctx->protocols, i);
        find(params, &ucs_array_elem(&params->ctx->priv_buf, element->priv_offset), &times);
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

ucs_status_t times_init_protocol(const ucp_proto_t *original, const ucp_proto_init_params_t *params,
                                 times_find_func_t find) {
    const ucs_status_t status = original->init(params);
    struct times times;

    if (status != UCS_OK) return status;
    find(params, params->priv, &times);
    set(params, &times);
    return UCS_OK;
}

#endif
