/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided sections of verify. */
#include "verify.h"

#include <stdlib.h>

/* Puts to the right neighbour, gets from the left one, between fences; the window is the user's
 * memory. */
static void put_and_get(size_t n) {
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *exposed = make_buffer(n), *out = make_buffer(n), *in = make_buffer(n);
    MPI_Win window;

    fill(out, n, (unsigned)(rank * 3 + 1));
    MPI_Win_create(exposed, (MPI_Aint)n, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    expect("put", exposed, n, (unsigned)(left * 3 + 1));
    MPI_Get(in, (int)n, MPI_BYTE, left, 0, (int)n, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    expect("get", in, n, (unsigned)((left + ranks - 1) % ranks * 3 + 1));
    MPI_Win_free(&window);
    free(exposed);
    free(out);
    free(in);
}

static void accumulate_everywhere(int n) {
    long long *in = malloc((size_t)n * sizeof *in), *sums;
    MPI_Win window;

    MPI_Win_allocate((MPI_Aint)((size_t)n * sizeof *sums), sizeof *sums, MPI_INFO_NULL,
                     MPI_COMM_WORLD, &sums, &window);
    for (int i = 0; i < n; i++) {
        in[i] = (long long)(rank + 1) * (i + 3);
        sums[i] = i;
    }
    MPI_Win_fence(0, window);
    for (int to = 0; to < ranks; to++) {
        MPI_Accumulate(in, n, MPI_LONG_LONG, to, 0, n, MPI_LONG_LONG, MPI_SUM, window);
    }
    MPI_Win_fence(0, window);
    for (int i = 0; i < n; i++) {
        expect_value("accumulate", sums[i], i + (long long)(i + 3) * ranks * (ranks + 1) / 2);
    }
    MPI_Win_free(&window);
    free(in);
}

void one_sided_fence(void) {
    for (int k = 1; k < size_count; k++) {
        put_and_get(sizes[k]);
    }
    accumulate_everywhere(1);
    accumulate_everywhere(1000);
    accumulate_everywhere(20000);
}

/*
 * Everybody increments the same plain counter at rank 0 under an exclusive lock, with get, flush
 * and put, and writes a message into its own slot under a shared one.
 */
void one_sided_lock(void) {
    enum { ROUNDS = 50, SLOT = 100000 };
    const MPI_Aint bytes = rank == 0 ? 8 + (MPI_Aint)ranks * SLOT : 0;
    unsigned char *base, *out = make_buffer(SLOT), *in = make_buffer(SLOT);
    long long value;
    MPI_Win window;

    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        *(long long*)(void*)base = 0;
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(&value, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, window);
        MPI_Win_flush(0, window);
        value++;
        MPI_Put(&value, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, window);
        MPI_Win_unlock(0, window);
    }
    fill(out, SLOT, (unsigned)rank + 900);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Put(out, SLOT, MPI_BYTE, 0, 8 + (MPI_Aint)rank * SLOT, SLOT, MPI_BYTE, window);
    MPI_Win_unlock(0, window);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&value, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, window);
    MPI_Get(in, SLOT, MPI_BYTE, 0, 8 + (MPI_Aint)((rank + 1) % ranks) * SLOT, SLOT, MPI_BYTE,
            window);
    MPI_Win_unlock(0, window);
    expect_value("counter under an exclusive lock", value, (long long)ROUNDS * ranks);
    expect("get under a shared lock", in, SLOT, (unsigned)((rank + 1) % ranks) + 900);
    MPI_Win_free(&window);
    free(out);
    free(in);
}

static int compare(const void* a, const void* b) {
    const long long x = *(const long long*)a, y = *(const long long*)b;
    return (x > y) - (x < y);
}

/* The values that fetch_and_op returned are all the values there were, each one once. */
static void expect_tickets(const long long* mine, int n) {
    const int all = n * ranks;
    long long* tickets = malloc((size_t)all * sizeof *tickets);

    MPI_Allgather(mine, n, MPI_LONG_LONG, tickets, n, MPI_LONG_LONG, MPI_COMM_WORLD);
    qsort(tickets, (size_t)all, sizeof *tickets, compare);
    for (int i = 0; i < all; i++) {
        expect_value("tickets of fetch_and_op", tickets[i], i);
    }
    free(tickets);
}

/* Counters at every rank: tickets by fetch_and_op, and a counter that grows by compare_and_swap
 * alone. */
void one_sided_atomics(void) {
    enum { ROUNDS = 100 };
    const long long one = 1;
    long long *counters, tickets[ROUNDS], seen;
    MPI_Win window;

    MPI_Win_allocate(2 * sizeof *counters, sizeof *counters, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &counters, &window);
    MPI_Win_lock_all(0, window);
    counters[0] = counters[1] = 0;
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int target = 0; target < ranks; target++) {
        for (int i = 0; i < ROUNDS; i++) {
            MPI_Fetch_and_op(&one, &tickets[i], MPI_LONG_LONG, target, 0, MPI_SUM, window);
            MPI_Win_flush(target, window);
        }
        expect_tickets(tickets, ROUNDS);
    }
    for (int i = 0; i < ROUNDS; i++) {
        long long guess = 0;
        for (;;) {
            const long long next = guess + 1;
            MPI_Compare_and_swap(&next, &guess, &seen, MPI_LONG_LONG, 0, 1, window);
            MPI_Win_flush(0, window);
            if (seen == guess) {
                break;
            }
            guess = seen;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Fetch_and_op(NULL, &seen, MPI_LONG_LONG, 0, 1, MPI_NO_OP, window);
    MPI_Win_flush(0, window);
    expect_value("counter of compare_and_swap", seen, (long long)ROUNDS * ranks);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}
