/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank exchanges short messages with each other one. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 40 };

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < ROUNDS; ++round)
        for (int peer = 0; peer < size; ++peer) {
            int received;
            if (peer == rank) continue;
            MPI_Sendrecv(&round, 1, MPI_INT, peer, rank, &received, 1, MPI_INT, peer, peer,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            wrong += received != round;
        }
    if (rank == 0 && wrong == 0) printf("exchanged\n");
    MPI_Finalize();
    return wrong != 0;
}
