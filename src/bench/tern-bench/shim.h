/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tern-bench calls in a library that it compiles when it runs, with the compiler of an MPI or
 * of an OpenSHMEM. There are two processes. A call returns when what it does is done; errors end
 * the process, as MPI and OpenSHMEM do by default.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tern_bench_calls {
    /* Starts the library. The other process may put into `size` bytes of memory that this returns:
     * those at `memory`, or the library's own. */
    char* (*open)(char* memory, size_t size);
    void (*close)(void);
    void (*progress)(void);

    /* Messages. Null, as are the calls down to many(): the library has none. */
    void (*send)(const char* from, size_t size);
    void (*receive)(char* into, size_t size);
    /* Sends `count` messages, or receives them if `from` is null. Message i is at i % places *
     * size. */
    void (*many)(const char* from, char* into, size_t size, size_t places, size_t count);

    /* Puts bytes to an offset in the other process's memory, and then a number into a word there,
     * also given by its offset. The bytes may be changed when it returns. */
    void (*put_signal)(size_t to, const char* from, size_t size, size_t word, uint64_t number);
    /* Waits until a word of this process's memory has the number, or a higher one. */
    void (*wait_signal)(size_t word, uint64_t number);
};

extern const struct tern_bench_calls tern_bench_shim;
