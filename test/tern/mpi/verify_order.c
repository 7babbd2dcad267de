/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Section of verify: messages between two ranks do not overtake each other, whatever protocol each
 * of them takes. All ranks send to all others, with one tag and random sizes around every
 * threshold.
 */
#include "verify.h"

#include <stdlib.h>

enum { TAG = 77, DEPTH = 4, LONGEST = 300000, MESSAGES = 3000 };

/* One direction between this rank and a peer: both ends draw the same sizes. */
struct flow {
    unsigned sizes; /* state of the random sequence */
    int started, ended;
    unsigned char* buffers[DEPTH];
    MPI_Request requests[DEPTH];
};

static int per_pair;

static void begin(struct flow* flow, int from, int to) {
    flow->sizes = seed * 7919u + (unsigned)(from * 64 + to) * 104729u;
    flow->started = flow->ended = 0;
    for (int i = 0; i < DEPTH; i++) {
        flow->buffers[i] = make_buffer(LONGEST);
        flow->requests[i] = MPI_REQUEST_NULL;
    }
}

static void end(struct flow* flow) {
    for (int i = 0; i < DEPTH; i++) {
        free(flow->buffers[i]);
    }
}

static size_t next_size(struct flow* flow) {
    if (random_below(&flow->sizes, 60) == 0) {
        return LONGEST - random_below(&flow->sizes, 1000);
    }
    return random_threshold(&flow->sizes);
}

/* Starts sends to the peer until DEPTH are under way. */
static void send_more(struct flow* flow, int to) {
    int done;

    while (flow->ended < flow->started) {
        MPI_Test(&flow->requests[flow->ended % DEPTH], &done, MPI_STATUS_IGNORE);
        if (!done) {
            break;
        }
        flow->ended++;
    }
    while (flow->started < per_pair && flow->started - flow->ended < DEPTH) {
        const int slot = flow->started % DEPTH;
        const size_t n = next_size(flow);

        fill(flow->buffers[slot], n, seed_of(rank, to, flow->started));
        (flow->started % 9 == 8 ? MPI_Issend : MPI_Isend)(
            flow->buffers[slot], (int)n, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &flow->requests[slot]);
        flow->started++;
    }
}

static void receive(struct flow* flow, int slot, int source) {
    MPI_Irecv(flow->buffers[slot], LONGEST, MPI_BYTE, source, TAG, MPI_COMM_WORLD,
              &flow->requests[slot]);
}

static void check(struct flow* of_sender, unsigned char* p, const MPI_Status* status) {
    const size_t n = next_size(of_sender);

    expect_count("order: length", status, n);
    reset(p + n, 0); /* of the room behind the message, expect() looks at the guard only */
    expect("order", p, n, seed_of(status->MPI_SOURCE, rank, of_sender->ended++));
}

/* Receives by source: DEPTH posted for each. Returns how many have ended. */
static int receive_named(struct flow* in) {
    int ended = 0, done;
    MPI_Status status;

    for (int from = 0; from < ranks; from++) {
        struct flow* flow = &in[from];
        if (from == rank) {
            continue;
        }
        while (flow->started < per_pair && flow->started - flow->ended < DEPTH) {
            receive(flow, flow->started++ % DEPTH, from);
        }
        if (flow->ended < flow->started) {
            const int slot = flow->ended % DEPTH;
            MPI_Test(&flow->requests[slot], &done, &status);
            if (done) {
                check(flow, flow->buffers[slot], &status);
                ended++;
            }
        }
    }
    return ended;
}

/* Receives from anybody, in the order of posting. `any` holds the buffers; `in` what was seen. */
static int receive_any(struct flow* any, struct flow* in, int total) {
    int ended = 0, done;
    MPI_Status status;

    while (any->started < total && any->started - any->ended < DEPTH) {
        receive(any, any->started++ % DEPTH, MPI_ANY_SOURCE);
    }
    if (any->ended < any->started) {
        const int slot = any->ended % DEPTH;
        MPI_Test(&any->requests[slot], &done, &status);
        if (done) {
            check(&in[status.MPI_SOURCE], any->buffers[slot], &status);
            any->ended++;
            ended++;
        }
    }
    return ended;
}

static void run(int wildcard) {
    struct flow *out = calloc((size_t)ranks, sizeof *out), *in = calloc((size_t)ranks, sizeof *in);
    struct flow any;
    int left, sending = 1;

    per_pair = MESSAGES / ranks;
    left = per_pair * (ranks - 1);
    for (int peer = 0; peer < ranks; peer++) {
        begin(&out[peer], rank, peer);
        begin(&in[peer], peer, rank);
    }
    begin(&any, 0, rank);
    while (left > 0 || sending) {
        sending = 0;
        for (int to = 0; to < ranks; to++) {
            if (to != rank && out[to].ended < per_pair) {
                send_more(&out[to], to);
                sending = 1;
            }
        }
        left -= wildcard ? receive_any(&any, in, per_pair * (ranks - 1)) : receive_named(in);
    }
    for (int peer = 0; peer < ranks; peer++) {
        end(&out[peer]);
        end(&in[peer]);
    }
    end(&any);
    free(out);
    free(in);
}

void order(void) {
    run(0);
    MPI_Barrier(MPI_COMM_WORLD);
    run(1);
}
