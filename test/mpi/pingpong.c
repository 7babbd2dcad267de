/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency and bandwidth between two MPI ranks by message size. Latency is the median half round
 * trip of single messages; bandwidth is the median over windows of messages in flight, each closed
 * by an empty reply.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 16, WARM_UP = 20, MAX_ROUNDS = 2000, LARGEST = 4 << 20 };

static int rank;
static char *out, *in;
static double seconds[MAX_ROUNDS];

static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double median(double* values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

static void one_round_trip(int size) {
    if (rank == 0) {
        MPI_Send(out, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void one_window(int size) {
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) {
            MPI_Isend(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(WINDOW, requests, statuses);
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
}

/* The median time of one call, in seconds. */
static double measure(void (*call)(int), int size, int rounds) {
    for (int i = -WARM_UP; i < rounds; i++) {
        const double start = MPI_Wtime();
        call(size);
        if (i >= 0) {
            seconds[i] = MPI_Wtime() - start;
        }
    }
    return median(seconds, rounds);
}

int main(int argc, char** argv) {
    int ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = malloc(LARGEST);
    in = malloc(LARGEST);
    if (ranks != 2 || out == NULL || in == NULL) {
        fprintf(stderr, "pingpong: needs exactly two ranks, and %d bytes\n", 2 * LARGEST);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(out, 'a' + rank, LARGEST);
    memset(in, 0, LARGEST);
    if (rank == 0) {
        printf("%10s %14s %18s\n", "bytes", "latency (us)", "bandwidth (MB/s)");
    }
    for (int size = 0; size <= LARGEST; size = size == 0 ? 1 : size * 4) {
        const int rounds = size <= 65536 ? MAX_ROUNDS : size <= 262144 ? 200 : 50;
        const double latency = measure(one_round_trip, size, rounds) / 2;
        const double window = measure(one_window, size, rounds / 5);

        if (size > 0 && in[size - 1] != 'a' + (1 - rank)) {
            fprintf(stderr, "pingpong: wrong data\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (rank == 0 && size == 0) {
            printf("%10d %14.2f %18s\n", size, latency * 1e6, "-");
        } else if (rank == 0) {
            printf("%10d %14.2f %18.1f\n", size, latency * 1e6,
                   WINDOW * (double)size / window / 1e6);
        }
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
