/* SPDX-License-Identifier: BSD-3-Clause */
/* What the examples share: checks of errors, and the exchange of addresses. */
#pragma once

#include <rwapi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void fail(const char* what, int error) {
    fprintf(stderr, "node %d: %s: %s\n", rwapi_rank(), what, rwapi_strerror(error));
    exit(1);
}

static inline void check(const char* what, int result) {
    if (result < 0) fail(what, result);
}

#define TRY(CALL) check(#CALL, CALL)

static inline double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Registers memory with all rights and exchanges the addresses with the other nodes: nets[i]
 * becomes that of node i. */
static inline void share(void* memory, size_t length, rwapi_net* nets) {
    rwapi_net mine;
    check("rwapi_register", rwapi_register(NULL, memory, length, RWAPI_ALL, &mine));
    check("rwapi_share", rwapi_share(NULL, mine, nets));
}

/* Puts a few bytes, then adds to a word of the same memory. Returns when the bytes may be reused.
 */
static inline void put_and_add(rwapi_net net, size_t offset, const void* bytes, size_t length,
                               size_t word, uint64_t value) {
    rwapi_id id;
    TRY(rwapi_put_signal(NULL, net, offset, bytes, length, word, value, RWAPI_SIGNAL_ADD, &id));
    TRY(rwapi_wait(NULL, id, 10000000));
}

static inline void* allocate(size_t bytes) {
    void* memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (memory == NULL) fail("allocate", RWAPI_ERR_MEMORY);
    memset(memory, 0, bytes);
    return memory;
}
