// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: flushed ADDRESS am|tag|worker|exit CONNECTIONS MESSAGES BYTES PAUSE
 *
 * Two processes. One listens at an IPv4 address; the other connects to it by socket address, sends
 * messages, flushes them, and goes. All of them must come, in order. The listener waits PAUSE
 * microseconds between calls of progress.
 *
 *   am      active messages; the sender closes the endpoint in good order
 *   tag     the same with tagged messages
 *   worker  the same with a new worker for each connection, and a last message of 100 KB
 *   exit    active messages; a new process for each connection exits after the flush
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "two.h"

enum { kId = 1, kTag = 7, kLong = 100000 };

static const char* kind;
static unsigned messages, pause_us;
static size_t bytes;
static struct sockaddr_in address = {.sin_family = AF_INET};
static ucp_conn_request_h request;
static unsigned seen, told;
static char buffer[kLong];

static const ucp_request_param_t kPlain;

static int is(const char* name) {
    return strcmp(kind, name) == 0;
}
static int by_tag(void) {
    return is("tag") || is("worker");
}
static size_t length_of(unsigned number) {
    return is("worker") && number == messages - 1 ? kLong : bytes;
}

static void take(const void* data, size_t length) {
    unsigned number;
    memcpy(&number, data, sizeof number);
    if (number != seen) die("receive", "a message is missing, or comes twice");
    if (length != length_of(number)) die("receive", "a message of another length");
    ++seen;
}
static ucs_status_t on_message(void* argument, const void* header, size_t header_length, void* data,
                               size_t length, const ucp_am_recv_param_t* params) {
    (void)argument, (void)header, (void)header_length, (void)params;
    take(data, length);
    return UCS_OK;
}
static void on_request(ucp_conn_request_h new_request, void* argument) {
    (void)argument;
    request = new_request;
}
static void on_error(void* argument, ucp_ep_h ep, ucs_status_t status) {
    (void)argument, (void)ep, (void)status;
    told = 1;
}

static void open_quiet_worker(void) {
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_TAG};
    const ucp_worker_params_t worker_params = {0};
    if (context == NULL) check("ucp_init", ucp_init(&params, NULL, &context));
    check("ucp_worker_create", ucp_worker_create(context, &worker_params, &worker));
}
static ucp_ep_h open_endpoint(ucp_ep_params_t params) {
    ucp_ep_h ep;
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_error;
    check("ucp_ep_create", ucp_ep_create(worker, &params, &ep));
    return ep;
}
static void close_endpoint(ucp_ep_h ep, unsigned flags) {
    const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};
    const ucs_status_t status = finish("close", ucp_ep_close_nbx(ep, &params));
    if (status != UCS_OK && status != UCS_ERR_CONNECTION_RESET && flags == 0)
        die("close", ucs_status_string(status));
}

static void progress_rarely(double end, const char* what) {
    ucp_worker_progress(worker);
    if (pause_us != 0) usleep(pause_us);
    if (now() > end) {
        fprintf(stderr, "%u of %u messages have come\n", seen, messages);
        die(what, "a message that was flushed does not come");
    }
}

static void receive_all(double end) {
    while (by_tag() && seen < messages) {
        ucp_tag_recv_info_t info;
        const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
                                            .recv_info.tag_info = &info};
        void* const receive =
            ucp_tag_recv_nbx(worker, buffer, sizeof buffer, kTag, (ucp_tag_t)-1, &params);
        while (receive != NULL && ucp_request_check_status(receive) == UCS_INPROGRESS)
            progress_rarely(end, "receive");
        if (receive != NULL) check("receive", finish("receive", receive));
        take(buffer, length_of(seen));
    }
    while (seen < messages) progress_rarely(end, "receive");
}

static void serve(unsigned connections) {
    ucp_listener_h listener;
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = kId,
        .cb = on_message};
    const ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {.addr = (struct sockaddr*)&address, .addrlen = sizeof address},
        .conn_handler = {.cb = on_request}};
    ucp_listener_attr_t attributes = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    open_quiet_worker();
    check("handler", ucp_worker_set_am_recv_handler(worker, &handler));
    check("ucp_listener_create", ucp_listener_create(worker, &params, &listener));
    check("ucp_listener_query", ucp_listener_query(listener, &attributes));
    const in_port_t port = ((struct sockaddr_in*)&attributes.sockaddr)->sin_port;
    tell(&port, sizeof port);
    for (unsigned i = 0; i < connections; ++i) {
        const double end = now() + 120;
        seen = told = 0;
        while (request == NULL) progress_rarely(end, "listener");
        const ucp_ep_h ep = open_endpoint((ucp_ep_params_t){
            .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request});
        request = NULL;
        receive_all(end);
        while (!told && !is("exit")) progress_rarely(end, "end");
        close_endpoint(ep, UCP_EP_CLOSE_FLAG_FORCE);
        meet();
    }
    ucp_listener_destroy(listener);
}

static void send_all(void) {
    const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER};
    const ucp_ep_h ep = open_endpoint((ucp_ep_params_t){
        .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = {.addr = (struct sockaddr*)&address, .addrlen = sizeof address}});
    for (unsigned i = 0; i < messages; ++i) {
        memcpy(buffer, &i, sizeof i);
        const size_t length = length_of(i);
        void* const send = by_tag() ? ucp_tag_send_nbx(ep, buffer, length, kTag, &kPlain)
                                    : ucp_am_send_nbx(ep, kId, NULL, 0, buffer, length, &eager);
        check("send", finish("send", send));
    }
    check("flush", finish("flush", ucp_ep_flush_nbx(ep, &kPlain)));
    if (is("exit")) _exit(0);
    close_endpoint(ep, 0);
}

static void wait_for_server(void) {
    char byte = 0;
    tell(&byte, 1);
    if (read(channel, &byte, 1) != 1) die("read", "the peer has gone");
}

static void be_clients(unsigned connections) {
    if (read(channel, &address.sin_port, sizeof address.sin_port) != sizeof address.sin_port)
        die("read", "the peer has gone");
    for (unsigned i = 0; i < connections; ++i) {
        if (is("exit")) {
            int status = -1;
            const pid_t pid = fork();
            if (pid == 0) {
                open_quiet_worker();
                send_all();
            }
            if (waitpid(pid, &status, 0) != pid || status != 0) die("client", "it has failed");
        } else {
            if (worker == NULL) open_quiet_worker();
            send_all();
            if (is("worker")) {
                ucp_worker_destroy(worker);
                worker = NULL;
            }
        }
        wait_for_server();
    }
}

static void run(int is_child, unsigned connections) {
    is_child ? be_clients(connections) : serve(connections);
    if (worker != NULL) ucp_worker_destroy(worker);
    if (context != NULL) ucp_cleanup(context);
}

int main(int argc, char** argv) {
    if (argc != 7 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: %s ADDRESS am|tag|worker|exit CONNECTIONS MESSAGES BYTES PAUSE\n",
                argv[0]);
        return 2;
    }
    kind = argv[2];
    messages = (unsigned)atoi(argv[4]);
    bytes = (size_t)atoi(argv[5]);
    pause_us = (unsigned)atoi(argv[6]);
    return run_two(run, "flushed: server", "flushed: client", (unsigned)atoi(argv[3]));
}
