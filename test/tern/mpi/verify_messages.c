/* SPDX-License-Identifier: BSD-3-Clause */
/* Point-to-point sections of verify. */
#include "verify.h"

#include <stdlib.h>

/* Around the ring, one message of each size; rank 0 sends first, so that blocking sends cannot lock
 * up. */
void point_to_point_blocking(void) {
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;

    for (int k = 0; k < size_count; k++) {
        const size_t n = sizes[k];
        unsigned char *out = make_buffer(n), *in = make_buffer(n);
        MPI_Status status;
        int received;

        fill(out, n, seed_of(rank, right, k));
        if (rank == 0) {
            MPI_Send(out, (int)n, MPI_BYTE, right, k, MPI_COMM_WORLD);
        }
        MPI_Recv(in, (int)n, MPI_BYTE, left, k, MPI_COMM_WORLD, &status);
        if (rank != 0) {
            MPI_Send(out, (int)n, MPI_BYTE, right, k, MPI_COMM_WORLD);
        }
        MPI_Get_count(&status, MPI_BYTE, &received);
        expect_value("blocking receive: count", received, (long long)n);
        expect("blocking receive", in, n, seed_of(left, rank, k));
        free(out);
        free(in);
    }
}

/* Pairs of ranks exchange, in both directions at once, a few rounds with the same buffers. */
void point_to_point_both_ways(void) {
    const int peer = rank ^ 1, rounds = 5;

    for (int k = 0; k < size_count; k++) {
        const size_t n = sizes[k];
        unsigned char *out = make_buffer(n), *in = make_buffer(n);

        for (int round = 0; round < rounds; round++) {
            fill(out, n, seed_of(rank, peer, k) + (unsigned)round * 77u);
            reset(in, n);
            MPI_Sendrecv(out, (int)n, MPI_BYTE, peer, round, in, (int)n, MPI_BYTE, peer, round,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect("sendrecv", in, n, seed_of(peer, rank, k) + (unsigned)round * 77u);
        }
        free(out);
        free(in);
    }
}

/*
 * Everybody sends every size to everybody else. Half of the receives are posted before the sends,
 * in reverse order; the others find their messages waiting.
 */
void point_to_point_nonblocking(void) {
    const int count = size_count, total = count * ranks;
    unsigned char **out = calloc((size_t)total, sizeof *out),
                  **in = calloc((size_t)total, sizeof *in);
    MPI_Request* requests = malloc(2 * (size_t)total * sizeof *requests);
    int used = 0;

    for (int i = 0; i < total; i++) {
        const int peer = i / count, k = i % count;
        out[i] = make_buffer(sizes[k]);
        in[i] = make_buffer(sizes[k]);
        fill(out[i], sizes[k], seed_of(rank, peer, k));
    }
    for (int i = total - 1; i >= 0; i--) {
        if (i / count != rank && i % 2 == 0) {
            MPI_Irecv(in[i], (int)sizes[i % count], MPI_BYTE, i / count, i % count, MPI_COMM_WORLD,
                      &requests[used++]);
        }
    }
    for (int i = 0; i < total; i++) {
        if (i / count != rank) {
            MPI_Isend(out[i], (int)sizes[i % count], MPI_BYTE, i / count, i % count, MPI_COMM_WORLD,
                      &requests[used++]);
        }
    }
    for (int i = 0; i < total; i++) {
        if (i / count != rank && i % 2 != 0) {
            MPI_Irecv(in[i], (int)sizes[i % count], MPI_BYTE, i / count, i % count, MPI_COMM_WORLD,
                      &requests[used++]);
        }
    }
    MPI_Waitall(used, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < total; i++) {
        if (i / count != rank) {
            expect("irecv", in[i], sizes[i % count], seed_of(i / count, rank, i % count));
        }
        free(out[i]);
        free(in[i]);
    }
    free(out);
    free(in);
    free(requests);
}

static void receive_any(size_t room, int* next_tag) {
    unsigned char* in = make_buffer(room);
    MPI_Status status;
    int n;

    MPI_Recv(in, (int)room, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &n);
    /* Messages of one sender must not overtake each other. */
    expect_value("any source: tag", status.MPI_TAG, next_tag[status.MPI_SOURCE]++);
    expect_value("any source: count", n, (long long)sizes[status.MPI_TAG]);
    reset(in + n, 0); /* of the room behind the message, expect() looks at the guard only */
    expect("any source", in, (size_t)n, seed_of(status.MPI_SOURCE, rank, status.MPI_TAG));
    free(in);
}

static void receive_probed(int tag) {
    unsigned char* in;
    MPI_Status status;
    int n;

    MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &n);
    expect_value("probe: count", n, (long long)sizes[tag - 100]);
    in = make_buffer((size_t)n);
    MPI_Recv(in, n, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect("probed receive", in, (size_t)n, seed_of(status.MPI_SOURCE, rank, tag));
    free(in);
}

/* Rank 0 receives from everybody by wildcards, first with MPI_Recv, then with MPI_Probe. */
void wildcards(void) {
    if (rank != 0) {
        for (int tag = 0; tag < 2 * size_count; tag++) {
            const int k = tag % size_count, wire_tag = tag < size_count ? k : k + 100;
            unsigned char* out = make_buffer(sizes[k]);
            fill(out, sizes[k], seed_of(rank, 0, wire_tag));
            MPI_Send(out, (int)sizes[k], MPI_BYTE, 0, wire_tag, MPI_COMM_WORLD);
            free(out);
            if (tag == size_count - 1) {
                MPI_Barrier(MPI_COMM_WORLD);
            }
        }
        return;
    }
    int* next_tag = calloc((size_t)ranks, sizeof *next_tag);
    for (int i = 0; i < size_count * (ranks - 1); i++) {
        receive_any(sizes[size_count - 1], next_tag);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < size_count; k++) {
        for (int i = 1; i < ranks; i++) {
            receive_probed(k + 100);
        }
    }
    free(next_tag);
}
