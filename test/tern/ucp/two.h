// SPDX-License-Identifier: BSD-3-Clause
/* Two processes with a UCP worker each, and a socket between them that owes nothing to UCP. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static const char* who; /* the program and its part, for errors */
static int channel;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_address_t* own_address;
static void* peer_address;

static void die(const char* what, const char* why) {
    fprintf(stderr, "%s: %s: %s\n", who, what, why);
    _exit(1);
}

static void check(const char* what, ucs_status_t status) {
    if (status != UCS_OK) die(what, ucs_status_string(status));
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void tell(const void* data, size_t length) {
    if (write(channel, data, length) != (ssize_t)length) die("write", "the peer has gone");
}

/* Progresses meanwhile. */
static void hear(void* data, size_t length) {
    const double end = now() + 60;
    for (size_t at = 0; at < length;) {
        ucp_worker_progress(worker);
        const ssize_t got = recv(channel, (char*)data + at, length - at, MSG_DONTWAIT);
        if (got == 0 || now() > end) die("recv", "the peer has gone");
        if (got > 0) at += (size_t)got;
    }
}

static void meet(void) {
    char byte = 0;
    tell(&byte, 1);
    hear(&byte, 1);
}

/* The worker, and the address of the peer's. */
static inline void open_worker(uint64_t features) {
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    const ucp_worker_params_t worker_params = {0};
    size_t length, peer_length;

    check("ucp_init", ucp_init(&params, NULL, &context));
    check("ucp_worker_create", ucp_worker_create(context, &worker_params, &worker));
    check("ucp_worker_get_address", ucp_worker_get_address(worker, &own_address, &length));
    tell(&length, sizeof length);
    hear(&peer_length, sizeof peer_length);
    peer_address = malloc(peer_length);
    tell(own_address, length);
    hear(peer_address, peer_length);
}

/* Progresses until the request is over, and releases it. */
static inline ucs_status_t finish(const char* what, void* request) {
    const double end = now() + 30;
    ucs_status_t status;
    if (request == NULL) return UCS_OK;
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
        if (now() > end) die(what, "does not end");
    }
    ucp_request_free(request);
    return status;
}

/* Gives the peer a key to mapped memory. */
static inline void tell_key(const void* memory, ucp_mem_h handle) {
    size_t length;
    void* key;
    check("ucp_rkey_pack", ucp_rkey_pack(context, handle, &key, &length));
    tell(&memory, sizeof memory);
    tell(&length, sizeof length);
    tell(key, length);
    ucp_rkey_buffer_release(key);
}

/* Takes it. Returns the address of the memory. */
static inline uint64_t hear_key(ucp_ep_h peer, ucp_rkey_h* key) {
    uint64_t there;
    size_t length;
    hear(&there, sizeof there);
    hear(&length, sizeof length);
    void* packed = malloc(length);
    hear(packed, length);
    check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(peer, packed, key));
    free(packed);
    return there;
}

static inline void close_worker(void) {
    meet();
    ucp_worker_release_address(worker, own_address);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    free(peer_address);
}

/* The child returns from `part` with 1, the parent with 0. Returns what the program does. */
static int run_two(void (*part)(int is_child, unsigned rounds), const char* parent,
                   const char* child, unsigned rounds) {
    int ends[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
    const pid_t pid = fork();
    const int is_child = pid == 0;
    who = is_child ? child : parent;
    channel = ends[is_child];
    close(ends[!is_child]);
    part(is_child, rounds);
    if (is_child) return 0;
    waitpid(pid, &status, 0);
    return status == 0 ? 0 : 1;
}
