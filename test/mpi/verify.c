/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program that checks every byte it receives. Prints one line per section and "verify: ok",
 * and ends with status 0 if all was right. Needs an even number of ranks.
 */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5, REPORTS = 5 };

const size_t sizes[] = {0,    1,    7,     8,     63,    64,     100,    1000,    2048,
                        4095, 8192, 16385, 65536, 70001, 262144, 524289, 1048576, 8388608};
const int size_count = sizeof sizes / sizeof sizes[0];

int rank, ranks;
long errors;

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

static unsigned char byte_of(unsigned seed, size_t i) {
    unsigned x = ((unsigned)i + 1) * 2654435761u ^ (seed + 1) * 2246822519u;
    return (unsigned char)(x >> 23 ^ x >> 11);
}

void fill(unsigned char* p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) {
        p[i] = byte_of(seed, i);
    }
}

static void report(const char* what, const char* kind, long long where, long long value,
                   long long wanted) {
    if (errors++ < REPORTS) {
        fprintf(stderr, "rank %d: %s: %s %lld is %lld, not %lld\n", rank, what, kind, where, value,
                wanted);
    }
}

void expect(const char* what, const unsigned char* p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != byte_of(seed, i)) {
            report(what, "byte", (long long)i, p[i], byte_of(seed, i));
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

static const struct {
    const char* name;
    void (*run)(void);
} sections[] = {
    {"point-to-point, blocking", point_to_point_blocking},
    {"point-to-point, both ways", point_to_point_both_ways},
    {"point-to-point, non-blocking", point_to_point_nonblocking},
    {"wildcards and probe", wildcards},
    {"strided data", strided},
    {"broadcast", broadcast},
    {"allreduce and reduce_scatter", reductions},
    {"alltoall", all_to_all},
    {"allgather", gathers},
    {"barrier", barrier},
    {"one-sided, fence", one_sided_fence},
    {"one-sided, lock", one_sided_lock},
    {"one-sided, atomics", one_sided_atomics},
};

int main(int argc, char** argv) {
    long total = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks % 2 != 0) {
        fprintf(stderr, "verify: needs an even number of ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        long sum;
        errors = 0;
        sections[i].run();
        MPI_Allreduce(&errors, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        total += sum;
        if (rank == 0) {
            printf("%s: %s\n", sections[i].name, sum == 0 ? "ok" : "WRONG");
            fflush(stdout);
        }
    }
    if (rank == 0) {
        printf("verify: %s\n", total == 0 ? "ok" : "WRONG");
    }
    MPI_Finalize();
    return total != 0;
}
