/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of verify: large messages, from and to memory that comes and goes. */
#define _GNU_SOURCE
#include "verify.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 3 << 20, ROUNDS = 12 };

static int next(void) {
    return (rank + 1) % ranks;
}

static int previous(void) {
    return (rank + ranks - 1) % ranks;
}

static unsigned char* map(size_t n) {
    void* p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return p;
}

/* To the next rank, from the one before; and the other way at the same time. */
static void shift(const char* what, const unsigned char* out, unsigned char* in, size_t n, int k) {
    const size_t half = n / 3;
    MPI_Request requests[4];

    MPI_Irecv(in, (int)half, MPI_BYTE, next(), k, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + half, (int)(n - half), MPI_BYTE, previous(), k, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, (int)half, MPI_BYTE, previous(), k, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(out + half, (int)(n - half), MPI_BYTE, next(), k, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < half; i++) {
        if (in[i] != out[i]) { /* everybody sends the same */
            expect_value(what, in[i], out[i]);
            break;
        }
    }
    if (memcmp(in + half, out + half, n - half) != 0) {
        expect_value(what, 0, 1);
    }
}

/* A length that all ranks agree on. */
static size_t any_length(unsigned* state) {
    return 1 + random_below(state, 2 + random_below(state, MOST));
}

/* Pages that were never seen before, or are others at the same place. */
void large_fresh(void) {
    unsigned state = seed;

    for (int k = 0; k < ROUNDS; k++) {
        const size_t n = any_length(&state);
        unsigned char *out = map(n), *in = map(n);

        fill(out, n, seed_of(0, 0, k));
        shift("large, fresh", out, in, n, k);
        munmap(out, n);
        munmap(in, n);
    }
    for (int k = 0; k < ROUNDS; k++) {
        const size_t n = any_length(&state);
        unsigned char *out = malloc(n), *in = malloc(n);

        fill(out, n, seed_of(0, 1, k));
        shift("large, allocated", out, in, n, k);
        free(out);
        free(in);
    }
}

/* The same buffers again and again, now and then with other pages, or read-only ones. */
void large_again(void) {
    const size_t n = MOST / 2;
    unsigned char *out = map(n), *in = map(n);

    for (int k = 0; k < ROUNDS; k++) {
        if (k % 5 == 4) {
            madvise(out, n, MADV_DONTNEED);
            madvise(in, n, MADV_DONTNEED);
        }
        if (k % 7 == 6) {
            unsigned char* elsewhere = mremap(out, n, 2 * n, MREMAP_MAYMOVE);
            if (elsewhere != MAP_FAILED) {
                munmap(elsewhere + n, n);
                out = elsewhere;
            }
        }
        fill(out, n, seed_of(0, 2, k));
        if (k % 3 == 2) {
            mprotect(out, n, PROT_READ);
        }
        shift("large, again", out, in, n, k);
        mprotect(out, n, PROT_READ | PROT_WRITE);
    }
    munmap(out, n);
    munmap(in, n);
}

/* One buffer to everybody at once, and to some of them only in part. */
void large_overlapping(void) {
    const size_t n = MOST / 4;
    unsigned char *out = make_buffer(n), *in = make_buffer(n * (size_t)ranks);
    MPI_Request requests[2 * ranks];

    for (int k = 0; k < 4; k++) {
        fill(out, n, seed_of(0, 3, k));
        for (int i = 0; i < ranks; i++) {
            MPI_Irecv(in + n * (size_t)i, (int)n, MPI_BYTE, i, k, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < ranks; i++) {
            MPI_Isend(out + i * 100, (int)n - i * 100, MPI_BYTE, i, k, MPI_COMM_WORLD,
                      &requests[ranks + i]);
        }
        MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < ranks; i++) {
            const size_t cut = (size_t)rank * 100;
            expect_value("large, overlapping", memcmp(in + n * (size_t)i, out + cut, n - cut), 0);
        }
    }
    free(out);
    free(in);
}

/* Keys that are sorted by all, in fresh buffers: what IS of the NAS benchmarks does. */
void large_exchange(void) {
    for (int k = 0; k < 4; k++) {
        const size_t each = 100000 + 50000 * (size_t)k, n = each * (size_t)ranks;
        unsigned char *out = malloc(n), *in = malloc(n);

        for (int i = 0; i < ranks; i++) {
            fill(out + each * (size_t)i, each, seed_of(rank, i, k));
        }
        MPI_Alltoall(out, (int)each, MPI_BYTE, in, (int)each, MPI_BYTE, MPI_COMM_WORLD);
        for (int i = 0; i < ranks; i++) {
            fill(out, each, seed_of(i, rank, k));
            expect_value("large, exchange", memcmp(in + each * (size_t)i, out, each), 0);
        }
        free(out);
        free(in);
    }
}

/* Every other block of a matrix, from one that is not, into one that is. */
void large_strided(void) {
    enum { BLOCK = 3000, COUNT = 300 };
    const size_t n = BLOCK * COUNT;
    unsigned char *out = make_buffer(2 * n), *in = make_buffer(2 * n);
    MPI_Datatype type;

    MPI_Type_vector(COUNT, BLOCK, 2 * BLOCK, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (int k = 0; k < 6; k++) {
        const int strided_out = k & 1, strided_in = k != 1 && k != 3;

        fill(out, 2 * n, seed_of(0, 4, k));
        reset(in, 2 * n);
        MPI_Sendrecv(out, strided_out ? 1 : (int)n, strided_out ? type : MPI_BYTE, next(), k, in,
                     strided_in ? 1 : (int)n, strided_in ? type : MPI_BYTE, previous(), k,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < COUNT; i++) {
            if (memcmp(in + i * BLOCK * (strided_in ? 2 : 1),
                       out + i * BLOCK * (strided_out ? 2 : 1), BLOCK) != 0) {
                expect_value("large, strided", (long long)i, -1);
                break;
            }
        }
    }
    MPI_Type_free(&type);
    free(out);
    free(in);
}
