/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of verify: collectives with parts of different sizes, prefixes, and non-blocking ones.
 */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

/* What `from` has for `to`: from nothing to a few times `unit`. */
static int part(int from, int to, int unit) {
    return (from + 2 * to) % 4 * unit;
}

static void all_to_all_uneven(int unit) {
    int *out_counts = malloc((size_t)ranks * sizeof(int)),
        *in_counts = malloc((size_t)ranks * sizeof(int)),
        *out_starts = malloc((size_t)ranks * sizeof(int)),
        *in_starts = malloc((size_t)ranks * sizeof(int));
    const size_t room = 3 * (size_t)unit;
    unsigned char *out = make_buffer(room * (size_t)ranks), *in = make_buffer(room * (size_t)ranks);
    unsigned char* one = make_buffer(room);

    for (int r = 0; r < ranks; r++) {
        out_counts[r] = part(rank, r, unit);
        in_counts[r] = part(r, rank, unit);
        out_starts[r] = in_starts[r] = r * (int)room;
        fill(out + out_starts[r], (size_t)out_counts[r], seed_of(rank, r, unit));
    }
    MPI_Alltoallv(out, out_counts, out_starts, MPI_BYTE, in, in_counts, in_starts, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) {
        reset(one, (size_t)in_counts[r]);
        memcpy(one, in + in_starts[r], (size_t)in_counts[r]);
        expect("alltoallv", one, (size_t)in_counts[r], seed_of(r, rank, unit));
    }
    free(out_counts);
    free(in_counts);
    free(out_starts);
    free(in_starts);
    free(out);
    free(in);
    free(one);
}

/* The last rank gathers parts that grow with the rank and scatters them again. */
static void gather_and_scatter(int unit) {
    const int root = ranks - 1, mine = rank * unit;
    int *counts = malloc((size_t)ranks * sizeof(int)),
        *starts = malloc((size_t)ranks * sizeof(int)), all = 0;
    unsigned char *out = make_buffer((size_t)mine), *in = make_buffer((size_t)mine), *at_root;

    for (int r = 0; r < ranks; r++) {
        counts[r] = r * unit;
        starts[r] = all;
        all += counts[r];
    }
    at_root = make_buffer((size_t)all);
    fill(out, (size_t)mine, seed_of(rank, root, unit));
    MPI_Gatherv(out, mine, MPI_BYTE, at_root, counts, starts, MPI_BYTE, root, MPI_COMM_WORLD);
    MPI_Scatterv(at_root, counts, starts, MPI_BYTE, in, mine, MPI_BYTE, root, MPI_COMM_WORLD);
    expect("gatherv and scatterv", in, (size_t)mine, seed_of(rank, root, unit));
    free(counts);
    free(starts);
    free(out);
    free(in);
    free(at_root);
}

static void prefixes(int n) {
    long long *in = malloc((size_t)n * sizeof *in), *out = malloc((size_t)n * sizeof *out);

    for (int i = 0; i < n; i++) {
        in[i] = (long long)(rank + 1) * (i + 1);
    }
    MPI_Scan(in, out, n, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        expect_value("scan", out[i], (long long)(i + 1) * (rank + 1) * (rank + 2) / 2);
    }
    MPI_Exscan(in, out, n, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n && rank > 0; i++) {
        expect_value("exscan", out[i], (long long)(i + 1) * rank * (rank + 1) / 2);
    }
    free(in);
    free(out);
}

void uneven(void) {
    const int units[] = {1, 8, 1000, 8192, 30000};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        all_to_all_uneven(units[i]);
        gather_and_scatter(units[i]);
    }
    prefixes(1);
    prefixes(5000);
}

/* Several collectives under way at once, with messages between two ranks passing through. */
static void together(size_t n) {
    const int peer = rank ^ 1;
    unsigned char *from_root = make_buffer(n), *in = make_buffer(n), *out = make_buffer(n);
    unsigned char *parts = make_buffer(n * (size_t)ranks), *all = make_buffer(n * (size_t)ranks);
    unsigned char* one = make_buffer(n);
    long long sum = rank + 1;
    MPI_Request requests[6];

    if (rank == ranks - 1) {
        fill(from_root, n, 99);
    }
    for (int to = 0; to < ranks; to++) {
        fill(parts + n * (size_t)to, n, seed_of(rank, to, 3));
    }
    fill(out, n, seed_of(rank, peer, 4));
    MPI_Ibcast(from_root, (int)n, MPI_BYTE, ranks - 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in, (int)n, MPI_BYTE, peer, 6, MPI_COMM_WORLD, &requests[1]);
    MPI_Ialltoall(parts, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, MPI_COMM_WORLD, &requests[2]);
    MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(out, (int)n, MPI_BYTE, peer, 6, MPI_COMM_WORLD, &requests[4]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[5]);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    expect("ibcast", from_root, n, 99);
    expect("irecv beside collectives", in, n, seed_of(peer, rank, 4));
    expect_value("iallreduce", sum, (long long)ranks * (ranks + 1) / 2);
    for (int from = 0; from < ranks; from++) {
        reset(one, n);
        memcpy(one, all + n * (size_t)from, n);
        expect("ialltoall", one, n, seed_of(from, rank, 3));
    }
    free(from_root);
    free(in);
    free(out);
    free(parts);
    free(all);
    free(one);
}

void nonblocking_collectives(void) {
    for (int k = 0; k < size_count; k++) {
        if (sizes[k] <= 262144) {
            together(sizes[k]);
        }
    }
}
