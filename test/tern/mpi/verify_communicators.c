/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of verify: communicators made, used side by side and freed, within and between groups.
 */
#include "verify.h"

#include <stdlib.h>

static unsigned char* message(size_t n, unsigned seed_of_message) {
    unsigned char* p = make_buffer(n);
    fill(p, n, seed_of_message);
    return p;
}

/* The same message to the same rank with the same tag in several communicators: each receive gets
 * that of its own, in whatever order they are posted. */
static void side_by_side(const MPI_Comm* comms, int count, size_t n) {
    unsigned char **out = malloc((size_t)count * sizeof *out),
                  **in = malloc((size_t)count * sizeof *in);
    MPI_Request* requests = malloc(2 * (size_t)count * sizeof *requests);

    for (int i = 0; i < count; i++) {
        out[i] = message(n, seed_of(rank, rank ^ 1, i));
        in[i] = make_buffer(n);
        MPI_Isend(out[i], (int)n, MPI_BYTE, rank ^ 1, 5, comms[i], &requests[i]);
    }
    for (int i = count - 1; i >= 0; i--) {
        MPI_Irecv(in[i], (int)n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i],
                  &requests[count + i]);
    }
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        expect("communicators side by side", in[i], n, seed_of(rank ^ 1, rank, i));
        free(out[i]);
        free(in[i]);
    }
    free(out);
    free(in);
    free(requests);
}

static void duplicates(void) {
    enum { COUNT = 8 };
    MPI_Comm comms[COUNT];
    MPI_Request requests[COUNT / 2];

    for (int i = 0; i < COUNT / 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[COUNT / 2 + i], &requests[i]);
    }
    MPI_Waitall(COUNT / 2, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < size_count; k++) {
        if (sizes[k] <= 100000) {
            side_by_side(comms, COUNT, sizes[k]);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        MPI_Comm_free(&comms[i]);
    }
}

/* Colours by `parts`, ranks in reverse order; each part sums what only its members know. */
static void split(int parts) {
    int me, members, sum, wanted = 0, colour = rank % parts;
    MPI_Comm part;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : colour, -rank, &part);
    expect_value("split: undefined colour", part == MPI_COMM_NULL, rank == 0);
    if (rank == 0) {
        return;
    }
    MPI_Comm_rank(part, &me);
    MPI_Comm_size(part, &members);
    for (int r = ranks - 1, place = 0; r > 0; r--) {
        if (r % parts == colour) {
            expect_value("split: rank", r == rank ? me : place, place);
            wanted += 1 << r;
            place++;
        }
    }
    sum = 1 << rank;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, part);
    expect_value("split: members", sum, wanted);
    MPI_Comm_free(&part);
}

/* A group of its own, without the others' help. */
static void create_group(void) {
    int range[1][3] = {{0, ranks - 1, 2}}, sum = rank, wanted = 0;
    MPI_Group world, even;
    MPI_Comm comm;

    if (rank % 2 != 0) {
        return;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &even);
    MPI_Comm_create_group(MPI_COMM_WORLD, even, 3, &comm);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
    for (int r = 0; r < ranks; r += 2) {
        wanted += r;
    }
    expect_value("create_group: sum", sum, wanted);
    MPI_Comm_free(&comm);
    MPI_Group_free(&even);
    MPI_Group_free(&world);
}

void communicators(void) {
    duplicates();
    for (int parts = 1; parts <= ranks; parts *= 2) {
        split(parts);
    }
    create_group();
    for (int i = 0; i < 100; i++) { /* nothing is used up */
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }
}

/* My partner on the other side of the intercommunicator is my neighbour in the world. */
static void between_partners(MPI_Comm inter) {
    const int partner = rank / 2, peer = rank ^ 1;

    for (int k = 0; k < size_count; k++) {
        const size_t n = sizes[k];
        unsigned char *out = message(n, seed_of(rank, peer, k)), *in = make_buffer(n);
        MPI_Request request;
        MPI_Status status;

        MPI_Isend(out, (int)n, MPI_BYTE, partner, k, inter, &request);
        MPI_Recv(in, (int)n, MPI_BYTE, MPI_ANY_SOURCE, k, inter, &status);
        expect_value("intercommunicator: source", status.MPI_SOURCE, partner);
        expect("intercommunicator", in, n, seed_of(peer, rank, k));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        free(out);
        free(in);
    }
}

/* From rank 0 of the even side to all of the odd side; and each side gets the other's sum. */
static void between_sides(MPI_Comm inter) {
    const size_t n = 20000;
    const int root = rank % 2 != 0 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    unsigned char* p = make_buffer(n);
    int sum = 0, wanted = 0;

    if (rank == 0) {
        fill(p, n, 4711);
    }
    MPI_Bcast(p, (int)n, MPI_BYTE, root, inter);
    if (rank % 2 != 0) {
        expect("intercommunicator: bcast", p, n, 4711);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    for (int r = 1 - rank % 2; r < ranks; r += 2) {
        wanted += r;
    }
    expect_value("intercommunicator: sum of the others", sum, wanted);
    free(p);
}

/* The odd side comes last. */
static void merge(MPI_Comm inter) {
    MPI_Comm all;
    int me, members, *seen = malloc((size_t)ranks * sizeof *seen);

    MPI_Intercomm_merge(inter, rank % 2, &all);
    MPI_Comm_rank(all, &me);
    MPI_Comm_size(all, &members);
    expect_value("merge: size", members, ranks);
    expect_value("merge: rank", me, rank / 2 + (rank % 2) * ranks / 2);
    MPI_Allgather(&rank, 1, MPI_INT, seen, 1, MPI_INT, all);
    for (int i = 0; i < ranks; i++) {
        expect_value("merge: allgather", seen[i], i % (ranks / 2) * 2 + (i >= ranks / 2));
    }
    MPI_Comm_free(&all);
    free(seen);
}

/* Even and odd ranks. */
void intercommunicators(void) {
    MPI_Comm side, inter;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &side);
    MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank % 2 != 0 ? 0 : 1, 12, &inter);
    between_partners(inter);
    between_sides(inter);
    merge(inter);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&side);
}
