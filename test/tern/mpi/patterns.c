/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One pattern of communication again and again, always in the same buffers, as the Intel MPI
 * benchmarks define them: patterns PATTERN BYTES ROUNDS
 *
 * Checks what arrives in the last round, and prints the microseconds of a round.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, count; /* count: of floats, or of bytes a rank */
static float *out, *in;

static void ping_pong(void) {
    if (rank == 0) {
        MPI_Send(out, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(in, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
    }
}

static void send_receive(void) {
    MPI_Sendrecv(out, count, MPI_FLOAT, (rank + 1) % ranks, 0, in, count, MPI_FLOAT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* With both neighbours at once. */
static void exchange(void) {
    const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Request sends[2];

    MPI_Isend(out, count, MPI_FLOAT, left, 0, MPI_COMM_WORLD, &sends[0]);
    MPI_Isend(out, count, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &sends[1]);
    MPI_Recv(in, count, MPI_FLOAT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(in + count, count, MPI_FLOAT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
}

static void allgatherv(void) {
    int counts[64], places[64];

    for (int i = 0; i < ranks; i++) {
        counts[i] = count;
        places[i] = i * count;
    }
    MPI_Allgatherv(out, count, MPI_FLOAT, in, counts, places, MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast(void) {
    static int root;

    if (rank == root) memcpy(in, out, sizeof *in * (size_t)count);
    MPI_Bcast(in, count, MPI_FLOAT, root, MPI_COMM_WORLD);
    root = (root + 1) % ranks;
}

static void reduce(void) {
    static int root;

    MPI_Reduce(out, in, count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
    root = (root + 1) % ranks;
}

static void allreduce(void) {
    MPI_Allreduce(out, in, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(void) {
    int counts[64];

    for (int i = 0; i < ranks; i++) counts[i] = count / ranks + (i < count % ranks);
    MPI_Reduce_scatter(out, in, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* What the first float of `in` is in the end, if all ranks sent ones. -1: it is of some ranks. */
static const struct {
    const char* name;
    void (*run)(void);
    int sums, some;
} patterns[] = {{"PingPong", ping_pong, 0, 1},  {"SendRecv", send_receive, 0, 0},
                {"Exchange", exchange, 0, 0},   {"Allgatherv", allgatherv, 0, 0},
                {"Broadcast", broadcast, 0, 0}, {"Reduce", reduce, 1, 1},
                {"Allreduce", allreduce, 1, 0}, {"Reduce_scatter", reduce_scatter, 1, 0}};

int main(int argc, char** argv) {
    const int rounds = argc == 4 ? atoi(argv[3]) : 0;
    size_t which = 0, bytes;
    double start;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    while (rounds > 0 && which < sizeof patterns / sizeof *patterns &&
           strcmp(patterns[which].name, argv[1]) != 0)
        which++;
    if (rounds < 1 || which == sizeof patterns / sizeof *patterns || ranks < 2 || ranks > 64 ||
        (count = atoi(argv[2]) / (int)sizeof *out) < 1) {
        fprintf(stderr, "patterns PATTERN BYTES ROUNDS, with 2 to 64 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bytes = sizeof *out * (size_t)count;
    out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    in = aligned_alloc(4096, (bytes * (size_t)ranks + 4095) / 4096 * 4096);
    if (out == NULL || in == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < count; i++) out[i] = 1;
    memset(in, 0, bytes * (size_t)ranks);

    start = MPI_Wtime();
    for (int round = 0; round < rounds; round++) patterns[which].run();
    start = MPI_Wtime() - start;
    if (in[0] != (float)(patterns[which].sums ? ranks : 1) &&
        !(patterns[which].some && in[0] == 0)) {
        fprintf(stderr, "rank %d: %s: wrong data\n", rank, argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) printf("%s %d %g\n", argv[1], (int)bytes, start / rounds * 1e6);
    MPI_Finalize();
    return 0;
}
