/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of verify: the four send modes, blocking, non-blocking and persistent. */
#include "verify.h"

#include <stdlib.h>

enum {
    MODES = 4,
    STANDARD = 0,
    SYNCHRONOUS = 1,
    BUFFERED = 2,
    READY = 3,
    BUFFERED_LIMIT = 1 << 20
};

typedef int blocking_send(const void*, int, MPI_Datatype, int, int, MPI_Comm);
typedef int request_send(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

static blocking_send* const sends[MODES] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
static request_send* const isends[MODES] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
static request_send* const send_inits[MODES] = {MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init,
                                                MPI_Rsend_init};

static void* attach(void) {
    const int room = 2 * (BUFFERED_LIMIT + MPI_BSEND_OVERHEAD);
    void* p = malloc((size_t)room);
    MPI_Buffer_attach(p, room);
    return p;
}

/* Returns when everything in the buffer has been sent. */
static void detach(void) {
    void* p;
    int room;
    MPI_Buffer_detach(&p, &room);
    free(p);
}

/* A ready send may start when its receive is known to be posted: the peer says so. */
static void wait_for_receive(int mode, int from, int to) {
    if (mode != READY) {
        return;
    }
    if (rank == from) {
        MPI_Recv(NULL, 0, MPI_BYTE, to, 9999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, from, 9999, MPI_COMM_WORLD);
    }
}

static void one_message(int mode, int blocking, int k, int from, int to) {
    const size_t n = sizes[k];
    unsigned char* p = make_buffer(n);
    MPI_Request request;
    MPI_Status status;

    if (rank == from) {
        fill(p, n, seed_of(from, to, k) + (unsigned)mode);
        wait_for_receive(mode, from, to);
        if (blocking) {
            sends[mode](p, (int)n, MPI_BYTE, to, k, MPI_COMM_WORLD);
        } else {
            isends[mode](p, (int)n, MPI_BYTE, to, k, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (mode == BUFFERED) { /* the buffer is the sender's again at once */
            reset(p, n);
            detach();
            attach();
        }
    } else {
        MPI_Irecv(p, (int)n, MPI_BYTE, from, k, MPI_COMM_WORLD, &request);
        wait_for_receive(mode, from, to);
        MPI_Wait(&request, &status);
        expect_count("send mode: count", &status, n);
        expect("send mode", p, n, seed_of(from, to, k) + (unsigned)mode);
    }
    free(p);
}

/* Each mode, blocking and not, each size, from the even rank of a pair to the odd one and back. */
void modes(void) {
    const int even = rank & ~1, odd = rank | 1;

    attach();
    for (int mode = 0; mode < MODES; mode++) {
        for (int k = 0; k < size_count; k++) {
            if (mode == BUFFERED && sizes[k] > BUFFERED_LIMIT) {
                continue;
            }
            for (int blocking = 0; blocking <= 1; blocking++) {
                one_message(mode, blocking, k, even, odd);
                one_message(mode, blocking, k, odd, even);
            }
        }
    }
    detach();
}

/* One persistent send of each mode and as many receives, started again and again. */
static void persistent_size(int k) {
    enum { ROUNDS = 4 };
    const size_t n = sizes[k];
    const int peer = rank ^ 1, count = n > BUFFERED_LIMIT ? 2 : MODES;
    unsigned char *out[MODES], *in[MODES];
    MPI_Request requests[2 * MODES];
    MPI_Status statuses[2 * MODES];

    for (int mode = 0; mode < count; mode++) {
        out[mode] = make_buffer(n);
        in[mode] = make_buffer(n);
        MPI_Recv_init(in[mode], (int)n, MPI_BYTE, peer, mode, MPI_COMM_WORLD, &requests[mode]);
        send_inits[mode](out[mode], (int)n, MPI_BYTE, peer, mode, MPI_COMM_WORLD,
                         &requests[count + mode]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int mode = 0; mode < count; mode++) {
            fill(out[mode], n, seed_of(rank, peer, k) + (unsigned)(round * MODES + mode));
            reset(in[mode], n);
        }
        MPI_Startall(count, requests);
        /* The peer's receives are posted, as the ready send asks. */
        MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, 9999, NULL, 0, MPI_BYTE, peer, 9999, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Startall(count, requests + count);
        MPI_Waitall(2 * count, requests, statuses);
        for (int mode = 0; mode < count; mode++) {
            expect_count("persistent receive: count", &statuses[mode], n);
            expect("persistent receive", in[mode], n,
                   seed_of(peer, rank, k) + (unsigned)(round * MODES + mode));
        }
    }
    for (int i = 0; i < 2 * count; i++) {
        MPI_Request_free(&requests[i]);
    }
    for (int mode = 0; mode < count; mode++) {
        free(out[mode]);
        free(in[mode]);
    }
}

void persistent(void) {
    attach();
    for (int k = 0; k < size_count; k++) {
        persistent_size(k);
    }
    detach();
}

/* A synchronous send is not complete before its receive has begun. */
void synchronous(void) {
    const int even = rank & ~1, odd = rank | 1;

    for (int k = 0; k < size_count; k++) {
        const size_t n = sizes[k];
        unsigned char* p = make_buffer(n);
        MPI_Request request;
        int done = 0;

        if (rank == even) {
            fill(p, n, seed_of(even, odd, k));
            MPI_Issend(p, (int)n, MPI_BYTE, odd, k, MPI_COMM_WORLD, &request);
            for (int i = 0; i < 200 && !done; i++) {
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            }
            expect_value("synchronous send is complete without a receive", done, 0);
            MPI_Send(NULL, 0, MPI_BYTE, odd, 9999, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(NULL, 0, MPI_BYTE, even, 9999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(p, (int)n, MPI_BYTE, even, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect("synchronous receive", p, n, seed_of(even, odd, k));
        }
        free(p);
    }
}
