/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RWAPI_H
#define RWAPI_H

/*
 * RWAPI: remote write with notification. The sender says where everything goes; the target learns
 * that it has come. "Section" below is a section of Ben Fredj and Renault, "RWAPI over InfiniBand:
 * Design and Performance".
 *
 * Conventions:
 * - A call that returns int returns 0 (or a number of its own, as its comment says), or one of the
 *   negative RWAPI_ERR_*. rwapi_strerror() explains it.
 * - No call blocks, unless its name has "wait" or it is rwapi_init, rwapi_finalize,
 *   rwapi_context_create or rwapi_context_destroy: these four wait for all processes of the job.
 *   The first use of a peer asks the launcher for its address.
 * - A child of fork must not call any of them.
 * - A context is NULL for the one that rwapi_init has made, which the paper's ten calls use.
 * - Lengths and offsets are in bytes, times in microseconds; a negative time is without end.
 * - Incoming notifications and small messages are seen by calls that make progress:
 *   rwapi_progress, and all whose names have receive, test, wait or issent.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RWAPI_EXPORT __attribute__((visibility("default")))

enum {
    RWAPI_OK = 0,
    RWAPI_ERR_INVALID = -1,      /* an argument that is never right: a null pointer, a bad flag */
    RWAPI_ERR_STATE = -2,        /* before rwapi_init, or after rwapi_finalize */
    RWAPI_ERR_RANGE = -3,        /* outside of the region, or a slot that the target lacks */
    RWAPI_ERR_STALE = -4,        /* the region or counter has been given back */
    RWAPI_ERR_FOREIGN = -5,      /* made by another context or job, or not by this library */
    RWAPI_ERR_NODE = -6,         /* no such node, or the memory is not that node's */
    RWAPI_ERR_RIGHTS = -7,       /* the region was not registered for this use */
    RWAPI_ERR_AGAIN = -8,        /* a queue is full: make progress and call again */
    RWAPI_ERR_TIMEOUT = -9,      /* the time is over */
    RWAPI_ERR_PEER = -10,        /* the peer is dead, or its connection has failed */
    RWAPI_ERR_MEMORY = -11,      /* no memory, or the limit of locked memory */
    RWAPI_ERR_TRANSPORT = -12,   /* UCX or the device has failed */
    RWAPI_ERR_START = -13,       /* the launcher did not do its part */
    RWAPI_ERR_UNSUPPORTED = -14, /* the transport cannot do this */
    RWAPI_ERR_BUSY = -15         /* rwapi_arm: events are waiting already; make progress */
};

/* What an error is called, with a remedy; never NULL. */
RWAPI_EXPORT const char* rwapi_strerror(int error);

/*
 * ---- The paper's ten calls (section 2) ----
 */

/* A network address: memory of a node. 16 bytes, so that it fits into a small message. */
typedef struct rwapi_net {
    uint64_t word[2];
} rwapi_net;

/* A small message. */
typedef struct rwapi_small {
    unsigned char bytes[16];
} rwapi_small;

/* An operation. 0: complete already. Negative: an error. Positive: for rwapi_issent and others. */
typedef int64_t rwapi_id;

/* Sets up communication; waits for all processes of the job. Both arguments may be NULL; they are
 * not changed today. RWAPI_ERR_START, _TRANSPORT, _MEMORY; _STATE if called twice. */
RWAPI_EXPORT int rwapi_init(int* argc, char*** argv);

/* Completes what this process has begun, waits for the other processes, and frees everything. If a
 * peer has died, it waits for 30 s (RWAPI_FINALIZE_TIMEOUT) at most, and fails (RWAPI_ERR_TIMEOUT)
 * only if writes to other peers are not complete by then. */
RWAPI_EXPORT int rwapi_finalize(void);

/* The number of nodes (processes), and this one's number, from 0; or RWAPI_ERR_STATE. */
RWAPI_EXPORT int rwapi_size(void);
RWAPI_EXPORT int rwapi_rank(void);

/* Allocates memory that peers may write, read and signal. Page-aligned, zero, shared with children
 * of fork. NULL: no memory, or not initialised. The network address is stored in *net. */
RWAPI_EXPORT void* rwapi_alloc(size_t size, rwapi_net* net);

