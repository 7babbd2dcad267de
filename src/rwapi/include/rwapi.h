/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RWAPI_H
#define RWAPI_H

/*
 * RWAPI: remote write with notification. The sender determines where data go in the target's
 * memory; the target is notified when they have arrived. "Section" below is a section of Ben Fredj
 * and Renault, "RWAPI over InfiniBand: Design and Performance".
 *
 * Conventions, which hold unless the comment of a call says otherwise:
 * - A call that returns int returns 0, or one of the negative RWAPI_ERR_*. rwapi_strerror()
 *   explains it. Where a number of its own is returned, compare it with 0: an error is no "true".
 * - Errors: _INVALID and _STATE of any call; of those with a network address also _RANGE, _STALE,
 *   _FOREIGN, _NODE, _RIGHTS, _PEER; of those that begin an operation also _AGAIN (only with
 *   RWAPI_FULL_AGAIN), _MEMORY, _TRANSPORT. After an error nothing has begun. Each error of an
 *   operation is returned once: by the call, by a test or wait for its id, by a flush, or by the
 *   end of the context.
 * - Completion: an operation is complete when the memory of this process that it uses may be
 *   reused (of a get or atomic operation: has the data). That the data are in the target's memory
 *   only a flush tells. Those with an id are asked for by it, and others by a flush.
 * - Ownership: memory of an operation (`local`, `result`) belongs to it until it is complete. All
 *   else that arguments point to is read or written within the call only.
 * - Threads: one at a time for each context; any number, with a lock around each call, if it has
 *   RWAPI_THREAD_MULTIPLE. rwapi_strerror, rwapi_net_add, rwapi_net_node and rwapi_signal_read are
 *   for any thread.
 * - A call waits only if its name has "wait", if it is collective (rwapi_init, rwapi_finalize,
 *   rwapi_context_create, rwapi_context_destroy, rwapi_share, rwapi_barrier: all processes of the
 *   job make these in the same order), or if it sends or begins an operation and a queue is full:
 *   then it makes progress until there is room, or returns RWAPI_ERR_AGAIN if the context has
 *   RWAPI_FULL_AGAIN. At the first use of a peer, it requests the peer's address from the launcher;
 *   if that fails, the call returns RWAPI_ERR_START, and the peer does not count as dead. Signals
 *   do not end a wait.
 * - A child of fork must not call any of them.
 * - NULL as a context means the one of rwapi_init, which the paper's ten calls use.
 * - Lengths and offsets are in bytes, times in microseconds; a negative time limit means none.
 * - What the target may assume of two things that one process issues to it (fence: only with
 *   rwapi_fence between them; flush: only if a flush between them is complete; wait: only if the
 *   first is complete; -: nothing):
 *
 *     first \ then        put, list   signal, slot   polled word   small message   get, atomic
 *     put, write, list    fence       in order       fence*        in order        flush
 *     signal, slot        -           in order       -             in order        -
 *     polled word         fence       in order       fence         in order        flush
 *     small message       -           in order       -             in order        -
 *     get                 wait        wait           wait          wait            -
 *     atomic operation    flush       flush          flush         flush           -
 *     (* the data of the same call come before their word)
 *
 *   Nothing is ordered between different senders or targets, or by rwapi_barrier and rwapi_share.
 * - Notifications and small messages are received by calls that make progress: rwapi_progress, and
 *   all whose names have receive, test, wait or issent, rwapi_share and rwapi_barrier; and puts,
 *   writes, gets and atomic operations that must wait for room to send.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface. A program for 0.N runs with a library of 0.M, if M >= N; 1.0 may break that. */
#define RWAPI_VERSION_MAJOR 0
#define RWAPI_VERSION_MINOR 3

#define RWAPI_EXPORT __attribute__((visibility("default")))

