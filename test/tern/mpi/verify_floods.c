/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of verify: many messages at once, before or long after their receives are posted. */
#include "verify.h"

#include <stdlib.h>
#include <unistd.h>

struct message {
    size_t n;
    unsigned char* p;
};

/* Both ends draw the same sizes. */
static struct message* draw(int count, int from, int to, int filled) {
    struct message* messages = malloc((size_t)count * sizeof *messages);
    unsigned state = seed * 31u + (unsigned)(from * 64 + to);

    for (int i = 0; i < count; i++) {
        messages[i].n = random_threshold(&state);
        messages[i].p = make_buffer(messages[i].n);
        if (filled) {
            fill(messages[i].p, messages[i].n, seed_of(from, to, i));
        }
    }
    return messages;
}

static void discard(struct message* messages, int count) {
    for (int i = 0; i < count; i++) {
        free(messages[i].p);
    }
    free(messages);
}

/* Receives the last message first. */
static void receive_backwards(int from, int count) {
    struct message* in = draw(count, from, rank, 0);
    MPI_Status status;

    for (int i = count - 1; i >= 0; i--) {
        MPI_Recv(in[i].p, (int)in[i].n, MPI_BYTE, from, i, MPI_COMM_WORLD, &status);
        expect_count("flood: count", &status, in[i].n);
        expect("flood", in[i].p, in[i].n, seed_of(from, rank, i));
    }
    discard(in, count);
}

/* Everybody, or everybody but the target, sends all it has; only then does anybody receive. The
 * target does not even look at the network for a while. */
static void flood(int target, int count) {
    struct message** out = calloc((size_t)ranks, sizeof *out);
    MPI_Request* requests = malloc((size_t)(count * ranks) * sizeof *requests);
    int used = 0;

    for (int to = 0; to < ranks; to++) {
        if (to == rank || (target >= 0 && to != target)) {
            continue;
        }
        out[to] = draw(count, rank, to, 1);
        for (int i = 0; i < count; i++) {
            MPI_Isend(out[to][i].p, (int)out[to][i].n, MPI_BYTE, to, i, MPI_COMM_WORLD,
                      &requests[used++]);
        }
    }
    if (rank == target) {
        usleep(30000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++) {
        if (from != rank && (target < 0 || rank == target)) {
            receive_backwards(from, count);
        }
    }
    MPI_Waitall(used, requests, MPI_STATUSES_IGNORE);
    for (int to = 0; to < ranks; to++) {
        if (out[to] != NULL) {
            discard(out[to], count);
        }
    }
    free(out);
    free(requests);
}

void floods(void) {
    flood(0, 2000 / (ranks - 1));
    flood(ranks - 1, 2000 / (ranks - 1));
    flood(-1, 1500 / ranks);
}

static int* permutation(int count, unsigned state) {
    int* p = malloc((size_t)count * sizeof *p);

    for (int i = 0; i < count; i++) {
        const int j = (int)random_below(&state, (unsigned)i + 1);
        p[i] = p[j];
        p[j] = i;
    }
    return p;
}

/* Pairs exchange thousands of messages that are all under way at once, in both directions; posted,
 * sent and waited for in three orders. */
void outstanding(void) {
    enum { COUNT = 2000 };
    const int peer = rank ^ 1;
    struct message *out = draw(COUNT, rank, peer, 1), *in = draw(COUNT, peer, rank, 0);
    int *post = permutation(COUNT, seed + 1), *send = permutation(COUNT, seed + 2);
    MPI_Request* requests = malloc(2 * COUNT * sizeof *requests);
    MPI_Status status;
    int i, left;

    for (i = 0; i < COUNT; i++) {
        MPI_Irecv(in[post[i]].p, (int)in[post[i]].n, MPI_BYTE, peer, post[i], MPI_COMM_WORLD,
                  &requests[post[i]]);
    }
    for (i = 0; i < COUNT; i++) {
        MPI_Isend(out[send[i]].p, (int)out[send[i]].n, MPI_BYTE, peer, send[i], MPI_COMM_WORLD,
                  &requests[COUNT + send[i]]);
    }
    for (left = COUNT; left > 0; left--) {
        MPI_Waitany(COUNT, requests, &i, &status);
        expect_count("outstanding: count", &status, in[i].n);
        expect_value("outstanding: tag", status.MPI_TAG, i);
        expect("outstanding", in[i].p, in[i].n, seed_of(peer, rank, i));
    }
    MPI_Waitall(COUNT, requests + COUNT, MPI_STATUSES_IGNORE);
    discard(out, COUNT);
    discard(in, COUNT);
    free(post);
    free(send);
    free(requests);
}
