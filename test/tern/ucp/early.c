// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: early [ROUNDS]
 *
 * Two processes. One announces long messages to the other, whose beginnings a transport may copy as
 * soon as they are announced: in memory of their own, and in memory that other messages were in
 * before, among them messages that were cut off or whose endpoint was closed by force, and in
 * memory that the peer also gets. All bytes must be those of the right message.
 */
#include <string.h>
#include <sys/mman.h>

#include "two.h"

enum { kSize = 64 << 10, kParts = 4 };

static ucp_ep_h peer;
static uint64_t tag;

static uint32_t word_of(unsigned seed, size_t i) {
    return (uint32_t)(i + 1) * 2654435761u ^ seed * 40503u;
}

static void fill(uint32_t* memory, unsigned seed) {
    for (size_t i = 0; i < kSize / 4; ++i) memory[i] = word_of(seed, i);
}

static void compare(const char* what, const uint32_t* memory, unsigned seed) {
    for (size_t i = 0; i < kSize / 4; ++i)
        if (memory[i] != word_of(seed, i)) die(what, "has wrong bytes");
}

static uint32_t* map(size_t size) {
    void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap", "no memory");
    return memory;
}

static void* begin_send(const void* memory, ucp_mem_h handle) {
    const ucp_request_param_t params = {
        .op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL | (handle ? UCP_OP_ATTR_FIELD_MEMH : 0),
        .memh = handle};
    return ucp_tag_send_nbx(peer, memory, kSize, ++tag, &params);
}

static void* begin_receive(void* memory, size_t room) {
    const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    return ucp_tag_recv_nbx(worker, memory, room, ++tag, UINT64_MAX, &params);
}

/* One message, from one end to the other. */
static void one(int sends, const char* what, uint32_t* memory, ucp_mem_h handle, unsigned seed) {
    if (sends) {
        fill(memory, seed);
        check(what, finish(what, begin_send(memory, handle)));
    } else {
        memset(memory, 0, kSize);
        check(what, finish(what, begin_receive(memory, kSize)));
        compare(what, memory, seed);
    }
}

/* The receiver has no room for all of it. */
static void cut_off(int sends, uint32_t* memory, ucp_mem_h handle, unsigned seed) {
    if (sends) {
        fill(memory, seed);
        finish("a message that is cut off", begin_send(memory, handle));
    } else if (finish("a message that is cut off", begin_receive(memory, 100)) !=
               UCS_ERR_MESSAGE_TRUNCATED) {
        die("a message that is cut off", "is not");
    }
}

static void fresh(int sends, unsigned round) {
    uint32_t* memory = map(kSize);
    /* In every other round the receiver posts its buffer when the request has come. */
    if (round % 2 != 0 && !sends) usleep(200);
    one(sends, "a message in fresh memory", memory, NULL, round);
    munmap(memory, kSize);
}

/* Messages in the parts of one buffer wait together, and are received in the opposite order. */
static void together(int sends, uint32_t* memory, unsigned round) {
    void* requests[kParts];
    uint32_t* part[kParts];
    const uint64_t first = tag;
    for (int i = 0; i < kParts; ++i) part[i] = memory + i * (kSize / 4);
    if (sends) {
        for (unsigned i = 0; i < kParts; ++i) fill(part[i], round + i);
        for (int i = 0; i < kParts; ++i) requests[i] = begin_send(part[i], NULL);
        meet();
        for (int i = 0; i < kParts; ++i) check("a part", finish("a part", requests[i]));
    } else {
        meet();
        for (unsigned i = kParts; i-- > 0;) {
            tag = first + i;
            check("a part", finish("a part", begin_receive(part[i], kSize)));
            compare("a part", part[i], round + i);
        }
        tag = first + kParts;
    }
}

/* The sender maps the memory for the receiver to get after a message in it was cut off. */
static void also_got(int sends, uint32_t* memory, unsigned round) {
    const ucp_request_param_t no_params = {0};
    if (sends) {
        const ucp_mem_map_params_t params = {
            .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
            .address = memory,
            .length = kSize};
        ucp_mem_h handle;
        check("ucp_mem_map", ucp_mem_map(context, &params, &handle));
        cut_off(1, memory, handle, round);
        one(1, "a message in mapped memory", memory, handle, round + 1);
        cut_off(1, memory, handle, round + 2);
        fill(memory, round + 3);
        tell_key(memory, handle);
        meet();
        one(1, "a message in memory that is also got", memory, handle, round + 4);
        check("ucp_mem_unmap", ucp_mem_unmap(context, handle));
    } else {
        ucp_rkey_h key;
        cut_off(0, memory, NULL, round);
        one(0, "a message in mapped memory", memory, NULL, round + 1);
        cut_off(0, memory, NULL, round + 2);
        const uint64_t there = hear_key(peer, &key);
        check("ucp_get_nbx",
              finish("ucp_get_nbx", ucp_get_nbx(peer, memory, kSize, there, key, &no_params)));
        compare("what was got", memory, round + 3);
        ucp_rkey_destroy(key);
        meet();
        one(0, "a message in memory that is also got", memory, NULL, round + 4);
    }
}

static void on_error(void* argument, ucp_ep_h ep, ucs_status_t status) {
    (void)argument;
    (void)ep;
    (void)status;
}

static void open_endpoint(void) {
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = peer_address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = on_error}};
    check("ucp_ep_create", ucp_ep_create(worker, &params, &peer));
}

static void close_by_force(void) {
    const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                        .flags = UCP_EP_CLOSE_FLAG_FORCE};
    finish("ucp_ep_close_nbx", ucp_ep_close_nbx(peer, &params));
}

/* The endpoint is closed while a message waits that nobody receives. */
static void closed(int sends, uint32_t* memory, unsigned round) {
    meet();
    if (sends) {
        fill(memory, round);
        void* request = begin_send(memory, NULL);
        const double end = now() + 1e-3;
        while (now() < end) ucp_worker_progress(worker);
        close_by_force();
        finish("a message that is closed", request);
        meet();
        open_endpoint();
    } else {
        ++tag;
        meet();
        close_by_force();
        open_endpoint();
    }
    meet();
    one(sends, "a message after one that was closed", memory, NULL, round + 1);
}

static void run(int is_sender, unsigned rounds) {
    open_worker(UCP_FEATURE_TAG | UCP_FEATURE_RMA);
    open_endpoint();
    uint32_t* memory = map(kParts * kSize);
    for (unsigned round = 0; round < rounds; ++round) {
        fresh(is_sender, round);
        one(is_sender, "a message in the same memory", memory, NULL, round);
        cut_off(is_sender, memory, NULL, round + 1);
        one(is_sender, "a message after one that was cut off", memory, NULL, round + 2);
        together(is_sender, memory, round);
        also_got(is_sender, memory, round);
    }
    for (unsigned round = 0; round < rounds / 10; ++round) closed(is_sender, memory, round);
    meet();
    close_by_force();
    close_worker();
    if (!is_sender) printf("early: %u rounds\n", rounds);
}

int main(int argc, char** argv) {
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 40;
    return run_two(run, "early: receiver", "early: sender", rounds);
}