/* Frees memory of rwapi_alloc. Later writes of peers to it fail at the peer. RWAPI_ERR_INVALID if
 * rwapi_alloc did not return this address, RWAPI_ERR_BUSY while writes from it are under way. */
RWAPI_EXPORT int rwapi_free(void* memory);

/* The address `bytes` behind net, for rwapi_write. Bounds are checked when it is used. */
RWAPI_EXPORT rwapi_net rwapi_net_add(rwapi_net net, size_t bytes);

/* Sends a small message. The content is copied. RWAPI_ERR_AGAIN: the target has not received the
 * messages before, so that no more may be sent now; none is lost. */
RWAPI_EXPORT int rwapi_send(int node, const rwapi_small* small);

/* Takes the oldest small message, whoever sent it. 1: *node and *small are set; 0: there is none.
 */
RWAPI_EXPORT int rwapi_receive(int* node, rwapi_small* small);

/* Writes size bytes from this process's memory `from` to memory `to` of node. Returns an id, or an
 * error. `from` may be reused when the id is complete. */
RWAPI_EXPORT rwapi_id rwapi_write(int node, rwapi_net from, rwapi_net to, size_t size);

/* Whether this operation is complete: 1, 0, or the error with which it failed. Exact for each
 * operation, however many peers are written to. Ids of all calls below may be asked for too. */
RWAPI_EXPORT int rwapi_issent(rwapi_id id);

/*
 * ---- Contexts ----
 */

typedef struct rwapi_context rwapi_context;

enum {
    RWAPI_THREAD_SINGLE = 0,  /* one thread uses the context at a time */
    RWAPI_THREAD_MULTIPLE = 1 /* any threads do: one lock around each call */
};

/* A start-up of the user's own, by MPI for example. Functions return 0, or anything else if they
 * failed. They are not called at the same time, but in rwapi_context_destroy the barrier is called
 * by another thread than the one that destroys. The table must live as long as the context, and as
 * that call of the barrier. */
typedef struct rwapi_bootstrap {
    void* context;
    uint32_t rank, size;
    /* Collective. Gives `bytes` bytes from each process to all, in order of rank, in `all`. */
    int (*exchange)(void* context, const void* mine, size_t bytes, void* all);
    int (*barrier)(void* context);
} rwapi_bootstrap;

/* How a context is made; zero members mean the default. */
typedef struct rwapi_params {
    size_t size;                      /* sizeof(rwapi_params) */
    int threads;                      /* RWAPI_THREAD_* */
    uint32_t slots;                   /* notification slots, at most 2^20; default 1024 */
    uint32_t operations;              /* operations under way, 2 to 2^20; default 1024 */
    uint32_t credit;                  /* small messages from one peer, at most 2^15; default 64 */
    const rwapi_bootstrap* bootstrap; /* NULL: that of the launcher */
} rwapi_params;

/* Makes a context; collective, and in the same order everywhere. params may be NULL. */
RWAPI_EXPORT int rwapi_context_create(const rwapi_params* params, rwapi_context** context);

/* As rwapi_finalize does. The context must not be used afterwards. */
RWAPI_EXPORT int rwapi_context_destroy(rwapi_context* context);

/* As the calls of section 2, for a context. */
RWAPI_EXPORT int rwapi_context_size(rwapi_context* context);
RWAPI_EXPORT int rwapi_context_rank(rwapi_context* context);
RWAPI_EXPORT int rwapi_context_send(rwapi_context* context, int node, const rwapi_small* small);
RWAPI_EXPORT int rwapi_context_receive(rwapi_context* context, int* node, rwapi_small* small);

/* The name of the UCT transport and device in use, "tern/softhca0:1", which lives as long as the
 * context; NULL without one. */
RWAPI_EXPORT const char* rwapi_transport(rwapi_context* context);

/*
 * ---- Regions ----
 */

/* Memory of this process (from rwapi_register), or of a peer (from rwapi_region_unpack). */
typedef uint64_t rwapi_region;

enum {
    RWAPI_READ = 1,   /* peers may rwapi_get */
    RWAPI_WRITE = 2,  /* peers may put and notify */
    RWAPI_SIGNAL = 4, /* with RWAPI_WRITE: peers may change its words by rwapi_put_signal */
    RWAPI_ALL = 7
};

