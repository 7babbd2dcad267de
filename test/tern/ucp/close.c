// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: close sender|receiver [ROUNDS]
 *
 * Two processes. In each round a long message is sent over new endpoints with error handling, and
 * while it is under way one side closes its endpoint by force, unmaps its buffer as soon as its
 * request is over, and has other bytes at the same place. Whoever is told that all is well must
 * have the bytes that were sent; nobody may hang or crash.
 */
#include <string.h>
#include <sys/mman.h>

#include "two.h"

enum { kSize = 6 << 20 };

static int sender_closes;

static uint32_t word_of(uint32_t round, uint32_t i) {
    return (i + 1) * 2654435761u ^ round * 40503u;
}

static uint32_t* map(void) {
    void* memory = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap", "no memory");
    return memory;
}

static ucs_status_t status_of(void* request) {
    if (request == NULL) return UCS_OK;
    return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : ucp_request_check_status(request);
}

/* At most `seconds`; what it is then. */
static ucs_status_t wait_for(void* request, double seconds) {
    const double end = now() + seconds;
    while (status_of(request) == UCS_INPROGRESS && now() < end) ucp_worker_progress(worker);
    return status_of(request);
}

static void release(void* request) {
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

static void on_error(void* argument, ucp_ep_h ep, ucs_status_t status) {
    (void)argument;
    (void)ep;
    (void)status;
}

static ucp_ep_h open_endpoint(void) {
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = peer_address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_error}};
    ucp_ep_h ep;
    check("ucp_ep_create", ucp_ep_create(worker, &params, &ep));
    return ep;
}

static void* begin(ucp_ep_h ep, uint32_t* memory, uint32_t round, int sends) {
    const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    return sends ? ucp_tag_send_nbx(ep, memory, kSize, round, &params)
                 : ucp_tag_recv_nbx(worker, memory, kSize, round, UINT64_MAX, &params);
}

static void close_by_force(ucp_ep_h ep) {
    const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                        .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void* request = ucp_ep_close_nbx(ep, &params);
    if (wait_for(request, 30) == UCS_INPROGRESS) die("ucp_ep_close_nbx", "does not end");
    release(request);
}

static void run(int sends, unsigned rounds) {
    const int closes = sends == sender_closes;
    unsigned good = 0, bad = 0;
    open_worker(UCP_FEATURE_TAG);
    for (uint32_t round = 0; round < rounds; ++round) {
        uint32_t* memory = map();
        for (uint32_t i = 0; i < kSize / 4; ++i) memory[i] = sends ? word_of(round, i) : 0;
        ucp_ep_h ep = open_endpoint();
        meet();
        void* request = begin(ep, memory, round, sends);
        ucs_status_t status;
        if (closes) {
            /* Ever later in the transfer. */
            wait_for(request, 60e-6 * (round % 40));
            close_by_force(ep);
            meet();
        } else {
            meet();
            wait_for(request, 0.05);
            close_by_force(ep);
        }
        status = wait_for(request, sends ? 30 : 0.05);
        if (!sends && status == UCS_INPROGRESS) {
            /* Nothing of the message has come. */
            ucp_request_cancel(worker, request);
            status = wait_for(request, 30);
        }
        if (status == UCS_INPROGRESS) die("the request", "does not end");
        release(request);
        if (status != UCS_OK) ++bad;
        if (status == UCS_OK && !sends) {
            ++good;
            for (uint32_t i = 0; i < kSize / 4; ++i)
                if (memory[i] != word_of(round, i)) die("the message", "has wrong bytes");
        }
        /* Whoever still reads or writes here crashes, or is seen. */
        munmap(memory, kSize);
        if (mmap(memory, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) != memory)
            die("mmap", "no memory");
        memset(memory, 0x5a, kSize / 2);
        meet();
        for (uint32_t i = 0; i < kSize / 4; ++i)
            if (memory[i] != (i < kSize / 8 ? 0x5a5a5a5au : 0)) die("the memory", "was written to");
        munmap(memory, kSize);
    }
    printf("%s: %u whole, %u ended\n", who, good, bad);
    fflush(stdout);
    close_worker();
}

int main(int argc, char** argv) {
    const unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 40;
    sender_closes = argc > 1 && strcmp(argv[1], "sender") == 0;
    return run_two(run, "close: receiver", "close: sender", rounds);
}