enum {
    RWAPI_OK = 0,
    RWAPI_ERR_INVALID = -1,      /* an argument that is never valid: a null pointer, a bad flag */
    RWAPI_ERR_STATE = -2,        /* before rwapi_init, or after rwapi_finalize */
    RWAPI_ERR_RANGE = -3,        /* outside of the memory, or no such slot of the target */
    RWAPI_ERR_STALE = -4,        /* the memory has been deregistered */
    RWAPI_ERR_FOREIGN = -5,      /* made by another context or job, or not by this library */
    RWAPI_ERR_NODE = -6,         /* no such node, or the memory is not that node's */
    RWAPI_ERR_RIGHTS = -7,       /* the memory was not registered for this use */
    RWAPI_ERR_AGAIN = -8,        /* a queue is full: make progress and call again; see above */
    RWAPI_ERR_TIMEOUT = -9,      /* the time limit has passed */
    RWAPI_ERR_PEER = -10,        /* the peer is dead or leaves, or its connection has failed */
    RWAPI_ERR_MEMORY = -11,      /* no memory, or the limit of locked memory */
    RWAPI_ERR_TRANSPORT = -12,   /* UCX or the device has failed */
    RWAPI_ERR_START = -13,       /* the launcher has failed, at the start or later */
    RWAPI_ERR_UNSUPPORTED = -14, /* the transport cannot do this */
    RWAPI_ERR_BUSY = -15         /* rwapi_arm: events are waiting already; make progress */
};

/* A description of an error, with a remedy; never NULL. */
RWAPI_EXPORT const char* rwapi_strerror(int error);

/*
 * ---- The paper's ten calls (section 2) ----
 */

/* A network address: memory of a node, from rwapi_alloc or rwapi_register. All calls that concern
 * memory of a peer take it. 16 bytes, so that it fits into a small message; it is valid in all
 * processes of the job, until the memory is freed or deregistered. */
typedef struct rwapi_net {
    uint64_t word[2];
} rwapi_net;

/* A small message. */
typedef struct rwapi_small {
    unsigned char bytes[16];
} rwapi_small;

/* The id of an operation, for rwapi_issent and others. 0: it is complete. Negative: an error. */
typedef int64_t rwapi_id;

/* Sets up communication, and waits for all processes of the job. Both arguments may be NULL; this
 * version does not use them. rwapi_init_params is the same with parameters. RWAPI_ERR_START,
 * _TRANSPORT, _MEMORY; _STATE if called twice. A process without a transport, or with another one
 * than node 0, fails; the others do not wait for it, and calls that concern it fail. */
RWAPI_EXPORT int rwapi_init(int* argc, char*** argv);

/* Completes the operations of this process, waits for the other processes, and frees everything. If
 * a peer has died, it waits for 30 s (RWAPI_FINALIZE_TIMEOUT) at most, and fails
 * (RWAPI_ERR_TIMEOUT) if writes to other peers are not complete by then, or if others may not have
 * come to their end: they may still write to memory that is gone. So they may if the launcher has
 * failed (RWAPI_ERR_START). Errors of writes to living peers that no other call has returned are
 * its errors. */
RWAPI_EXPORT int rwapi_finalize(void);

/* The number of nodes (processes), and the number of this node, from 0; or an error. */
RWAPI_EXPORT int rwapi_size(void);
RWAPI_EXPORT int rwapi_rank(void);

/* Allocates memory that peers may write, read and signal. It is page-aligned, filled with zeros,
 * and in huge pages if it is long and the system has them. It is the library's, until rwapi_free or
 * the end of the context. Stores its network address in *net. NULL: no memory, or not initialised.
 */
RWAPI_EXPORT void* rwapi_alloc(size_t size, rwapi_net* net);

/* Frees memory of rwapi_alloc. As rwapi_deregister. RWAPI_ERR_INVALID if rwapi_alloc did not return
 * this address. */
RWAPI_EXPORT int rwapi_free(void* memory);

/* The address `bytes` after net; the calls that use it check the bounds. */
RWAPI_EXPORT rwapi_net rwapi_net_add(rwapi_net net, size_t bytes);

/* The node that has the memory. */
RWAPI_EXPORT int rwapi_net_node(rwapi_net net);

/* Sends a small message, which is copied. No message is lost: there is credit for some, then the
 * queue is full until the target has received earlier ones. Two processes that only send to each
 * other wait for ever, and a full queue to this process itself is RWAPI_ERR_AGAIN in any context.
 * RWAPI_ERR_PEER also if the target is in rwapi_finalize, where it receives none. */
RWAPI_EXPORT int rwapi_send(int node, const rwapi_small* small);

/* Receives the oldest small message of any node. Returns 1: *node and *small are set; 0: there is
 * none. */
RWAPI_EXPORT int rwapi_receive(int* node, rwapi_small* small);

/* Writes size bytes from this process's memory `from` to memory `to` of node. Returns an id, or an
 * error. `from` may be reused when the id is complete. */
