/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank exchanges messages of several sizes with both its neighbours, computes meanwhile, and
 * takes part in a sum. For traces: nothing in it depends on time.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 1 << 17, kTimes = 3, kWork = 20000 };

int main(int argc, char** argv) {
    static const int sizes[] = {8, 2048, 32768, kMost};
    char* memory[4];
    volatile double work = 0;
    double sum = 0;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int left = (rank + ranks - 1) % ranks;
    const int right = (rank + 1) % ranks;
    for (int i = 0; i < 4; i++) {
        memory[i] = malloc(kMost);
        memset(memory[i], rank, kMost);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * kTimes; i++) {
        const int size = sizes[i / kTimes];
        MPI_Request requests[4];
        MPI_Irecv(memory[0], size, MPI_BYTE, left, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(memory[1], size, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(memory[2], size, MPI_BYTE, right, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(memory[3], size, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[3]);
        for (int k = 0; k < kWork; k++) {
            work = work + k;
        }
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        const double mine = work;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 4; i++) {
        free(memory[i]);
    }
    MPI_Finalize();
    return 0;
}
