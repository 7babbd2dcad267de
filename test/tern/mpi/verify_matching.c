/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sections of verify: which receive gets which message. All ranks send to all others at random: in
 * several communicators, with few tags and with many, small and large, some synchronous. Receives
 * are posted at random too, half of them wildcards, so that one may take what another was meant
 * for: what then has no receive is probed, and receives that are left in the end are canceled.
 */
#include "verify.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { COMMS = 3, UNIQUE = 10000, NUMBER = sizeof(int) };

struct kind {
    int messages; /* from all others, about */
    int tags;
    unsigned longest;
};

struct message {
    int comm, tag, synchronous;
    unsigned size;
};

/* A receive, in the order of posting, or of its probe. */
struct receive {
    int comm, source, tag; /* as posted */
    int from, number;      /* what it got; number -1: nothing yet */
    unsigned char* buffer;
};

struct round {
    MPI_Comm comms[COMMS];
    struct kind kind;
    unsigned seed; /* of the messages, the same at all ranks */
    unsigned state;
    int count; /* of messages from one rank to another */
    int posted, received;
    struct message *in, *out; /* by other rank and number */
    unsigned char* seen;
    struct receive* receives;
    MPI_Request *requests, *sends; /* of the receives; by other rank and number */
    unsigned char** buffers;       /* of the sends */
};

static int translated(int comm, int who) {
    return comm == 1 && who >= 0 ? ranks - 1 - who : who; /* that one has its ranks reversed */
}

static unsigned seed_of_message(const struct round* r, int from, int to, int number) {
    return seed_of(from, to, number) + r->seed;
}

static void draw(const struct round* r, int from, int to, struct message* messages) {
    unsigned state = seed_of_message(r, from, to, 0) * 2654435761u;

    for (int i = 0; i < r->count; i++) {
        struct message* m = &messages[i];
        m->comm = (int)random_below(&state, COMMS);
        m->tag = (int)random_below(&state, (unsigned)r->kind.tags);
        m->synchronous = random_below(&state, 8) == 0;
        do {
            m->size = random_threshold(&state);
        } while (m->size > r->kind.longest);
        if (m->size < NUMBER) { /* no room for its number */
            m->tag = UNIQUE + i;
        }
    }
}

static void send_one(struct round* r, int to, int number) {
    const int at = to * r->count + number;
    const struct message* m = &r->out[at];
    unsigned char* p = r->buffers[at] = make_buffer(m->size);

    fill(p, m->size, seed_of_message(r, rank, to, number));
    if (m->size >= NUMBER) {
        memcpy(p, &number, NUMBER);
    }
    (m->synchronous ? MPI_Issend : MPI_Isend)(p, (int)m->size, MPI_BYTE, translated(m->comm, to),
                                              m->tag, r->comms[m->comm], &r->sends[at]);
}

/* A receive for some message that is to come, or for more than that. */
static void post_one(struct round* r) {
    struct receive* receive = &r->receives[r->posted];
    const int from = (rank + 1 + (int)random_below(&r->state, (unsigned)ranks - 1)) % ranks;
    const int number = (int)random_below(&r->state, (unsigned)r->count);
    const struct message* m = &r->in[from * r->count + number];
    const unsigned any = random_below(&r->state, 16);

    receive->comm = m->comm;
    receive->source = any == 0 || any == 1 ? MPI_ANY_SOURCE : from;
    receive->tag = any == 0 || any >= 10 ? MPI_ANY_TAG : m->tag;
    receive->number = -1;
    receive->buffer = make_buffer(r->kind.longest);
    MPI_Irecv(receive->buffer, (int)r->kind.longest, MPI_BYTE, translated(m->comm, receive->source),
              receive->tag, r->comms[m->comm], &r->requests[r->posted++]);
}

/* What has come is one of the messages, and comes once. */
static void check(struct round* r, struct receive* receive, const MPI_Status* status) {
    const int from = translated(receive->comm, status->MPI_SOURCE);
    const struct message* m;
    int number, count;

    MPI_Get_count(status, MPI_BYTE, &count);
    number = status->MPI_TAG - UNIQUE;
    if (count >= NUMBER) {
        memcpy(&number, receive->buffer, NUMBER);
    }
    if (from < 0 || from >= ranks || number < 0 || number >= r->count) {
        expect_value("matching: number", number, 0);
        return;
    }
    m = &r->in[from * r->count + number];
    expect_value("matching: times", r->seen[from * r->count + number]++, 0);
    expect_value("matching: communicator", receive->comm, m->comm);
    expect_value("matching: tag", status->MPI_TAG, m->tag);
    expect_value("matching: count", count, m->size);
    if (receive->source != MPI_ANY_SOURCE) {
        expect_value("matching: source", from, receive->source);
    }
    if (receive->tag != MPI_ANY_TAG) {
        expect_value("matching: tag posted", status->MPI_TAG, receive->tag);
    }
    if (m->size >= NUMBER) { /* what fill() has put there */
        unsigned char first[NUMBER + 64];
        fill(first, NUMBER, seed_of_message(r, from, rank, number));
        memcpy(receive->buffer, first, NUMBER);
    }
    expect("matching", receive->buffer, m->size, seed_of_message(r, from, rank, number));
    receive->from = from;
    receive->number = number;
    r->received++;
    free(receive->buffer);
}

