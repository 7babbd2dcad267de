// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: death STATE [SECONDS]
 *
 * Two processes, whose endpoints have error handling by peer. In the given state of their
 * connections one of them is killed (the victim). The other one must be told within so many
 * seconds; how long it took is printed. In state "stopped" the victim is only stopped for so many
 * seconds: nobody may be told, and messages sent meanwhile arrive when it goes on.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "two.h"

enum { kLong = 4 << 20, kWorkers = 3 };

/* The victim's part of a state: what it does until it is killed. */
enum part {
    kNothing,  /* calls progress */
    kComputes, /* does not call it */
    kSends,    /* short messages */
    kReceives, /* short messages */
    kSendsLong,
    kReceivesLong,
};

static const struct state {
    const char* name;
    enum part victim, survivor;
    unsigned hello;   /* messages exchanged before; 0: nothing is sent, not even a first one */
    int asleep;       /* the survivor sleeps in the operating system */
    int one_sided;    /* the survivor gets ('g') or puts ('p') instead of sending */
    int posted;       /* the survivor waits for a long message with a tag */
    int before;       /* the victim is killed before the survivor sends for the first time */
    int stops;        /* the victim is stopped, not killed */
    unsigned hush_ms; /* between the last exchange and the kill */
} states[] = {
    {"idle", kNothing, kNothing, 2, .hush_ms = 500},
    {"idle-hot", kNothing, kNothing, 100, .hush_ms = 500},
    {"unused", kNothing, kNothing, 0},
    {"connect", kNothing, kSends, 0, .before = 1},
    {"asleep", kNothing, kNothing, 100, .asleep = 1, .hush_ms = 500},
    {"asleep-receiving", kSends, kReceives, 100, .asleep = 1},
    {"matcher", kNothing, kReceives, 100, .posted = 1, .hush_ms = 500},
    {"receiving-cold", kSends, kReceives, 2},
    {"receiving-hot", kSends, kReceives, 3000},
    {"sending", kReceives, kSends, 100},
    {"sending-stalled", kComputes, kSends, 100},
    {"sending-long", kReceivesLong, kSendsLong, 2},
    {"receiving-long", kSendsLong, kReceivesLong, 2},
    {"getting", kNothing, kSendsLong, 2, .one_sided = 'g'},
    {"putting", kNothing, kSendsLong, 2, .one_sided = 'p'},
    {"ended", kNothing, kNothing, 2, .hush_ms = 5000},
    {"stopped", kNothing, kNothing, 100, .stops = 1},
    {"stopped-unused", kNothing, kNothing, 0, .stops = 1},
    {"stopped-connect", kNothing, kSends, 0, .before = 1, .stops = 1},
};
static const struct state* state;
static double limit = 120;
static double told; /* when the survivor was; 0: not yet */
static ucs_status_t how;
static pid_t victim;
static ucp_worker_h workers[kWorkers]; /* of the victim */
static ucp_ep_h eps[kWorkers];
static void* addresses[kWorkers];
static uint8_t* memory;
static const ucp_request_param_t plain;

