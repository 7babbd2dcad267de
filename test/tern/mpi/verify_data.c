/* SPDX-License-Identifier: BSD-3-Clause */
/* What the messages of verify are made of, and how they are checked. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5, REPORTS = 5 };

/* Around powers of two, the eager limits of MPIs and the segment sizes of transports. */
const size_t sizes[] = {0,     1,     7,     8,      9,      63,      64,     65,    100,
                        1000,  1023,  1024,  1025,   2048,   4095,    4096,   4097,  8191,
                        8192,  8193,  8255,  8256,   8257,   16383,   16384,  16385, 65535,
                        65536, 65537, 70001, 262144, 524289, 1048576, 8388608};
const int size_count = sizeof sizes / sizeof sizes[0];

int rank, ranks;
long errors;
unsigned seed = 1;

unsigned char* make_buffer(size_t n) {
    unsigned char* p = malloc(n + GUARD);
    if (p == NULL) {
        fprintf(stderr, "verify: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    reset(p, n);
    return p;
}

void reset(unsigned char* p, size_t n) {
    memset(p, GUARD_BYTE, n + GUARD);
}

static unsigned char byte_of(unsigned seed_of_message, size_t i) {
    unsigned x = ((unsigned)i + 1) * 2654435761u ^ (seed_of_message + 1) * 2246822519u;
    return (unsigned char)(x >> 23 ^ x >> 11);
}

void fill(unsigned char* p, size_t n, unsigned seed_of_message) {
    for (size_t i = 0; i < n; i++) {
        p[i] = byte_of(seed_of_message, i);
    }
}

static void report(const char* what, const char* kind, long long where, long long value,
                   long long wanted) {
    if (__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED) < REPORTS) {
        fprintf(stderr, "rank %d: %s: %s %lld is %lld, not %lld\n", rank, what, kind, where, value,
                wanted);
    }
}

void expect(const char* what, const unsigned char* p, size_t n, unsigned seed_of_message) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != byte_of(seed_of_message, i)) {
            report(what, "byte", (long long)i, p[i], byte_of(seed_of_message, i));
            return;
        }
    }
    for (size_t i = n; i < n + GUARD; i++) {
        if (p[i] != GUARD_BYTE) {
            report(what, "byte behind the end", (long long)i, p[i], GUARD_BYTE);
            return;
        }
    }
}

void expect_value(const char* what, long long value, long long wanted) {
    if (value != wanted) {
        report(what, "value of rank", rank, value, wanted);
    }
}

void expect_count(const char* what, const MPI_Status* status, size_t n) {
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    expect_value(what, count, (long long)n);
}

unsigned seed_of(int from, int to, int k) {
    return (unsigned)((from * 64 + to) * 4096 + k);
}

unsigned random_below(unsigned* state, unsigned bound) {
    *state = *state * 1664525u + 1013904223u;
    return (unsigned)((unsigned long long)(*state ^ *state >> 15) * bound >> 32);
}

unsigned random_threshold(unsigned* state) {
    static const unsigned thresholds[] = {2,    8,    64,   128,  256,   512,   1024,
                                          2048, 4096, 8192, 8256, 16384, 32768, 65536};
    const unsigned count = sizeof thresholds / sizeof thresholds[0];
    /* Small messages are the most frequent. */
    const unsigned i = random_below(state, random_below(state, 2) != 0 ? count : count / 2);
    return thresholds[i] - 2 + random_below(state, 5);
}
