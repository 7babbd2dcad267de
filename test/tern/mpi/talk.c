/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks exchange short and long messages: what tern-run --explain is to tell of. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHORT = 1000, LONG = 20, BYTES = 1 << 20 };

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int peer = 1 - rank;
    char* sent = calloc(BYTES, 1);
    char* received = malloc(BYTES);
    for (int i = 0; i < SHORT + LONG; ++i) {
        const int bytes = i < SHORT ? 8 : BYTES;
        MPI_Sendrecv(sent, bytes, MPI_BYTE, peer, 0, received, bytes, MPI_BYTE, peer, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0) printf("talked\n");
    free(sent);
    free(received);
    MPI_Finalize();
    return 0;
}