RWAPI_EXPORT rwapi_id rwapi_write(int node, rwapi_net from, rwapi_net to, size_t size);

/* Whether this operation is complete: returns 1, 0, or the error with which it has failed. The
 * result is exact for each operation, also with several peers. Ids of all calls below are permitted
 * too. rwapi_test is the same without a number to be mistaken. */
RWAPI_EXPORT int rwapi_issent(rwapi_id id);

/*
 * ---- Contexts ----
 */

typedef struct rwapi_context rwapi_context;

enum {
    RWAPI_THREAD_SINGLE = 0,  /* one thread uses the context at a time */
    RWAPI_THREAD_MULTIPLE = 1 /* any threads use it; each call takes a lock */
};

/* A start-up by the program itself, by MPI for example. The functions are called by the threads
 * that create and destroy the context, within these calls, and must exist until then. */
typedef struct rwapi_bootstrap {
    void* context;
    uint32_t rank, size;
    /* Collective. Gathers `bytes` bytes of each process, in the order of the ranks, in `all`. 0, or
     * anything else on failure. */
    int (*exchange)(void* context, const void* mine, size_t bytes, void* all);
    /* Collective: begins the barrier of the end, and does not wait for it. 0, or anything else on
     * failure. */
    int (*barrier_begin)(void* context);
    /* Then called again and again. 1: all processes have begun the barrier; 0: not yet; anything
     * else on failure. */
    int (*barrier_test)(void* context);
} rwapi_bootstrap;

enum {
    RWAPI_DEATH_GO_ON = 0, /* a wait goes on while a peer is left that may be alive */
    RWAPI_DEATH_REPORT = 1 /* a death of a peer ends all waits with RWAPI_ERR_PEER, until
                            * rwapi_peer_status has told of it */
};

enum {
    RWAPI_WAIT_POLL = 0, /* waits poll, and yield the processor if nothing comes for long */
    RWAPI_WAIT_SLEEP = 1 /* after some polls without result (a thousand; fifty if several threads
                          * use the context), waits sleep until an event comes; see rwapi_arm */
};

enum {
    RWAPI_FULL_WAIT = 0, /* calls that find a queue full make progress until there is room */
    RWAPI_FULL_AGAIN = 1 /* they return RWAPI_ERR_AGAIN; so that a thread can do other things */
};

/* Parameters of a context. A member that is 0 has its default. */
typedef struct rwapi_params {
    size_t size;                      /* sizeof(rwapi_params) */
    int threads;                      /* RWAPI_THREAD_* */
    uint32_t slots;                   /* notification slots, at most 2^20; default 1024 */
    uint32_t operations;              /* operations under way, 2 to 2^20; default 1024 */
    uint32_t credit;                  /* small messages from one peer, at most 2^15; default 64 */
    const rwapi_bootstrap* bootstrap; /* NULL: that of the launcher */
    int on_peer_death; /* RWAPI_DEATH_*: for waits that do not say for whom they wait; see below */
    int wait;          /* RWAPI_WAIT_*: for all calls that wait, rwapi_share, rwapi_barrier,
                        * and the end of the context */
    int full;          /* RWAPI_FULL_* */
} rwapi_params;

/* As rwapi_init, with parameters (NULL: the defaults) for the context that NULL names. */
RWAPI_EXPORT int rwapi_init_params(const rwapi_params* params);

/* Makes a context. Collective; all processes make their contexts in the same order. params may be
 * NULL. */
RWAPI_EXPORT int rwapi_context_create(const rwapi_params* params, rwapi_context** context);

/* As rwapi_finalize, for a context, which must not be used afterwards. */
RWAPI_EXPORT int rwapi_context_destroy(rwapi_context* context);

/* As the calls of section 2, for a context. */
RWAPI_EXPORT int rwapi_context_size(rwapi_context* context);
RWAPI_EXPORT int rwapi_context_rank(rwapi_context* context);
RWAPI_EXPORT int rwapi_context_send(rwapi_context* context, int node, const rwapi_small* small);
RWAPI_EXPORT int rwapi_context_receive(rwapi_context* context, int* node, rwapi_small* small);
RWAPI_EXPORT void* rwapi_context_alloc(rwapi_context* context, size_t size, rwapi_net* net);

/*
 * ---- Memory ----
 */

