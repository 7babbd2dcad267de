/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided sections of verify: synchronisation of groups, and requests. */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

static MPI_Group group_of(int r) {
    MPI_Group world, one;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &r, &one);
    MPI_Group_free(&world);
    return one;
}

/* Post, start, complete, wait: each exposes its window to the left neighbour and writes to the
 * right one, then reads it back in a second epoch. */
void one_sided_groups(void) {
    enum { LARGEST = 1 << 20 };
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Group target = group_of(right), origin = group_of(left);
    unsigned char *exposed = make_buffer(LARGEST), *out = make_buffer(LARGEST),
                  *in = make_buffer(LARGEST);
    MPI_Win window;

    MPI_Win_create(exposed, LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int k = 1; k < size_count; k++) {
        const size_t n = sizes[k];
        if (n > LARGEST) {
            continue;
        }
        reset(exposed, n);
        fill(out, n, seed_of(rank, right, k));
        reset(in, n);
        MPI_Win_post(origin, 0, window);
        MPI_Win_start(target, 0, window);
        MPI_Put(out, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        expect("put between post and wait", exposed, n, seed_of(left, rank, k));

        MPI_Win_post(origin, 0, window);
        MPI_Win_start(target, 0, window);
        MPI_Get(in, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        expect("get between post and wait", in, n, seed_of(rank, right, k));
    }
    MPI_Win_free(&window);
    MPI_Group_free(&target);
    MPI_Group_free(&origin);
    free(exposed);
    free(out);
    free(in);
}

/* Each writes its own slot at everybody with requests, and reads everybody's slots back. */
static void put_and_get(size_t n) {
    const MPI_Aint bytes = (MPI_Aint)(n * (size_t)ranks);
    unsigned char *base, *out = make_buffer(n), **in = malloc((size_t)ranks * sizeof *in);
    MPI_Request* requests = malloc((size_t)ranks * sizeof *requests);
    MPI_Win window;

    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    fill(out, n, seed_of(rank, rank, 1));
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    for (int to = 0; to < ranks; to++) {
        MPI_Rput(out, (int)n, MPI_BYTE, to, (MPI_Aint)(n * (size_t)rank), (int)n, MPI_BYTE, window,
                 &requests[to]);
    }
    MPI_Waitall(ranks, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++) {
        /* The slot of the right neighbour at each rank. */
        in[from] = make_buffer(n);
        MPI_Rget(in[from], (int)n, MPI_BYTE, from, (MPI_Aint)(n * (size_t)((rank + 1) % ranks)),
                 (int)n, MPI_BYTE, window, &requests[from]);
    }
    MPI_Waitall(ranks, requests, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(window);
    for (int from = 0; from < ranks; from++) {
        expect("rget", in[from], n, seed_of((rank + 1) % ranks, (rank + 1) % ranks, 1));
        free(in[from]);
    }
    MPI_Win_free(&window);
    free(out);
    free(in);
    free(requests);
}

/* Sums of vectors by everybody at rank 0, each fetching what was there before: the last to come has
 * seen all the others'. */
static void get_accumulate(int n) {
    long long *base, *out = malloc((size_t)n * sizeof *out),
                     *before = malloc((size_t)n * sizeof *out);
    long long most;
    MPI_Win window;

    MPI_Win_allocate(rank == 0 ? (MPI_Aint)n * 8 : 0, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                     &window);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < n; i++) {
        out[i] = 1;
        before[i] = -1;
        if (rank == 0) {
            base[i] = 0;
        }
    }
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get_accumulate(out, n, MPI_LONG_LONG, before, n, MPI_LONG_LONG, 0, 0, n, MPI_LONG_LONG,
                       MPI_SUM, window);
    MPI_Win_flush(0, window);
    MPI_Win_unlock_all(window);
    for (int i = 0; i < n; i += n / 7 + 1) { /* each element is atomic by itself */
        MPI_Allreduce(&before[i], &most, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
        expect_value("get_accumulate: latest", most, ranks - 1);
        MPI_Allreduce(&before[i], &most, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        expect_value("get_accumulate: all", most, (long long)ranks * (ranks - 1) / 2);
    }
    MPI_Win_free(&window);
    free(out);
    free(before);
}

/* Non-contiguous at the origin and at the target. */
static void strided_put(void) {
    enum { BLOCKS = 700, BLOCK = 16 };
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *exposed = make_buffer(3 * BLOCKS * BLOCK), *out = make_buffer(BLOCKS * BLOCK);
    unsigned char* packed = make_buffer(BLOCKS * BLOCK);
    MPI_Datatype every_third;
    MPI_Win window;

    MPI_Type_vector(BLOCKS, BLOCK, 3 * BLOCK, MPI_BYTE, &every_third);
    MPI_Type_commit(&every_third);
    fill(out, BLOCKS * BLOCK, seed_of(rank, right, 2));
    MPI_Win_create(exposed, 3 * BLOCKS * BLOCK, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, BLOCKS * BLOCK, MPI_BYTE, right, 0, 1, every_third, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 3 * BLOCKS * BLOCK; i++) {
        if (i / BLOCK % 3 == 0) {
            packed[i / (3 * BLOCK) * BLOCK + i % BLOCK] = exposed[i];
        } else if (exposed[i] != 0xa5) {
            expect_value("strided put: byte in a gap", exposed[i], 0xa5);
            break;
        }
    }
    expect("strided put", packed, BLOCKS * BLOCK, seed_of(left, rank, 2));
    MPI_Win_free(&window);
    MPI_Type_free(&every_third);
    free(exposed);
    free(out);
    free(packed);
}

#ifdef OPEN_MPI /* MPICH gives each rank memory of its own where its shared memory is off, as in \
                   these tests */
/* Memory that the ranks of a node load and store, and whose contents are sent. */
static void shared_window(void) {
    const int length = 70000;
    unsigned char *mine, *theirs, *in = make_buffer(length);
    int me, all, unit;
    MPI_Aint size;
    MPI_Comm node;
    MPI_Win window;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &all);
    MPI_Win_allocate_shared(length, 1, MPI_INFO_NULL, node, &mine, &window);
    MPI_Win_shared_query(window, (me + 1) % all, &size, &unit, &theirs);
    MPI_Win_fence(0, window);
    fill(theirs, length, seed_of(me, (me + 1) % all, 3));
    MPI_Win_fence(0, window);
    memcpy(in, mine, length);
    expect("shared window", in, length, seed_of((me + all - 1) % all, me, 3));
    memset(in, 0, length);
    MPI_Sendrecv(theirs, length, MPI_BYTE, (me + 1) % all, 0, in, length, MPI_BYTE,
                 (me + all - 1) % all, 0, node, MPI_STATUS_IGNORE);
    expect("sent from a shared window", in, length, seed_of((me + all - 1) % all, me, 3));
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    free(in);
}
#endif

void one_sided_requests(void) {
    const size_t lengths[] = {1, 8, 1000, 8256, 70000};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        put_and_get(lengths[i]);
    }
    get_accumulate(1);
    get_accumulate(100);
    get_accumulate(5000);
    strided_put();
#ifdef OPEN_MPI
    shared_window();
#endif
}
