// SPDX-License-Identifier: BSD-3-Clause
/* Two UCP workers of one process, of which the first sends to the second. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

static ucp_context_h context;
static ucp_worker_h sender, receiver;
static ucp_address_t* address; /* the receiver's */
static ucp_ep_h ep;

static void check(const char* what, ucs_status_t status) {
    if (status == UCS_OK) return;
    fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
    exit(1);
}

static void complete(void* request) {
    if (request == NULL) return;
    if (UCS_PTR_IS_ERR(request)) check("a request", UCS_PTR_STATUS(request));
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(sender);
        ucp_worker_progress(receiver);
    }
    check("a request", ucp_request_check_status(request));
    ucp_request_free(request);
}

static void open_workers(void) {
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t worker_params = {0};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    size_t length;
    int fd;
    check("ucp_init", ucp_init(&params, NULL, &context));
    check("ucp_worker_create", ucp_worker_create(context, &worker_params, &sender));
    check("ucp_worker_create", ucp_worker_create(context, &worker_params, &receiver));
    check("ucp_worker_get_efd", ucp_worker_get_efd(sender, &fd));
    check("ucp_worker_get_address", ucp_worker_get_address(receiver, &address, &length));
    ep_params.address = address;
    check("ucp_ep_create", ucp_ep_create(sender, &ep_params, &ep));
}

static void exchange(const void* data, void* place, size_t length) {
    const ucp_request_param_t none = {0};
    void* receive = ucp_tag_recv_nbx(receiver, place, length, 1, ~(ucp_tag_t)0, &none);
    void* send = ucp_tag_send_nbx(ep, data, length, 1, &none);
    complete(send);
    complete(receive);
}

static void close_workers(void) {
    const ucp_request_param_t none = {0};
    complete(ucp_ep_close_nbx(ep, &none));
    ucp_worker_release_address(receiver, address);
    ucp_worker_destroy(sender);
    ucp_worker_destroy(receiver);
    ucp_cleanup(context);
}