enum {
    RWAPI_READ = 1,   /* peers may rwapi_get; with all others: also use atomic operations */
    RWAPI_WRITE = 2,  /* peers may put and notify */
    RWAPI_SIGNAL = 4, /* with RWAPI_WRITE: peers may change its words by rwapi_put_signal */
    RWAPI_ALL = 7,
    /* With RWAPI_SIGNAL, and no part of RWAPI_ALL: RWAPI_SIGNAL_SET is a write of the word itself.
     * The word changes without any call of this process, which may wait by rwapi_signal_read alone.
     * rwapi_arm does not see such a signal, and it may overtake other notifications.
     * RWAPI_SIGNAL_ADD must not change the same word. */
    RWAPI_POLLED = 16
};

/* Registers memory of the program, and stores its network address in *net. rights: RWAPI_READ,
 * _WRITE, _SIGNAL, _POLLED; or 0 for memory that is only a local buffer of this process.
 * Memory may be registered several times, with other rights. It must stay mapped until all of its
 * registrations have ended: contexts that register the same memory for the same use share what UCX
 * and the device keep for it. RWAPI_ERR_UNSUPPORTED: it is memory of a GPU. */
RWAPI_EXPORT int rwapi_register(rwapi_context* context, void* memory, size_t length, int rights,
                                rwapi_net* net);

/* Deregisters memory of rwapi_register, or frees that of rwapi_alloc, by any address within it.
 * Peers must have finished with it. If the device refuses a later write, this ends the connection
 * of the two, which count as dead for each other: for the writer at once, for the owner when it
 * sends to the writer or probes it. RWAPI_ERR_BUSY: operations of this process use it. */
RWAPI_EXPORT int rwapi_deregister(rwapi_context* context, rwapi_net net);

/* Collective. Gives each process the addresses of all: peers[i] becomes what node i has given as
 * `local`, any address of its own, or zeros. The keys of the memory come with them, so that the
 * first operation there needs nothing of its owner; some 100 bytes for each are kept until then. If
 * the owner has deregistered the memory in between, that operation is not RWAPI_ERR_STALE, but one
 * that the device refuses; see rwapi_deregister.
 * RWAPI_ERR_PEER: processes have died or are in rwapi_finalize; their addresses are zeros, and so
 * may be those of others, which could not come. RWAPI_ERR_BUSY: another thread is in it or in
 * rwapi_barrier. */
RWAPI_EXPORT int rwapi_share(rwapi_context* context, rwapi_net local, rwapi_net* peers);

/* Collective. Returns when all processes have called it. It does not wait for operations: a flush
 * before it lets their data be there after it. RWAPI_ERR_PEER: processes have died or are in
 * rwapi_finalize, and others may not have called it. RWAPI_ERR_BUSY as above. */
RWAPI_EXPORT int rwapi_barrier(rwapi_context* context);

/*
 * ---- Write and read ----
 *
 * The peer's memory is that `offset` bytes after net, which may be memory of this process, too.
 * `local` is any memory of this process: memory that is not registered is copied, or registered for
 * the operation. It must not be memory of a GPU: short operations would end by a segmentation
 * fault. id may be NULL; else *id becomes 0 if the operation is complete already. The queue is full
 * if rwapi_params.operations are under way.
 *
 * The first operation on a peer's memory fetches the bounds and rights from the peer, unless
 * rwapi_share has brought them, and waits for them in the background. Until they have come, a
 * violation is the operation's error; then it is the call's. An operation of length 0 can fetch
 * them early: it does nothing else.
 */

/* Writes. */
RWAPI_EXPORT int rwapi_put(rwapi_context* context, rwapi_net net, uint64_t offset,
                           const void* local, size_t length, rwapi_id* id);

/* An element of a list: `length` bytes from local to `offset` bytes after net; of rwapi_get_list
 * from there to local, which is written. */
typedef struct rwapi_element {
    rwapi_net net;
    uint64_t offset;
    const void* local;
    size_t length;
} rwapi_element;

/* As rwapi_put or rwapi_get of n elements, by one operation with one id. All are memory of one node
 * (RWAPI_ERR_NODE). Nothing is written if one of them is refused: the keys of all are awaited
 * before the first goes. The elements of all lists that are not complete are at most
 * rwapi_params.operations: a list that is longer is refused (RWAPI_ERR_RANGE). A notification
 * without data after a put comes after all of it; so it does after rwapi_put_strided. */
