/* SPDX-License-Identifier: BSD-3-Clause */
/* What the examples share: checks of errors, and the exchange of regions. */
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

/* Registers memory with all rights and exchanges the keys with the other nodes: regions[i] becomes
 * the region of node i. A key needs several small messages, each with its number and 12 bytes of
 * the key. Each call needs another kind. */
static inline void share(int kind, void* memory, size_t length, rwapi_region* regions) {
    enum { PART = 12, PARTS = (RWAPI_KEY_MAX + PART - 1) / PART };
    const int rank = rwapi_rank(), size = rwapi_size();
    unsigned char mine[PARTS * PART] = {0};
    unsigned char(*keys)[PARTS * PART] = calloc((size_t)size, sizeof *keys);
    size_t* lengths = calloc((size_t)size, sizeof *lengths);
    size_t key = RWAPI_KEY_MAX;
    if (keys == NULL || lengths == NULL) fail("share", RWAPI_ERR_MEMORY);
    check("rwapi_register", rwapi_register(NULL, memory, length, RWAPI_ALL, &regions[rank]));
    check("rwapi_region_pack", rwapi_region_pack(NULL, regions[rank], mine, &key));
    const int parts = (int)((key + PART - 1) / PART);
    for (int part = 0; part < parts; ++part) {
        rwapi_small small = {{(unsigned char)kind, (unsigned char)part, (unsigned char)key,
                              (unsigned char)(key >> 8)}};
        memcpy(small.bytes + 4, mine + part * PART, PART);
        for (int node = 0; node < size; ++node) {
            if (node != rank) TRY(rwapi_send(node, &small));
        }
    }
    /* Keys of all nodes have the same number of parts. */
    for (int left = (size - 1) * parts; left > 0; --left) {
        rwapi_small small;
        int node;
        receive(kind, &node, &small);
        lengths[node] = small.bytes[2] + 256u * small.bytes[3];
        memcpy(keys[node] + small.bytes[1] * PART, small.bytes + 4, PART);
    }
    for (int node = 0; node < size; ++node) {
        if (node == rank) continue;
        check("rwapi_region_unpack",
              rwapi_region_unpack(NULL, keys[node], lengths[node], &regions[node]));
    }
    free(lengths);
    free(keys);
}

/* Puts a few bytes, then adds to a word of the same region. Returns when the bytes may be reused.
 */
static inline void put_and_add(rwapi_region region, size_t offset, const void* bytes, size_t length,
                               size_t word, uint64_t value) {
    rwapi_id id;
    TRY(rwapi_put_signal(NULL, region, offset, bytes, length, word, value, RWAPI_SIGNAL_ADD, &id));
    TRY(rwapi_wait(NULL, id, 10000000));
}

static inline void* allocate(size_t bytes) {
    void* memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (memory == NULL) fail("allocate", RWAPI_ERR_MEMORY);
    memset(memory, 0, bytes);
    return memory;
}