static void take_posted(struct round* r) {
    int index, flag = 1;
    MPI_Status status;

    while (flag) {
        MPI_Testany(r->posted, r->requests, &index, &flag, &status);
        if (!flag || index == MPI_UNDEFINED) {
            return;
        }
        check(r, &r->receives[index], &status);
    }
}

/* A message without a receive. */
static void take_unexpected(struct round* r) {
    const int comm = (int)random_below(&r->state, COMMS);
    struct receive* receive = &r->receives[r->posted];
    MPI_Message message;
    MPI_Status status;
    int flag, count;

    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, r->comms[comm], &flag, &message, &status);
    if (!flag) {
        return;
    }
    MPI_Get_count(&status, MPI_BYTE, &count);
    *receive =
        (struct receive){comm, MPI_ANY_SOURCE, MPI_ANY_TAG, -1, -1, make_buffer((size_t)count)};
    r->requests[r->posted++] = MPI_REQUEST_NULL;
    MPI_Mrecv(receive->buffer, count, MPI_BYTE, &message, &status);
    check(r, receive, &status);
}

static int takes(const struct receive* receive, const struct message* m, int from) {
    return receive->comm == m->comm &&
           (receive->source == MPI_ANY_SOURCE || receive->source == from) &&
           (receive->tag == MPI_ANY_TAG || receive->tag == m->tag);
}

/* No receive has got a message that an earlier receive, which got a later one, or none, was to
 * get. */
static void check_order(const struct round* r) {
    for (int i = 0; i < r->posted; i++) {
        const struct receive* later = &r->receives[i];
        const struct message* m;
        if (later->number < 0) {
            continue;
        }
        m = &r->in[later->from * r->count + later->number];
        for (int j = 0; j < i; j++) {
            const struct receive* earlier = &r->receives[j];
            if (!takes(earlier, m, later->from)) {
                continue;
            }
            expect_value("matching: an earlier receive got nothing", earlier->number < 0, 0);
            if (earlier->from == later->from && earlier->number > later->number) {
                expect_value("matching: order", earlier->number, later->number);
            }
        }
    }
}

static void all_to_all_at_random(struct round* r) {
    const int others = ranks - 1, total = others * (r->count = r->kind.messages / others);
    const size_t all = (size_t)(ranks * r->count);
    int sent = 0, done = 0;
    /* A message that has been probed has a receive too. */
    const size_t most = 3 * (size_t)total;

    r->posted = r->received = 0;
    r->in = calloc(all, sizeof *r->in);
    r->out = calloc(all, sizeof *r->out);
    r->seen = calloc(all, 1);
    r->buffers = calloc(all, sizeof *r->buffers);
    r->sends = malloc(all * sizeof(MPI_Request));
    r->receives = calloc(most, sizeof *r->receives);
    r->requests = malloc(most * sizeof(MPI_Request));
    for (size_t i = 0; i < all; i++) {
        r->sends[i] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < ranks; i++) {
        if (i != rank) {
            draw(r, i, rank, r->in + i * r->count);
            draw(r, rank, i, r->out + i * r->count);
        }
    }
    while (r->received < total || !done) {
        const unsigned burst = random_below(&r->state, 12);
        for (unsigned i = 0; i < burst && sent < total; i++, sent++) {
            send_one(r, (rank + 1 + sent % others) % ranks, sent / others);
        }
        for (unsigned i = random_below(&r->state, 12); i != 0 && r->posted < total; i--) {
            post_one(r);
        }
        take_posted(r);
        if (random_below(&r->state, 4) == 0 || r->posted >= total) {
            take_unexpected(r);
        }
        if (sent == total && !done) {
            MPI_Testall((int)all, r->sends, &done, MPI_STATUSES_IGNORE);
        }
    }
    for (int i = 0; i < r->posted; i++) {
        MPI_Status status;
        int flag;
        if (r->requests[i] == MPI_REQUEST_NULL) {
            continue;
        }
        MPI_Cancel(&r->requests[i]);
        MPI_Wait(&r->requests[i], &status);
        MPI_Test_cancelled(&status, &flag);
        expect_value("matching: nothing is left for it", flag, 1);
        free(r->receives[i].buffer);
    }
    check_order(r);
    for (size_t i = 0; i < all; i++) {
        free(r->buffers[i]);
    }
    free(r->in);
    free(r->out);
    free(r->seen);
    free(r->buffers);
    free(r->sends);
    free(r->receives);
    free(r->requests);
}