RWAPI_EXPORT int rwapi_put_list(rwapi_context* context, const rwapi_element* elements, size_t n,
                                rwapi_id* id);
RWAPI_EXPORT int rwapi_get_list(rwapi_context* context, const rwapi_element* elements, size_t n,
                                rwapi_id* id);

/* Blocks of the same length at the same distances: a column or a part of a matrix. */
typedef struct rwapi_blocks {
    size_t length;         /* of a block */
    size_t count;          /* of blocks */
    uint64_t stride;       /* from the begin of a block to that of the next one, at the peer */
    uint64_t local_stride; /* and here. Where blocks are written, it is not less than length; 0
                            * repeats one block that is read */
} rwapi_blocks;

/* As rwapi_put or rwapi_get of each block, by one operation with one id. The first block is at
 * local and at `offset` bytes after net. All that was said about lists holds, but any number of
 * blocks counts as one element. Blocks that are too long to be copied, and not registered, are
 * registered with what is between them. */
RWAPI_EXPORT int rwapi_put_strided(rwapi_context* context, rwapi_net net, uint64_t offset,
                                   const void* local, const rwapi_blocks* blocks, rwapi_id* id);
RWAPI_EXPORT int rwapi_get_strided(rwapi_context* context, rwapi_net net, uint64_t offset,
                                   void* local, const rwapi_blocks* blocks, rwapi_id* id);

/* Reads. */
RWAPI_EXPORT int rwapi_get(rwapi_context* context, rwapi_net net, uint64_t offset, void* local,
                           size_t length, rwapi_id* id);

/* Adds value to the 64-bit word at the address, or replaces it by value if it equals compare. What
 * was there before is at *result (may be NULL) when the operation is complete. The word's address
 * must be a multiple of 8, and its memory have all rights. They are atomic among each other, from
 * all processes, and nothing else should change such a word at the same time. The target does
 * nothing. RWAPI_ERR_UNSUPPORTED: the device has no atomic operations. */
RWAPI_EXPORT int rwapi_fetch_add(rwapi_context* context, rwapi_net net, uint64_t offset,
                                 uint64_t value, uint64_t* result, rwapi_id* id);
RWAPI_EXPORT int rwapi_compare_swap(rwapi_context* context, rwapi_net net, uint64_t offset,
                                    uint64_t compare, uint64_t value, uint64_t* result,
                                    rwapi_id* id);

/*
 * ---- Notification (figure 2.1, steps 8 to 10) ----
 *
 * The target sees a notification only after the data of its write, and the notifications of one
 * sender in the order of their calls. length may be 0. The target drops a notification without data
 * for memory that it has deregistered, and reports this to the sender. After that report, the next
 * flush to the target, and later uses of the memory, fail with RWAPI_ERR_STALE.
 *
 * The waits below do not know from whom they wait. They return RWAPI_ERR_PEER when all peers are
 * dead or in rwapi_finalize; and with RWAPI_DEATH_REPORT also when one has died, until
 * rwapi_peer_status of it has been called. A peer counts if this process and it have communicated
 * before.
 */

enum { RWAPI_SIGNAL_SET = 0, RWAPI_SIGNAL_ADD = 1 };

/* A write, then a change of the 64-bit word `signal_offset` bytes after net. The word's address
 * must be a multiple of 8. The target may read the word by rwapi_signal_read. */
RWAPI_EXPORT int rwapi_put_signal(rwapi_context* context, rwapi_net net, uint64_t offset,
                                  const void* local, size_t length, uint64_t signal_offset,
                                  uint64_t value, int operation, rwapi_id* id);

/* A write, then value, which is not 0, in a notification slot of the target's context. */
RWAPI_EXPORT int rwapi_put_notify(rwapi_context* context, rwapi_net net, uint64_t offset,
                                  const void* local, size_t length, uint32_t slot, uint64_t value,
                                  rwapi_id* id);

/* The value of a signal word of this process; what was written before the signal is visible. */
RWAPI_EXPORT uint64_t rwapi_signal_read(const uint64_t* word);

/* Waits until the word is at least value. With RWAPI_WAIT_SLEEP, it looks at the word every
 * millisecond at least, because writes that change a word by themselves (RWAPI_POLLED, rwapi_put)
 * make no event. */
RWAPI_EXPORT int rwapi_signal_wait(rwapi_context* context, const uint64_t* word, uint64_t value,
                                   int64_t timeout);

