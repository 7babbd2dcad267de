/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective sections of verify. */
#include "verify.h"

#include <stdlib.h>
#include <unistd.h>

void broadcast(void) {
    for (int root = 0; root < ranks; root++) {
        for (int k = 0; k < size_count; k++) {
            const unsigned seed = (unsigned)(root * 1000 + k);
            unsigned char* p = make_buffer(sizes[k]);
            if (rank == root) {
                fill(p, sizes[k], seed);
            }
            MPI_Bcast(p, (int)sizes[k], MPI_BYTE, root, MPI_COMM_WORLD);
            expect("bcast", p, sizes[k], seed);
            free(p);
        }
    }
}

static long long term(int from, int i) {
    return (long long)(from + 1) * 1000003 + (long long)i * (from + 7);
}

static long long sum_of_terms(int i) {
    long long sum = 0;
    for (int from = 0; from < ranks; from++) {
        sum += term(from, i);
    }
    return sum;
}

static void reduce(int n) {
    const int part = n / ranks, all = part * ranks;
    long long *in = malloc(((size_t)n + 1) * sizeof *in),
              *out = malloc(((size_t)n + 1) * sizeof *out);

    for (int i = 0; i < n; i++) {
        in[i] = term(rank, i);
        out[i] = -1;
    }
    MPI_Allreduce(in, out, n, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        expect_value("allreduce", out[i], sum_of_terms(i));
    }
    if (all > 0) {
        MPI_Reduce_scatter_block(in, out, part, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < part; i++) {
            expect_value("reduce_scatter", out[i], sum_of_terms(rank * part + i));
        }
    }
    free(in);
    free(out);
}

void reductions(void) {
    const int counts[] = {1, 2, 13, 1000, 20000, 300000};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        reduce(counts[k]);
    }
}

void all_to_all(void) {
    for (int k = 0; k < size_count - 1; k++) {
        const size_t n = sizes[k];
        unsigned char *out = make_buffer(n * (size_t)ranks), *in = make_buffer(n * (size_t)ranks);
        unsigned char* one = make_buffer(n);

        for (int to = 0; to < ranks; to++) {
            fill(out + n * (size_t)to, n, (unsigned)((rank * ranks + to) * 100 + k));
        }
        MPI_Alltoall(out, (int)n, MPI_BYTE, in, (int)n, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < ranks; from++) {
            for (size_t i = 0; i < n; i++) {
                one[i] = in[n * (size_t)from + i];
            }
            expect("alltoall", one, n, (unsigned)((from * ranks + rank) * 100 + k));
        }
        free(out);
        free(in);
        free(one);
    }
}

void gathers(void) {
    for (int k = 0; k < size_count - 1; k++) {
        const size_t n = sizes[k];
        unsigned char *out = make_buffer(n), *in = make_buffer(n * (size_t)ranks);
        unsigned char* one = make_buffer(n);

        fill(out, n, (unsigned)(rank * 100 + k));
        MPI_Allgather(out, (int)n, MPI_BYTE, in, (int)n, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < ranks; from++) {
            for (size_t i = 0; i < n; i++) {
                one[i] = in[n * (size_t)from + i];
            }
            expect("allgather", one, n, (unsigned)(from * 100 + k));
        }
        free(out);
        free(in);
        free(one);
    }
}

/* Nobody leaves a barrier before the last has come: all have counted themselves in rank 0's window
 * by then. */
void barrier(void) {
    const long long one = 1;
    long long *arrived, before, seen;
    MPI_Win window;

    MPI_Win_allocate(rank == 0 ? sizeof *arrived : 0, sizeof *arrived, MPI_INFO_NULL,
                     MPI_COMM_WORLD, &arrived, &window);
    MPI_Win_lock_all(0, window);
    if (rank == 0) {
        *arrived = 0;
        MPI_Win_sync(window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= 50; round++) {
        if ((rank + round) % ranks == 0) {
            usleep(500);
        }
        MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Fetch_and_op(NULL, &seen, MPI_LONG_LONG, 0, 0, MPI_NO_OP, window);
        MPI_Win_flush(0, window);
        expect_value("arrivals after a barrier", seen, (long long)round * ranks);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}