#define RWAPI_KEY_MAX 256

/* Lets peers use this memory. rights: RWAPI_READ, _WRITE, _SIGNAL, or 0 for memory that only this
 * process names as local buffers. */
RWAPI_EXPORT int rwapi_register(rwapi_context* context, void* memory, size_t length, int rights,
                                rwapi_region* region);

/* Ends that, or forgets a peer's region. RWAPI_ERR_BUSY while operations that were begun here use
 * the region. */
RWAPI_EXPORT int rwapi_deregister(rwapi_context* context, rwapi_region region);

/* The key of a region of this process, for peers; any means may carry it to them. *length: the
 * room at key, then the key's length, at most RWAPI_KEY_MAX. RWAPI_ERR_RANGE: too little room. */
RWAPI_EXPORT int rwapi_region_pack(rwapi_context* context, rwapi_region region, void* key,
                                   size_t* length);

/* Makes a peer's key a region. RWAPI_ERR_FOREIGN: the key is damaged or of another job. */
RWAPI_EXPORT int rwapi_region_unpack(rwapi_context* context, const void* key, size_t length,
                                     rwapi_region* region);

/* The node, the length or the rights of a region; errors are negative. */
RWAPI_EXPORT int rwapi_region_node(rwapi_context* context, rwapi_region region);
RWAPI_EXPORT int64_t rwapi_region_length(rwapi_context* context, rwapi_region region);
RWAPI_EXPORT int rwapi_region_rights(rwapi_context* context, rwapi_region region);

/*
 * ---- Write and read ----
 *
 * `region` is a peer's region or one of this process; `local` is any memory of this process:
 * memory that is not registered is copied, or registered for the operation. id may be NULL; the
 * memory may then be reused, and an error is told, after rwapi_flush. RWAPI_ERR_AGAIN: too many
 * operations are under way.
 */

/* Writes. Complete: local may be reused. The peer has the data for sure after rwapi_flush. */
RWAPI_EXPORT int rwapi_put(rwapi_context* context, rwapi_region region, uint64_t offset,
                           const void* local, size_t length, rwapi_id* id);

/* Reads. Complete: the data are at local. */
RWAPI_EXPORT int rwapi_get(rwapi_context* context, rwapi_region region, uint64_t offset,
                           void* local, size_t length, rwapi_id* id);

/*
 * ---- Notification (figure 2.1, steps 8 to 10) ----
 *
 * The target sees a notification only after the data of its write, and notifications of one sender
 * in the order of their calls. length may be 0. A notification without data for memory that has
 * been given back is dropped; the next flush to its owner, and later uses of the region, fail with
 * RWAPI_ERR_STALE once the owner's answer has come.
 */

enum { RWAPI_SIGNAL_SET = 0, RWAPI_SIGNAL_ADD = 1 };

/* A write, then a change of the 64-bit word at signal_offset of the same region. The word's address
 * must be a multiple of 8. The target may read the word by rwapi_signal_read. */
RWAPI_EXPORT int rwapi_put_signal(rwapi_context* context, rwapi_region region, uint64_t offset,
                                  const void* local, size_t length, uint64_t signal_offset,
                                  uint64_t value, int operation, rwapi_id* id);

/* A write, then value, which is not 0, in a notification slot of the target's context. */
RWAPI_EXPORT int rwapi_put_notify(rwapi_context* context, rwapi_region region, uint64_t offset,
                                  const void* local, size_t length, uint32_t slot, uint64_t value,
                                  rwapi_id* id);

/* A write that counters of the target count, and no more. Counters count the other two as well. */
RWAPI_EXPORT int rwapi_put_count(rwapi_context* context, rwapi_region region, uint64_t offset,
                                 const void* local, size_t length, rwapi_id* id);

/* The value of a signal word of this process; what was written before the signal is visible. */
RWAPI_EXPORT uint64_t rwapi_signal_read(const uint64_t* word);

/* Waits until the word is at least value. */
RWAPI_EXPORT int rwapi_signal_wait(rwapi_context* context, const uint64_t* word, uint64_t value,
                                   int64_t timeout);

