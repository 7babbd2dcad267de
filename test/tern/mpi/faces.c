/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges of faces around computation, as the SP benchmark of the NAS parallel benchmarks does
 * them: on a torus of all ranks each one sweeps along either dimension there and back, and at each
 * step receives a face from behind, sends one ahead, computes, and waits for both.
 * faces [BYTES [MICROSECONDS [ITERATIONS]]], of a face, of the computation of a step.
 *
 * Prints medians over the iterations: how long one takes without computation and with it, the
 * computation itself, and how much of the first is hidden behind the last. All bytes are checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, MAX_ITERATIONS = 2000, WARM_UP = 20 };

static int rank, ranks;
static MPI_Comm torus;
static int behind[STEPS], ahead[STEPS];
static char *out[STEPS], *in[STEPS];
static double seconds[MAX_ITERATIONS];
static volatile double sink;

static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static void compute(long turns) {
    double x = 1;
    for (long i = 0; i < turns; i++) x = x * 0.999999 + 1e-9;
    sink = x;
}

/* Turns of compute() in a microsecond, when nobody else has the processor. */
static double turns_per_us(void) {
    double least = 1e9;

    for (int i = 0; i < 50; i++) {
        const double start = MPI_Wtime();
        double time;

        compute(100000);
        time = (MPI_Wtime() - start) * 1e6;
        if (time < least) least = time;
    }
    return 100000 / least;
}

static void check(int step, size_t bytes, int iteration) {
    const char expected = (char)(behind[step] * 31 + step * 7 + iteration);

    if (in[step][0] != expected || memcmp(in[step], in[step] + 1, bytes - 1) != 0) {
        fprintf(stderr, "rank %d: wrong bytes in iteration %d, step %d\n", rank, iteration, step);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double iterate(size_t bytes, long turns, int iterations) {
    double all;

    for (int i = -WARM_UP; i < iterations; i++) {
        double start;

        for (int step = 0; step < STEPS; step++) memset(out[step], rank * 31 + step * 7 + i, bytes);
        MPI_Barrier(torus);
        start = MPI_Wtime();
        for (int step = 0; step < STEPS; step++) {
            MPI_Request both[2];

            MPI_Irecv(in[step], (int)bytes, MPI_BYTE, behind[step], step, torus, &both[0]);
            MPI_Isend(out[step], (int)bytes, MPI_BYTE, ahead[step], step, torus, &both[1]);
            compute(turns);
            MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        }
        all = MPI_Wtime() - start;
        MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_DOUBLE, MPI_MAX, torus);
        if (i >= 0) seconds[i] = all;
        for (int step = 0; step < STEPS; step++) check(step, bytes, i);
    }
    qsort(seconds, (size_t)iterations, sizeof *seconds, compare);
    return seconds[iterations / 2] * 1e6;
}

int main(int argc, char** argv) {
    int sizes[2] = {0, 0}, periodic[2] = {1, 1}, iterations = 200;
    long bytes = 65536;
    double work = 200, alone, with, computed;

    MPI_Init(&argc, &argv);
    if (argc > 1) bytes = atol(argv[1]);
    if (argc > 2) work = atof(argv[2]);
    if (argc > 3) iterations = atoi(argv[3]);
    if (bytes < 1) bytes = 1;
    if (iterations < 1) iterations = 1;
    if (iterations > MAX_ITERATIONS) iterations = MAX_ITERATIONS;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periodic, 0, &torus);
    MPI_Comm_rank(torus, &rank);
    for (int step = 0; step < STEPS; step++) {
        MPI_Cart_shift(torus, step / 2, step % 2 ? -1 : 1, &behind[step], &ahead[step]);
        out[step] = malloc((size_t)bytes);
        in[step] = malloc((size_t)bytes);
        if (out[step] == NULL || in[step] == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    alone = iterate((size_t)bytes, 0, iterations);
    with = iterate((size_t)bytes, (long)(work * turns_per_us()), iterations);
    computed = STEPS * work;
    if (rank == 0)
        printf("%ld bytes: alone %.1f us, with computation %.1f us of %.1f, hidden %.0f %%\n",
               bytes, alone, with, computed, 100 * (1 - (with - computed) / alone));
    for (int step = 0; step < STEPS; step++) {
        free(out[step]);
        free(in[step]);
    }
    MPI_Comm_free(&torus);
    MPI_Finalize();
    return 0;
}
