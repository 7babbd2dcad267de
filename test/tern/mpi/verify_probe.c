/* SPDX-License-Identifier: BSD-3-Clause */
/* Section of verify: MPI_Iprobe and the matched probes. MPI_Probe itself is in "wildcards". */
#include "verify.h"

#include <stdlib.h>

static void iprobe(int from, int k) {
    const size_t n = sizes[k];
    unsigned char* in = make_buffer(n);
    MPI_Status status;
    int there = 0;

    while (!there) {
        MPI_Iprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
    }
    expect_value("iprobe: tag", status.MPI_TAG, k);
    expect_count("iprobe: count", &status, n);
    MPI_Recv(in, (int)n, MPI_BYTE, from, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect("iprobe", in, n, seed_of(from, rank, k));
    free(in);
}

/* Two messages with one tag: the matched one can no longer be had by a receive, and is received
 * after the other. */
static void mprobe(int from, int k, int blocking) {
    const size_t n = sizes[k];
    unsigned char *first = make_buffer(n), *second = make_buffer(n);
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    int there = 0;

    if (blocking) {
        MPI_Mprobe(from, k, MPI_COMM_WORLD, &message, &status);
    } else {
        while (!there) {
            MPI_Improbe(MPI_ANY_SOURCE, k, MPI_COMM_WORLD, &there, &message, &status);
        }
        expect_value("improbe: source", status.MPI_SOURCE, from);
    }
    expect_count("mprobe: count", &status, n);
    MPI_Recv(second, (int)n, MPI_BYTE, from, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (blocking) {
        MPI_Mrecv(first, (int)n, MPI_BYTE, &message, &status);
    } else {
        MPI_Imrecv(first, (int)n, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &status);
    }
    expect_count("mrecv: count", &status, n);
    expect("mrecv", first, n, seed_of(from, rank, k));
    expect("receive past a matched message", second, n, seed_of(from, rank, k) + 1);
    free(first);
    free(second);
}

static void send(int to, int k, unsigned more) {
    unsigned char* out = make_buffer(sizes[k]);

    fill(out, sizes[k], seed_of(rank, to, k) + more);
    MPI_Send(out, (int)sizes[k], MPI_BYTE, to, k, MPI_COMM_WORLD);
    free(out);
}

/* Rendezvous messages have to be sent without waiting for each other. */
static void send_two(int to, int k) {
    unsigned char* out[2];
    MPI_Request requests[2];

    for (unsigned i = 0; i < 2; i++) {
        out[i] = make_buffer(sizes[k]);
        fill(out[i], sizes[k], seed_of(rank, to, k) + i);
        MPI_Isend(out[i], (int)sizes[k], MPI_BYTE, to, k, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    free(out[0]);
    free(out[1]);
}

static void nothing_there(void) {
    int there;

    for (int i = 0; i < 50; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        expect_value("iprobe finds a message that nobody sent", there, 0);
    }
    MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    expect_value("iprobe of no process", there, 1);
}

void probes(void) {
    const int peer = rank ^ 1, receiver = rank & 1;

    nothing_there();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < size_count; k++) {
        if (receiver) {
            iprobe(peer, k);
            mprobe(peer, k, 1);
            mprobe(peer, k, 0);
        } else {
            send(peer, k, 0);
            send_two(peer, k);
            send_two(peer, k);
        }
    }
}
