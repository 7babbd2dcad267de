/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The software HCA seen from outside, for programs that measure it: its timing model, and what a
 * running fabric counts. A fabric is looked at without taking part in it.
 *
 * Functions that can fail return a status: 0, or -1 with a text in `error`, which has room for
 * `size` bytes; if that is 0 it may be null. No other pointer may be null unless said so. No
 * function throws.
 */
#ifndef SOFTHCA_INSPECT_H
#define SOFTHCA_INSPECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The timing model; opaque. All zero is the ideal NIC: nothing takes time. */
typedef struct softhca_inspect_model {
    uint64_t opaque[32];
} softhca_inspect_model;

typedef enum softhca_inspect_operation {
    SOFTHCA_INSPECT_WRITE,
    SOFTHCA_INSPECT_SEND,
    SOFTHCA_INSPECT_READ,
    SOFTHCA_INSPECT_ATOMIC
} softhca_inspect_operation;

/* Finds the model of a profile and applies changes, in the syntax of SOFTHCA_MODEL; "" is no
   change. Fails if one of them is unknown, or the file that they name cannot be read. */
int softhca_inspect_find_model(const char* profile, const char* changes,
                               softhca_inspect_model* model, char* error, size_t size);
/* Writes the model in the syntax of SOFTHCA_MODEL, truncated to `size` bytes. */
void softhca_inspect_describe(const softhca_inspect_model* model, char* text, size_t size);
/* Not 0 if nothing takes time in the model. */
int softhca_inspect_is_ideal(const softhca_inspect_model* model);
/* In ns: how long it takes until a lone request has arrived, at the responder or, for reads and
   atomics, at the requester; from then to its completion there; from the start of a request to the
   next one of its queue pair; and how long a registration takes. */
uint64_t softhca_inspect_arrival_ns(const softhca_inspect_model* model,
                                    softhca_inspect_operation operation, uint64_t bytes,
                                    int is_inline);
uint64_t softhca_inspect_completion_ns(const softhca_inspect_model* model,
                                       softhca_inspect_operation operation);
uint64_t softhca_inspect_spacing_ns(const softhca_inspect_model* model,
                                    softhca_inspect_operation operation, uint64_t bytes);
uint64_t softhca_inspect_registration_ns(const softhca_inspect_model* model, uint64_t bytes);

/* A fabric of this user. One thread at a time may use it. */
typedef struct softhca_inspect_fabric softhca_inspect_fabric;

/* Opens the fabric `name`; null: the one that the environment names. The caller closes it. Null,
   with a text in `error`, if nobody is in the fabric. */
softhca_inspect_fabric* softhca_inspect_open(const char* name, char* error, size_t size);
/* Null is allowed. */
void softhca_inspect_close(softhca_inspect_fabric* fabric);
/* Counts the operations of the processes that were in the fabric at softhca_inspect_open() and
   still are, and how many of these operations were later than the timing model says. */
void softhca_inspect_lateness(softhca_inspect_fabric* fabric, uint64_t* operations, uint64_t* late);

/* The resources that a member uses on the device. The memory of queues is what mlx5 would take. */
typedef struct softhca_inspect_usage {
    uint64_t registered_bytes;
    uint64_t queue_bytes;
    uint64_t completion_entries;
    uint64_t receive_queues;
    uint64_t rnr_naks;      /* how often its messages found no receive */
    uint64_t registrations; /* of memory, since it began */
    uint32_t queue_pairs;
} softhca_inspect_usage;
/* Of a member of the fabric in virtual time, of which one process has all. Fails if it was not in
   the fabric at softhca_inspect_open(), or is not any more. */
int softhca_inspect_member(softhca_inspect_fabric* fabric, uint32_t member,
                           softhca_inspect_usage* usage, char* error, size_t size);

/* Removes the file of a fabric. Fails if a process is in the fabric. */
int softhca_inspect_remove(const char* name, char* error, size_t size);

#ifdef __cplusplus
}
#endif

#endif
