// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: listener ADDRESS [ROUNDS]
 *
 * Two processes. One listens at an IPv4 address, the other connects to it by socket address. Both
 * send messages of several lengths over these endpoints, and then over endpoints that they make by
 * the addresses of the workers.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "two.h"

enum { kLongest = 1 << 20 };

static struct sockaddr_in address = {.sin_family = AF_INET};
static ucp_conn_request_h request;
static uint8_t sent[kLongest], received[kLongest];

static void on_request(ucp_conn_request_h new_request, void* argument) {
    (void)argument;
    request = new_request;
}

static void on_error(void* argument, ucp_ep_h ep, ucs_status_t status) {
    (void)argument;
    (void)ep;
    /* The peer may be the first to close. */
    if (status != UCS_ERR_CONNECTION_RESET) die("endpoint", ucs_status_string(status));
}

static ucp_ep_h open_endpoint(ucp_ep_params_t params) {
    ucp_ep_h ep;
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_error;
    check("ucp_ep_create", ucp_ep_create(worker, &params, &ep));
    return ep;
}

static ucp_ep_h accept_endpoint(ucp_listener_h* listener) {
    const ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {.addr = (struct sockaddr*)&address, .addrlen = sizeof address},
        .conn_handler = {.cb = on_request}};
    ucp_listener_attr_t attributes = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    check("ucp_listener_create", ucp_listener_create(worker, &params, listener));
    check("ucp_listener_query", ucp_listener_query(*listener, &attributes));
    const in_port_t port = ((struct sockaddr_in*)&attributes.sockaddr)->sin_port;
    tell(&port, sizeof port);
    const double end = now() + 30;
    while (request == NULL) {
        ucp_worker_progress(worker);
        if (now() > end) die("listener", "nobody connects");
    }
    return open_endpoint(
        (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request});
}

static ucp_ep_h connect_endpoint(void) {
    hear(&address.sin_port, sizeof address.sin_port);
    return open_endpoint((ucp_ep_params_t){
        .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = {.addr = (struct sockaddr*)&address, .addrlen = sizeof address}});
}

/* Both sides send at the same time. */
static void exchange(ucp_ep_h ep, unsigned rounds) {
    static const size_t lengths[] = {8, 3000, 40000, kLongest};
    const ucp_request_param_t params = {0};
    for (unsigned i = 0; i < rounds; ++i) {
        const size_t length = lengths[i % 4];
        memset(sent, (int)(i % 200 + 1), length);
        memset(received, 0, length);
        void* const receive = ucp_tag_recv_nbx(worker, received, length, i, (ucp_tag_t)-1, &params);
        void* const send = ucp_tag_send_nbx(ep, sent, length, i, &params);
        check("send", finish("send", send));
        check("receive", finish("receive", receive));
        if (memcmp(sent, received, length) != 0) die("receive", "wrong bytes");
    }
    check("flush", finish("flush", ucp_ep_flush_nbx(ep, &params)));
    meet();
}

static void run(int is_child, unsigned rounds) {
    const ucp_request_param_t params = {0};
    ucp_listener_h listener = NULL;
    open_worker(UCP_FEATURE_TAG);
    const ucp_ep_h by_socket = is_child ? connect_endpoint() : accept_endpoint(&listener);
    exchange(by_socket, rounds);
    const ucp_ep_h by_worker = open_endpoint((ucp_ep_params_t){
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = peer_address});
    exchange(by_worker, rounds);
    check("close", finish("close", ucp_ep_close_nbx(by_worker, &params)));
    meet();
    /* The second to close finds the endpoint disconnected, of which UCX up to 1.17 says that it
     * timed out. */
    const ucs_status_t status = finish("close", ucp_ep_close_nbx(by_socket, &params));
    if (status != UCS_OK && status != UCS_ERR_CONNECTION_RESET &&
        status != UCS_ERR_ENDPOINT_TIMEOUT)
        die("close", ucs_status_string(status));
    if (listener != NULL) ucp_listener_destroy(listener);
    close_worker();
}

int main(int argc, char** argv) {
    if (argc < 2 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: %s ADDRESS [ROUNDS]\n", argv[0]);
        return 2;
    }
    return run_two(run, "listener: server", "listener: client",
                   argc > 2 ? (unsigned)atoi(argv[2]) : 40);
}
