/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0 sends messages of 1 MiB to rank 1, one at a time. With the argument "fresh" each message
 * has a buffer of its own, which was never sent from or received into; with "reused" all have the
 * same one.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSize = 1 << 20, kTimes = 64, kDistance = kSize + 8192 };

int main(int argc, char** argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int fresh = argc > 1 && strcmp(argv[1], "fresh") == 0;
    char* const memory = malloc((size_t)kTimes * kDistance);
    memset(memory, rank, (size_t)kTimes * kDistance);
    double time = 0;
    for (int i = 0; i < kTimes; i++) {
        char* const buffer = memory + (fresh ? i : 0) * (size_t)kDistance;
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(buffer, kSize, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(buffer, kSize, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            time += MPI_Wtime() - start;
        }
    }
    if (rank == 1) {
        printf("a message takes %.1f us\n", 1e6 * time / kTimes);
    }
    free(memory);
    MPI_Finalize();
    return 0;
}