static void make_comms(MPI_Comm* comms) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - rank, &comms[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
}

static void at_random(MPI_Comm* comms, int thread) {
    static const struct kind kinds[] = {
        {300, 3, 600}, {600, 5000, 600}, {120, 40, MAX_THRESHOLD}, {300, 1, 9000}};

    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct round r = {{comms[0], comms[1], comms[2]}, kinds[i], 0, 0};
        r.seed = seed * 101 + (unsigned)(thread * 16) + i;
        r.state = r.seed * 64 + (unsigned)rank;
        all_to_all_at_random(&r);
        MPI_Barrier(comms[0]);
    }
}

void matching(void) {
    MPI_Comm comms[COMMS];

    make_comms(comms);
    at_random(comms, 0);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_free(&comms[i]);
    }
}

/* More receives are posted at a time than a transport may take, in another order than the messages
 * come in. */
void matching_many(void) {
    enum { TAGS = 3000 };
    const int peer = rank ^ 1;
    int *order = malloc(TAGS * sizeof *order), *in = malloc(TAGS * sizeof *in);
    int* out = malloc(TAGS * sizeof *out);
    MPI_Request* requests = malloc(2 * TAGS * sizeof *requests);
    unsigned state = seed;

    for (int i = 0; i < TAGS; i++) {
        order[i] = i;
    }
    for (int i = TAGS - 1; i > 0; i--) {
        const int j = (int)random_below(&state, (unsigned)i + 1), old = order[i];
        order[i] = order[j];
        order[j] = old;
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < TAGS; i++) {
            if (i == TAGS * 2 / 3) { /* the last of them come unexpected */
                for (int j = 0; j < TAGS; j++) {
                    out[j] = j * 7 + rank;
                    MPI_Isend(&out[j], 1, MPI_INT, peer, j, MPI_COMM_WORLD, &requests[TAGS + j]);
                }
            }
            in[order[i]] = -1;
            MPI_Irecv(&in[order[i]], 1, MPI_INT, peer, order[i], MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(2 * TAGS, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < TAGS; i++) {
            expect_value("matching, many tags", in[i], i * 7 + peer);
        }
    }
    free(order);
    free(in);
    free(out);
    free(requests);
}

/* A synchronous send ends although its receive is too short. */
void matching_truncated(void) {
    const int peer = rank ^ 1;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int k = 0; k < size_count && sizes[k] <= MAX_THRESHOLD; k++) {
        for (int late = 0; late < 2; late++) {
            const size_t n = sizes[k] + 1;
            unsigned char *out = make_buffer(n), *in = make_buffer(sizes[k]);
            MPI_Request requests[2];
            MPI_Status status;
            int class;

            fill(out, n, seed_of(rank, peer, k));
            if (late) {
                MPI_Issend(out, (int)n, MPI_BYTE, peer, k, MPI_COMM_WORLD, &requests[1]);
            }
            MPI_Irecv(in, (int)sizes[k], MPI_BYTE, peer, k, MPI_COMM_WORLD, &requests[0]);
            if (!late) {
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Issend(out, (int)n, MPI_BYTE, peer, k, MPI_COMM_WORLD, &requests[1]);
            }
            MPI_Error_class(MPI_Wait(&requests[0], &status), &class);
            expect_value("matching, truncated: error", class, MPI_ERR_TRUNCATE);
            expect_value("matching, truncated: send", MPI_Wait(&requests[1], MPI_STATUS_IGNORE),
                         MPI_SUCCESS);
            free(out);
            free(in);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

enum { THREADS = 3 };
static MPI_Comm thread_comms[THREADS][COMMS];

static void* run_thread(void* argument) {
    const int thread = (int)(size_t)argument;
    at_random(thread_comms[thread], thread + 1);
    return NULL;
}

void matching_threads(void) {
    pthread_t ids[THREADS];

    for (int i = 0; i < THREADS; i++) {
        make_comms(thread_comms[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&ids[i], NULL, run_thread, (void*)(size_t)i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < COMMS; j++) {
            MPI_Comm_free(&thread_comms[i][j]);
        }
    }
}