static void nap(double seconds) {
    const struct timespec time = {(time_t)seconds,
                                  (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void on_error(void* argument, ucp_ep_h ep, ucs_status_t status) {
    (void)ep;
    if (argument != NULL || told != 0) return;
    told = now();
    how = status;
}

/* Errors of endpoints [1] and so on are told of by the first, which dies at the same time. */
static ucp_ep_h open_endpoint(ucp_worker_h from, const void* to, void* argument) {
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = to,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = on_error, .arg = argument}};
    ucp_ep_h ep;
    check("ucp_ep_create", ucp_ep_create(from, &params, &ep));
    return ep;
}

/* Calls progress for so long, without keeping a processor busy. */
static void wait_quietly(ucp_worker_h of, double seconds) {
    const double end = now() + seconds;
    do {
        if (ucp_worker_progress(of) == 0) nap(0.005);
    } while (now() < end);
}

static int is_over(void* request) {
    return request == NULL || UCS_PTR_IS_ERR(request) ||
           ucp_request_check_status(request) != UCS_INPROGRESS;
}

/* A message of the state's traffic. Null: it is over. */
static void* begin(int is_child, enum part part, ucp_rkey_h key, uint64_t there) {
    const size_t length = part == kSendsLong || part == kReceivesLong ? kLong : 8;
    const ucp_tag_t tag = length == 8 ? 1 : 2;
    if (!is_child && state->one_sided == 'g')
        return ucp_get_nbx(eps[0], memory, kLong, there, key, &plain);
    if (!is_child && state->one_sided == 'p')
        return ucp_put_nbx(eps[0], memory, kLong, there, key, &plain);
    if (part == kReceives || part == kReceivesLong)
        return ucp_tag_recv_nbx(worker, memory, state->posted ? kLong : length, tag, UINT64_MAX,
                                &plain);
    return ucp_tag_send_nbx(eps[0], memory, length, tag, &plain);
}

static void* next(void* request, int is_child, ucp_rkey_h key, uint64_t there) {
    const enum part part = is_child ? state->victim : state->survivor;
    if (part == kNothing || part == kComputes) return NULL;
    /* What has failed is not begun again. */
    if (request != NULL && (UCS_PTR_IS_ERR(request) || !is_over(request))) return request;
    if (request != NULL) ucp_request_free(request);
    return begin(is_child, part, key, there);
}

/* Until it is killed. */
static void be_victim(void) {
    const pid_t own = getpid();
    void* request = NULL;
    if (state->one_sided != 0) {
        const ucp_mem_map_params_t params = {
            .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
            .address = memory,
            .length = kLong};
        ucp_mem_h handle;
        check("ucp_mem_map", ucp_mem_map(context, &params, &handle));
        tell_key(memory, handle);
    }
    tell(&own, sizeof own);
    while (state->victim == kComputes) nap(1);
    for (;;) {
        unsigned count = 0;
        for (int i = 0; i < kWorkers; ++i) count += ucp_worker_progress(workers[i]);
        request = next(request, 1, NULL, 0);
        if (count == 0 && is_over(request)) nap(0.0001);
    }
}

/* The survivor is told in one of its calls of progress, or wakes for it. */
static void wait_for_end(void* request, ucp_rkey_h key, uint64_t there) {
    const double end = now() + limit;
    int fd = -1;
    if (state->asleep) check("ucp_worker_get_efd", ucp_worker_get_efd(worker, &fd));
    while (told == 0 && now() < end) {
        const unsigned count = ucp_worker_progress(worker);
        request = next(request, 0, key, there);
        if (count != 0) continue;
        struct pollfd event = {.fd = fd, .events = POLLIN};
        if (!state->asleep)
            nap(0.005);
        else if (ucp_worker_arm(worker) == UCS_OK)
            poll(&event, 1, (int)((end - now()) * 1000) + 1);
    }
}

static void be_stopped(void) {
    static uint64_t first = 1;
    void* request = NULL;
    kill(victim, SIGSTOP);
    const double stopped = now();
    if (state->hello != 0 || state->before)
        request = ucp_tag_send_nbx(eps[0], &first, sizeof first, 3, &plain);
    while (told == 0 && now() < stopped + limit) wait_quietly(worker, 0.1);
    kill(victim, SIGCONT);
    wait_quietly(worker, 2);
    kill(victim, SIGKILL);
    if (told != 0) {
        printf("%s: told after %.1f s: %s\n", state->name, told - stopped, ucs_status_string(how));
        fflush(stdout);
        _exit(1);
    }
    if (!is_over(request) || UCS_PTR_IS_ERR(request)) die(state->name, "the message is not sent");
    printf("%s: nobody was told\n", state->name);
}

static void survive(void) {
    ucp_rkey_h key = NULL;
    uint64_t there = 0;
    void* request = NULL;
    if (state->one_sided != 0) there = hear_key(eps[0], &key);
    hear(&victim, sizeof victim);
    if (state->stops) return be_stopped();
    if (!state->before) {
        const double end = now() + (state->hush_ms != 0 ? state->hush_ms * 1e-3 : 0.5);
        while (now() < end) {
            const unsigned count = ucp_worker_progress(worker);
            request = next(request, 0, key, there);
            if (count == 0) nap(0.0001);
        }
    }
    if (told != 0) die(state->name, "the endpoint failed before the kill");
    const double killed = now();
    kill(victim, SIGKILL);
    wait_for_end(request, key, there);
    if (told == 0) die(state->name, "nobody was told");
    printf("%s: told after %.1f s: %s\n", state->name, told - killed, ucs_status_string(how));
}

/* The victim has some workers, with each of which the survivor has a connection. */
static void exchange_addresses(int is_child) {
    size_t length;
    for (int i = 0; i < kWorkers; ++i) {
        if (is_child) {
            const ucp_worker_params_t params = {0};
            ucp_address_t* address;
            workers[i] = worker;
            if (i != 0)
                check("ucp_worker_create", ucp_worker_create(context, &params, &workers[i]));
            check("ucp_worker_get_address", ucp_worker_get_address(workers[i], &address, &length));
            tell(&length, sizeof length);
            tell(address, length);
        } else {
            hear(&length, sizeof length);
            addresses[i] = malloc(length);
            hear(addresses[i], length);
        }
    }
}

static void say_hello(int is_child) {
    for (int i = 0; i < kWorkers; ++i) {
        ucp_worker_h own = is_child ? workers[i] : worker;
        eps[i] =
            open_endpoint(own, is_child ? peer_address : addresses[i], i != 0 ? &eps[i] : NULL);
        uint64_t out = 1, in = 0;
        for (unsigned k = 0; k < state->hello; ++k) {
            void* requests[] = {
                ucp_tag_recv_nbx(own, &in, sizeof in, (ucp_tag_t)(100 + i), UINT64_MAX, &plain),
                ucp_tag_send_nbx(eps[i], &out, sizeof out, (ucp_tag_t)(100 + i), &plain)};
            for (int r = 0; r < 2; ++r) {
                while (!is_over(requests[r])) ucp_worker_progress(own);
                if (UCS_PTR_IS_ERR(requests[r])) die("hello", "it fails");
                if (requests[r] != NULL) ucp_request_free(requests[r]);
            }
        }
    }
}

static void run(int is_child, unsigned rounds) {
    (void)rounds;
    if (is_child) prctl(PR_SET_PDEATHSIG, SIGKILL);
    memory = malloc(kLong);
    memset(memory, is_child + 1, kLong);
    open_worker(UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP);
    exchange_addresses(is_child);
    if (is_child && state->before) {
        const pid_t own = getpid();
        tell(&own, sizeof own);
        while (!state->stops) pause();
        for (;;) wait_quietly(worker, 1);
    }
    if (!state->before) say_hello(is_child);
    if (is_child) be_victim();
    if (state->before) eps[0] = open_endpoint(worker, addresses[0], NULL);
    survive();
    fflush(stdout);
    _exit(0); /* in good order there is nothing left to end */
}

int main(int argc, char** argv) {
    for (unsigned i = 0; i < sizeof states / sizeof *states; ++i)
        if (argc > 1 && !strcmp(argv[1], states[i].name)) state = &states[i];
    if (state == NULL) {
        fprintf(stderr, "usage: %s STATE [SECONDS]\nstates:", argv[0]);
        for (unsigned i = 0; i < sizeof states / sizeof *states; ++i)
            fprintf(stderr, " %s", states[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    if (argc > 2) limit = atof(argv[2]);
    return run_two(run, "death: survivor", "death: victim", 0);
}
