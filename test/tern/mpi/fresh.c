/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it costs to send from, and receive into, memory that was never used for that before, beside
 * memory that always is: half round trips between ranks 0 and 1, and an exchange of all with all,
 * as the sort of the NAS parallel benchmarks does it. fresh [ROUNDS]
 *
 * The pages have been touched, and all bytes are checked outside of what is timed. Prints medians
 * in microseconds, by bytes of a message.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_ROUNDS = 1000, WARM_UP = 3, LARGEST = 4 << 20 };
static const size_t ARENA = 256 << 20;

static int rank, ranks;
static char* arena;
static size_t used;
static double seconds[MAX_ROUNDS];

/* Memory that no message has been in. Others are waited for when a new arena is made. */
static char* fresh(size_t bytes) {
    char* memory;

    bytes = (bytes + 4095) & ~(size_t)4095;
    if (arena == NULL || used + bytes > ARENA) {
        if (arena != NULL) munmap(arena, ARENA);
        arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (arena == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 1);
        memset(arena, 1, ARENA);
        used = 0;
    }
    memory = arena + used;
    used += bytes;
    return memory;
}

static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double median(int n) {
    qsort(seconds, (size_t)n, sizeof *seconds, compare);
    return seconds[n / 2];
}

static void check(const char* bytes, size_t length, int expected) {
    if (length != 0 && (bytes[0] != expected || memcmp(bytes, bytes + 1, length - 1) != 0)) {
        fprintf(stderr, "rank %d: wrong bytes in a message of %zu\n", rank, length);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double half_round_trip(int size, int rounds, int reuse) {
    char *out = fresh((size_t)size), *in = fresh((size_t)size);

    for (int i = -WARM_UP; i < rounds; i++) {
        const int mine = (i + rank) & 0x7f, other = (i + !rank) & 0x7f;
        double start;

        if (!reuse) {
            out = fresh((size_t)size);
            in = fresh((size_t)size);
        }
        memset(out, mine, (size_t)size);
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(out, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(in, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(in, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        if (i >= 0) seconds[i] = (MPI_Wtime() - start) / 2;
        if (rank < 2) check(in, (size_t)size, other);
    }
    return median(rounds);
}

static double exchange(int size, int rounds) {
    const size_t all = (size_t)size * (size_t)ranks;

    for (int i = -WARM_UP; i < rounds; i++) {
        char *out = fresh(all), *in = fresh(all);
        double start;

        memset(out, (i + rank) & 0x7f, all);
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
        if (i >= 0) seconds[i] = MPI_Wtime() - start;
        for (int from = 0; from < ranks; from++)
            check(in + (size_t)from * (size_t)size, (size_t)size, (i + from) & 0x7f);
    }
    return median(rounds);
}

int main(int argc, char** argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 50;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rounds < 1) rounds = 1;
    if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    if (ranks < 2) MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0) printf("#%9s %12s %12s %12s\n", "bytes", "fresh", "reused", "alltoall");
    for (int size = 8192; size <= LARGEST; size *= 2) {
        const int n = size > 262144 && rounds > 20 ? 20 : rounds;
        const double a = half_round_trip(size, n, 0), b = half_round_trip(size, n, 1);
        const double c = (size_t)size * (size_t)ranks <= LARGEST ? exchange(size, n) : 0;

        if (rank == 0) {
            printf("%10d %12.2f %12.2f %12.2f\n", size, a * 1e6, b * 1e6, c * 1e6);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
