/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of verify: requests that are canceled, and messages longer than their receives. */
#include "verify.h"

#include <stdlib.h>

static int is_canceled(MPI_Request* request, MPI_Status* status) {
    int flag;
    MPI_Wait(request, status);
    MPI_Test_cancelled(status, &flag);
    return flag;
}

/* Of receives with one tag every other one is canceled; messages go to those that are left. */
static void cancel_receives(int peer, int k, int source) {
    enum { POSTED = 6, TAG = 40 };
    const size_t n = sizes[k];
    unsigned char *in[POSTED], *out = make_buffer(n);
    MPI_Request requests[POSTED];
    MPI_Status status;

    for (int i = 0; i < POSTED; i++) {
        in[i] = make_buffer(n);
        MPI_Irecv(in[i], (int)n, MPI_BYTE, source, TAG, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < POSTED; i += 2) {
        MPI_Cancel(&requests[i]);
        expect_value("receive is canceled", is_canceled(&requests[i], &status), 1);
    }
    MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, 9999, NULL, 0, MPI_BYTE, peer, 9999, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 1; i < POSTED; i += 2) {
        fill(out, n, seed_of(rank, peer, k) + (unsigned)i);
        MPI_Send(out, (int)n, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    }
    for (int i = 1; i < POSTED; i += 2) {
        expect_value("receive is not canceled", is_canceled(&requests[i], &status), 0);
        expect_count("receive beside canceled ones: count", &status, n);
        expect("receive beside canceled ones", in[i], n, seed_of(peer, rank, k) + (unsigned)i);
    }
    for (int i = 0; i < POSTED; i++) {
        free(in[i]);
    }
    free(out);
}

/* A receive canceled while its message is on the way gets all of it, or nothing and leaves it to
 * the next. */
static void cancel_race(int peer, int k) {
    const size_t n = sizes[k];
    unsigned char *in = make_buffer(n), *out = make_buffer(n);
    MPI_Request receive, send;
    MPI_Status status;

    fill(out, n, seed_of(rank, peer, k));
    MPI_Irecv(in, (int)n, MPI_BYTE, peer, 41, MPI_COMM_WORLD, &receive);
    MPI_Isend(out, (int)n, MPI_BYTE, peer, 41, MPI_COMM_WORLD, &send);
    MPI_Cancel(&receive);
    if (is_canceled(&receive, &status)) {
        MPI_Recv(in, (int)n, MPI_BYTE, peer, 41, MPI_COMM_WORLD, &status);
    }
    expect_count("receive canceled in flight: count", &status, n);
    expect("receive canceled in flight", in, n, seed_of(peer, rank, k));
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    free(in);
    free(out);
}

/* A send may be canceled or not: the status tells, and the message comes or does not come
 * accordingly. The sender says which; a send that cannot be canceled may wait for its receive. */
static void cancel_send(int peer, int k) {
    const size_t n = sizes[k];
    unsigned char* p = make_buffer(n);
    MPI_Request request;
    MPI_Status status;
    int done = 0, flag = 0;

    if (rank & 1) {
        MPI_Recv(&flag, 1, MPI_INT, peer, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!flag) {
            MPI_Recv(p, (int)n, MPI_BYTE, peer, 42, MPI_COMM_WORLD, &status);
            expect("send that was not canceled", p, n, seed_of(peer, rank, k));
        }
    } else {
        fill(p, n, seed_of(rank, peer, k));
        MPI_Issend(p, (int)n, MPI_BYTE, peer, 42, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        for (int i = 0; i < 50 && !done; i++) {
            MPI_Test(&request, &done, &status);
        }
        if (done) {
            MPI_Test_cancelled(&status, &flag);
        }
        MPI_Send(&flag, 1, MPI_INT, peer, 43, MPI_COMM_WORLD);
        if (!done) {
            expect_value("late send is not canceled", is_canceled(&request, &status), 0);
        }
    }
    free(p);
}

void canceled(void) {
    const int peer = rank ^ 1;

    for (int k = 0; k < size_count - 1; k++) {
        cancel_receives(peer, k, peer);
        cancel_receives(peer, k, MPI_ANY_SOURCE);
        cancel_race(peer, k);
        cancel_send(peer, k);
    }
}

/* Too long a message gives an error to the receiver alone, and the next one is received. */
static void truncate(int peer, size_t n) {
    const size_t room = n / 2;
    unsigned char *in = make_buffer(n), *out = make_buffer(n);
    int error, class = MPI_SUCCESS;
    MPI_Request request;

    fill(out, n, seed_of(rank, peer, 1));
    MPI_Isend(out, (int)n, MPI_BYTE, peer, 44, MPI_COMM_WORLD, &request);
    error = MPI_Recv(in, (int)room, MPI_BYTE, peer, 44, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(error, &class);
    expect_value("truncated receive: error class", class, MPI_ERR_TRUNCATE);
    for (size_t i = room; i < n; i++) {
        if (in[i] != 0xa5) {
            expect_value("truncated receive: byte behind the end", in[i], 0xa5);
            break;
        }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    reset(in, n);
    MPI_Sendrecv(out, (int)n, MPI_BYTE, peer, 44, in, (int)n, MPI_BYTE, peer, 44, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect("receive after a truncated one", in, n, seed_of(peer, rank, 1));
    free(in);
    free(out);
}

void truncated(void) {
    const size_t lengths[] = {2, 100, 5000, 8256, 20000, 300000};

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        truncate(rank ^ 1, lengths[i]);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}
