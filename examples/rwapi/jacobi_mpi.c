/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same by MPI, to compare: jacobi_mpi messages, by point-to-point messages; jacobi_mpi puts, by
 * MPI_Put between two fences.
 */
#include <mpi.h>

#include "jacobi.h"

static void by_messages(struct band* band, int up, int down) {
    MPI_Request requests[4];
    MPI_Irecv(band->now[0], WIDTH, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(band->now[band->rows + 1], WIDTH, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(band->now[1], WIDTH, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(band->now[band->rows], WIDTH, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void by_puts(struct band* band, int up, int down, double (*halo)[WIDTH], MPI_Win window) {
    MPI_Put(band->now[1], WIDTH, MPI_DOUBLE, up, WIDTH, WIDTH, MPI_DOUBLE, window);
    MPI_Put(band->now[band->rows], WIDTH, MPI_DOUBLE, down, 0, WIDTH, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    if (up != MPI_PROC_NULL) memcpy(band->now[0], halo[0], ROW);
    if (down != MPI_PROC_NULL) memcpy(band->now[band->rows + 1], halo[1], ROW);
}

int main(int argc, char** argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int puts = argc > 1 && strcmp(argv[1], "puts") == 0;
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    struct band band = make_band(rank, size);

    /* In turns, as a neighbour may put its next row while this process reads. */
    double(*halos[2])[WIDTH];
    MPI_Win windows[2];
    for (int turn = 0; turn < 2; ++turn) {
        MPI_Win_allocate(2 * ROW, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &halos[turn],
                         &windows[turn]);
        MPI_Win_fence(0, windows[turn]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < ITERATIONS; ++i) {
        if (puts) {
            by_puts(&band, up, down, halos[i % 2], windows[i % 2]);
        } else {
            by_messages(&band, up, down);
        }
        iterate(&band);
    }
    const double time = (MPI_Wtime() - start) * 1e6;
    for (int turn = 0; turn < 2; ++turn) MPI_Win_free(&windows[turn]);
    const int status = report(puts ? "MPI puts" : "MPI messages", rank, is_right(&band), time);
    MPI_Finalize();
    return status;
}
