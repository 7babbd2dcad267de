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

/* Calls again while a queue is full. */
#define TRY(CALL)                                                           \
    do {                                                                    \
        int result_;                                                        \
        while ((result_ = (CALL)) == RWAPI_ERR_AGAIN) rwapi_progress(NULL); \
        check(#CALL, result_);                                              \
    } while (0)

static inline double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The next small message of this kind. The first byte is the kind. */
static inline void receive(int kind, int* node, rwapi_small* small) {
    static struct {
        int node;
        rwapi_small small;
    } * early;
    static int waiting, room;
    for (int i = 0; i < waiting; ++i) {
        if (early[i].small.bytes[0] != kind) continue;
        *node = early[i].node;
        *small = early[i].small;
        early[i] = early[--waiting];
        return;
    }
    for (;;) {
        const int got = rwapi_receive(node, small);
        check("rwapi_receive", got);
        if (got == 0) continue;
        if (small->bytes[0] == kind) return;
        if (waiting == room) {
            room = 2 * room + 64;
            early = realloc(early, (size_t)room * sizeof *early);
            if (early == NULL) fail("early messages", RWAPI_ERR_MEMORY);
        }
        early[waiting].node = *node;
        early[waiting++].small = *small;
    }
}

/* Returns when all nodes have called it, in the same order. */
static inline void barrier(int kind) {
    rwapi_small small = {{(unsigned char)kind}};
    int node;
    for (int i = 0; i < rwapi_size(); ++i) {
        if (i != rwapi_rank()) TRY(rwapi_send(i, &small));
    }
    for (int i = 1; i < rwapi_size(); ++i) receive(kind, &node, &small);
}

/* Registers memory with all rights and exchanges the addresses with the other nodes: nets[i]
 * becomes that of node i. An address fits a small message, but not with a kind. Each call needs
 * another kind. */
static inline void share(int kind, void* memory, size_t length, rwapi_net* nets) {
    const int rank = rwapi_rank(), size = rwapi_size();
    check("rwapi_register", rwapi_register(NULL, memory, length, RWAPI_ALL, &nets[rank]));
    for (int node = 0; node < size; ++node) {
        for (int i = 0; node != rank && i < 2; ++i) {
            rwapi_small small = {{(unsigned char)kind, (unsigned char)i}};
            memcpy(small.bytes + 8, &nets[rank].word[i], 8);
            TRY(rwapi_send(node, &small));
        }
    }
    for (int left = 2 * (size - 1); left > 0; --left) {
        rwapi_small small;
        int node;
        receive(kind, &node, &small);
        memcpy(&nets[node].word[small.bytes[1]], small.bytes + 8, 8);
    }
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