/* *set: 1 if the slot is set, and *value (may be NULL) is its latest value; 0 if it is not. */
RWAPI_EXPORT int rwapi_notify_test(rwapi_context* context, uint32_t slot, int* set,
                                   uint64_t* value);

/* Waits until it is set; *value as above. RWAPI_ERR_TIMEOUT, RWAPI_ERR_PEER. */
RWAPI_EXPORT int rwapi_notify_wait(rwapi_context* context, uint32_t slot, uint64_t* value,
                                   int64_t timeout);

/* Waits until one of n slots from first is set, and stores its number in *slot. */
RWAPI_EXPORT int rwapi_notify_waitsome(rwapi_context* context, uint32_t first, uint32_t n,
                                       uint32_t* slot, int64_t timeout);

/* Empties a slot. Returns the number of notifications since the last reset: 0 if it was empty; if
 * more than 1, all values but the latest were overwritten. *value (may be NULL) is the latest. */
RWAPI_EXPORT int rwapi_notify_reset(rwapi_context* context, uint32_t slot, uint64_t* value);

/*
 * ---- Completion and progress ----
 */

/* *complete: 1 if it is, and 0 if not yet. They return 0, or the operation's error, also if they
 * are asked again; rwapi_wait also RWAPI_ERR_TIMEOUT. The results of the latest 1024 operations
 * (rwapi_params.operations) are kept; older operations are reported as complete, and an error of
 * them that nobody has asked for is that of the next flush to their node. */
RWAPI_EXPORT int rwapi_test(rwapi_context* context, rwapi_id id, int* complete);
RWAPI_EXPORT int rwapi_wait(rwapi_context* context, rwapi_id id, int64_t timeout);

/* In the place of an id: rwapi_wait_any and rwapi_wait_all leave it out. */
#define RWAPI_ID_NONE INT64_MIN

/* Waits until one of n operations is complete or has failed, stores its position in *index and
 * returns its result. A loop puts RWAPI_ID_NONE there. RWAPI_ERR_INVALID: none is left. */
RWAPI_EXPORT int rwapi_wait_any(rwapi_context* context, const rwapi_id* ids, size_t n,
                                size_t* index, int64_t timeout);

/* Waits until all n operations are complete or have failed. Returns the first error of them, in
 * their order; those of others are still to be asked for, and so are all if the time has passed. */
RWAPI_EXPORT int rwapi_wait_all(rwapi_context* context, const rwapi_id* ids, size_t n,
                                int64_t timeout);

/* An operation that completes when all earlier ones to the node (to all nodes) are complete and
 * their data are in the target's memory. Its error is the first of those that nobody else will
 * know. Without id, and not complete in the call, it leaves errors to the next flush. A flush of
 * all does not concern nodes that are dead already, except for errors that no call has returned. */
RWAPI_EXPORT int rwapi_flush(rwapi_context* context, int node, rwapi_id* id);
RWAPI_EXPORT int rwapi_flush_all(rwapi_context* context, rwapi_id* id);

/* Later writes to the node take effect after earlier ones. It does not wait for them. */
RWAPI_EXPORT int rwapi_fence(rwapi_context* context, int node);

/* Makes progress: sends what waits and handles what has arrived. Returns the number of events that
 * were handled. */
RWAPI_EXPORT int rwapi_progress(rwapi_context* context);

/* A file descriptor, which belongs to the context. It becomes readable at the first event after
 * rwapi_arm has returned 0. Then, or after RWAPI_ERR_BUSY, call rwapi_progress until it returns 0.
 * One thread of a context may sleep by it at a time, and none while others are in waits of
 * RWAPI_WAIT_SLEEP, which use it themselves: any number of threads, also with time limits. These
 * wake five times a second to probe peers. */
RWAPI_EXPORT int rwapi_event_fd(rwapi_context* context, int* fd);
RWAPI_EXPORT int rwapi_arm(rwapi_context* context);

/* 0: the node works as far as is known; 1: it is in rwapi_finalize, where it sends and receives
 * nothing, but its memory can be written and read until this process is there, too;
 * RWAPI_ERR_PEER: it is dead, which with RWAPI_DEATH_REPORT ends no wait any more. Probes a node
 * that is in use. */
RWAPI_EXPORT int rwapi_peer_status(rwapi_context* context, int node);

#ifdef __cplusplus
}
#endif

#endif
