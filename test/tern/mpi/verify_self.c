/* SPDX-License-Identifier: BSD-3-Clause */
/* Section of verify: messages from a rank to itself. */
#include "verify.h"

#include <stdlib.h>

/* The receive is posted before the send, after it, or together with it. */
static void to_itself(MPI_Comm comm, int k) {
    const size_t n = sizes[k];
    unsigned char *out = make_buffer(n), *in = make_buffer(n);
    MPI_Request send, receive;
    MPI_Status status;
    int me;

    MPI_Comm_rank(comm, &me);
    fill(out, n, seed_of(rank, rank, k));

    MPI_Irecv(in, (int)n, MPI_BYTE, me, k, comm, &receive);
    MPI_Send(out, (int)n, MPI_BYTE, me, k, comm);
    MPI_Wait(&receive, &status);
    expect_count("to itself, receive first: count", &status, n);
    expect("to itself, receive first", in, n, seed_of(rank, rank, k));

    reset(in, n);
    MPI_Issend(out, (int)n, MPI_BYTE, me, k, comm, &send);
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    expect_value("to itself: source", status.MPI_SOURCE, me);
    expect_count("to itself: probed count", &status, n);
    MPI_Recv(in, (int)n, MPI_BYTE, me, k, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    expect("to itself, send first", in, n, seed_of(rank, rank, k));

    reset(in, n);
    MPI_Sendrecv(out, (int)n, MPI_BYTE, me, k, in, (int)n, MPI_BYTE, me, k, comm, &status);
    expect("to itself, sendrecv", in, n, seed_of(rank, rank, k));
    free(out);
    free(in);
}

static void many_to_itself(void) {
    enum { COUNT = 1000 };
    int out[COUNT], in[COUNT];
    MPI_Request sends[COUNT], receives[COUNT];

    for (int i = 0; i < COUNT; i++) {
        out[i] = i * 3 + rank;
        MPI_Isend(&out[i], 1, MPI_INT, rank, i % 7, MPI_COMM_WORLD, &sends[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, rank, i % 7, MPI_COMM_WORLD, &receives[i]);
    }
    MPI_Waitall(COUNT, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++) {
        expect_value("many to itself", in[i], i * 3 + rank);
    }
}

void self(void) {
    for (int k = 0; k < size_count; k++) {
        to_itself(MPI_COMM_WORLD, k);
        to_itself(MPI_COMM_SELF, k);
    }
    many_to_itself();
}