/* 1: the slot is set, and *value (may be NULL) is its latest value; 0: it is not. */
RWAPI_EXPORT int rwapi_notify_test(rwapi_context* context, uint32_t slot, uint64_t* value);

/* Waits until it is set. 0, RWAPI_ERR_TIMEOUT. */
RWAPI_EXPORT int rwapi_notify_wait(rwapi_context* context, uint32_t slot, uint64_t* value,
                                   int64_t timeout);

/* Waits until one of n slots from first is set, and stores its number in *slot. */
RWAPI_EXPORT int rwapi_notify_waitsome(rwapi_context* context, uint32_t first, uint32_t n,
                                       uint32_t* slot, int64_t timeout);

/* Empties a slot. Returns how many notifications came since the last reset (0: it was empty; more
 * than 1: all but the latest value were overwritten); *value (may be NULL) is the latest. */
RWAPI_EXPORT int rwapi_notify_reset(rwapi_context* context, uint32_t slot, uint64_t* value);

/* A counter of notified writes into regions of this process. */
typedef uint64_t rwapi_counter;

RWAPI_EXPORT int rwapi_counter_create(rwapi_context* context, rwapi_counter* counter);
RWAPI_EXPORT int rwapi_counter_free(rwapi_context* context, rwapi_counter counter);

/* Has the counter count the region's notified writes from now on, and adds `expected` to what it
 * expects. A region has one counter at most; a new one takes the place of the old. */
RWAPI_EXPORT int rwapi_counter_attach(rwapi_context* context, rwapi_counter counter,
                                      rwapi_region region, uint64_t expected);

/* 1: at least as many writes as expected have come; 0: not yet. *writes and *bytes, if not NULL,
 * are what has come since the last reset. */
RWAPI_EXPORT int rwapi_counter_test(rwapi_context* context, rwapi_counter counter, uint64_t* writes,
                                    uint64_t* bytes);
RWAPI_EXPORT int rwapi_counter_wait(rwapi_context* context, rwapi_counter counter, int64_t timeout);

/* Takes the expected number off, so that early writes of the next round count for it; bytes
 * become 0. RWAPI_ERR_RANGE: fewer have come. */
RWAPI_EXPORT int rwapi_counter_reset(rwapi_context* context, rwapi_counter counter);

/*
 * ---- Completion and progress ----
 */

/* 1: complete, 0: not yet, or the operation's error. The results of the latest 1024 operations
 * (rwapi_params.operations) are kept; older ones are taken for complete. */
RWAPI_EXPORT int rwapi_test(rwapi_context* context, rwapi_id id);
RWAPI_EXPORT int rwapi_wait(rwapi_context* context, rwapi_id id, int64_t timeout);

/* Waits until one of n operations is complete or has failed, stores its position in *index and
 * returns its result. */
RWAPI_EXPORT int rwapi_wait_any(rwapi_context* context, const rwapi_id* ids, size_t n,
                                size_t* index, int64_t timeout);

/* An operation that completes when all earlier ones to the node (to all nodes) are complete and
 * their data are in the target's memory. */
RWAPI_EXPORT int rwapi_flush(rwapi_context* context, int node, rwapi_id* id);
RWAPI_EXPORT int rwapi_flush_all(rwapi_context* context, rwapi_id* id);

/* Later writes to the node take effect after earlier ones. */
RWAPI_EXPORT int rwapi_fence(rwapi_context* context, int node);

/* Moves things on. The number of events that were handled; 0: nothing happened. */
RWAPI_EXPORT int rwapi_progress(rwapi_context* context);

/* A file descriptor that becomes readable when something comes after rwapi_arm has returned 0; it
 * belongs to the context. Then, or after RWAPI_ERR_BUSY, call rwapi_progress until it returns 0. */
RWAPI_EXPORT int rwapi_event_fd(rwapi_context* context, int* fd);
RWAPI_EXPORT int rwapi_arm(rwapi_context* context);

/* 0: nothing bad is known of the node; RWAPI_ERR_PEER: it is dead. Probes it if it was used. */
RWAPI_EXPORT int rwapi_peer_status(rwapi_context* context, int node);

#ifdef __cplusplus
}
#endif

#endif
