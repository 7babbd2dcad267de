/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Section of verify: several threads of each rank talk at the same time; thread i with thread i of
 * the other ranks, in a communicator of their own and, told apart by tags, in a common one.
 */
#include "verify.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 3, MESSAGES = 60 };

static MPI_Comm comms[THREADS];

/* Random sizes to the right and from the left, a few at a time. */
static void around(int thread, MPI_Comm comm, int tag) {
    enum { DEPTH = 4 };
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned out_sizes = seed + (unsigned)(thread * ranks + rank);
    unsigned in_sizes = seed + (unsigned)(thread * ranks + left);
    unsigned char *out[DEPTH], *in[DEPTH];
    size_t n[DEPTH];
    MPI_Request requests[2 * DEPTH];
    MPI_Status statuses[2 * DEPTH];

    for (int i = 0; i < DEPTH; i++) {
        out[i] = make_buffer(MAX_THRESHOLD);
        in[i] = make_buffer(MAX_THRESHOLD);
    }
    for (int i = 0; i < MESSAGES; i += DEPTH) {
        for (int j = 0; j < DEPTH; j++) {
            const unsigned size = random_threshold(&out_sizes);
            n[j] = random_threshold(&in_sizes);
            fill(out[j], size, seed_of(rank, thread, i + j));
            reset(in[j], n[j]);
            MPI_Irecv(in[j], MAX_THRESHOLD, MPI_BYTE, j % 2 != 0 ? left : MPI_ANY_SOURCE, tag, comm,
                      &requests[j]);
            MPI_Isend(out[j], (int)size, MPI_BYTE, right, tag, comm, &requests[DEPTH + j]);
        }
        MPI_Waitall(2 * DEPTH, requests, statuses);
        for (int j = 0; j < DEPTH; j++) {
            expect_count("threads: count", &statuses[j], n[j]);
            expect("threads", in[j], n[j], seed_of(left, thread, i + j));
        }
    }
    for (int i = 0; i < DEPTH; i++) {
        free(out[i]);
        free(in[i]);
    }
}

static void large(int thread) {
    const size_t n = 1 << 20;
    unsigned char *out = make_buffer(n), *in = make_buffer(n);

    fill(out, n, seed_of(rank, thread, 500));
    MPI_Sendrecv(out, (int)n, MPI_BYTE, rank ^ 1, thread, in, (int)n, MPI_BYTE, rank ^ 1, thread,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect("threads: large message", in, n, seed_of(rank ^ 1, thread, 500));
    free(out);
    free(in);
}

static void sums(int thread) {
    for (int i = 0; i < 20; i++) {
        long long sum = (long long)(rank + 1) * (thread + i);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG_LONG, MPI_SUM, comms[thread]);
        expect_value("threads: allreduce", sum, (long long)(thread + i) * ranks * (ranks + 1) / 2);
    }
}

static void* run(void* argument) {
    const int thread = (int)(size_t)argument;

    around(thread, comms[thread], 1);
    around(thread, MPI_COMM_WORLD, 100 + thread);
    large(thread);
    sums(thread);
    return NULL;
}

void threads(void) {
    pthread_t others[THREADS - 1];

    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (size_t i = 0; i < THREADS - 1; i++) {
        if (pthread_create(&others[i], NULL, run, (void*)(i + 1)) != 0) {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    run(NULL);
    for (int i = 0; i < THREADS - 1; i++) {
        pthread_join(others[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_free(&comms[i]);
    }
}
