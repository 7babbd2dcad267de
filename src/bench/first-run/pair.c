/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two ranks of the step mpi send to each other: lengths around all powers of two, at once,
   and each byte is checked; with 0 rounds the times of long messages. The build makes it part of
   tern-first-run. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}
static void work(double until) {
    while (MPI_Wtime() < until) continue;
}
/* Medians at rank 1: of a message between buffers of its own or of all, and of what is left of one
   to wait for after both ranks have worked for twice its time. */
static void measure(int rank) {
    enum { FRESH, REUSED, LEFT, KINDS, TIMES = 31 };
    static const char* const names[] = {"fresh buffers", "reused buffers", "left after work"};
    for (int size = 1 << 16; size <= 1 << 22; size *= 8) {
        const size_t distance = size + 8192;
        double median = 0;
        for (int kind = FRESH; kind < KINDS; ++kind) {
            char* const memory = malloc((TIMES + 1) * distance);
            double times[TIMES];
            for (size_t i = 0; i < (TIMES + 1) * distance; i += 4096) memory[i] = 1;
            for (int i = -1; i < TIMES; ++i) {
                char* const buffer = memory + (kind == FRESH ? i + 1 : 0) * distance;
                MPI_Request request;
                MPI_Barrier(MPI_COMM_WORLD);
                double begin = MPI_Wtime();
                if (rank == 0) MPI_Isend(buffer, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
                if (rank == 1) MPI_Irecv(buffer, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
                if (kind == LEFT) work(begin + 2 * median);
                if (kind == LEFT) begin = MPI_Wtime();
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                if (i >= 0) times[i] = MPI_Wtime() - begin;
            }
            qsort(times, TIMES, sizeof times[0], compare);
            median = times[TIMES / 2];
            MPI_Bcast(&median, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
            if (rank == 0) printf("measured %d %.3f %s\n", size, 1e6 * median, names[kind]);
            free(memory);
        }
    }
}
int main(int argc, char** argv) {
    enum { AT_ONCE = 4 };
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    long messages = 0;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rounds == 0) measure(rank);
    for (int round = 0; round < rounds; ++round)
        for (int size = 1; size <= 1 << 20; size *= 2) {
            unsigned char *out[AT_ONCE], *in[AT_ONCE];
            MPI_Request requests[2 * AT_ONCE];
            const int bytes = size + round % 3 - 1;
            for (int i = 0; i < AT_ONCE; ++i) {
                out[i] = malloc(bytes + 1);
                in[i] = calloc(1, bytes + 1);
                for (int b = 0; b < bytes; ++b)
                    out[i][b] = (unsigned char)(b * 7 + b / 251 + round + i + rank);
                MPI_Irecv(in[i], bytes, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &requests[i]);
                MPI_Isend(out[i], bytes, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD,
                          &requests[AT_ONCE + i]);
            }
            MPI_Waitall(2 * AT_ONCE, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < AT_ONCE; ++i, ++messages) {
                for (int b = 0; b < bytes; ++b) {
                    const unsigned char byte =
                        (unsigned char)(b * 7 + b / 251 + round + i + 1 - rank);
                    if (in[i][b] == byte) continue;
                    printf(
                        "wrong byte: rank %d, round %d, message %d of %d bytes: byte %d is 0x%02x, "
                        "not 0x%02x\n",
                        rank, round, i, bytes, b, in[i][b], byte);
                    fflush(stdout);
                    MPI_Abort(MPI_COMM_WORLD, 3);
                }
                free(out[i]);
                free(in[i]);
            }
        }
    if (rank == 0) printf("verify: ok, %ld messages\n", messages);
    MPI_Finalize();
    return 0;
}
