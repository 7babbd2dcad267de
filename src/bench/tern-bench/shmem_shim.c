/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts of OpenSHMEM. A put and its signal are a put, a fence and a put: the fallback for
 * shmem_put_signal where the network has no better way.
 */
#include <shmem.h>

#include "bench/tern-bench/shim.h"

static int other;
static char* memory;
static unsigned long* idle;

static char* open_shmem(char* unused, size_t size) {
    (void)unused;
    shmem_init();
    other = !shmem_my_pe();
    memory = shmem_align(4096, size);
    idle = shmem_calloc(1, sizeof *idle);
    if (memory == NULL || idle == NULL) shmem_global_exit(1);
    shmem_barrier_all();
    return memory;
}

static void close_shmem(void) {
    shmem_free(idle);
    shmem_free(memory);
    shmem_finalize();
}

static void progress(void) {
    shmem_ulong_test(idle, SHMEM_CMP_NE, 0);
}

static void put_signal(size_t to, const char* from, size_t size, size_t word, uint64_t number) {
    shmem_putmem(memory + to, from, size, other);
    shmem_fence();
    shmem_put64(memory + word, &number, 1, other);
}

static void wait_signal(size_t word, uint64_t number) {
    shmem_ulong_wait_until((unsigned long*)(memory + word), SHMEM_CMP_GE, number);
}

const struct tern_bench_calls tern_bench_shim = {
    .open = open_shmem,
    .close = close_shmem,
    .progress = progress,
    .put_signal = put_signal,
    .wait_signal = wait_signal,
};
