/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sections of verify.c and verify_*.c share. */
#pragma once

#include <mpi.h>
#include <stddef.h>

extern int rank, ranks;
extern long errors;   /* wrong results seen by this rank since the section began */
extern unsigned seed; /* of this run, the same at all ranks */

/* A buffer of n bytes with guard bytes behind it. reset() fills both with a known value. */
unsigned char* make_buffer(size_t n);
void reset(unsigned char* p, size_t n);

/* Byte i of every message is a function of its seed and of i. */
void fill(unsigned char* p, size_t n, unsigned seed_of_message);
/* Counts an error if p is not what fill() made, or if bytes behind p + n were changed. */
void expect(const char* what, const unsigned char* p, size_t n, unsigned seed_of_message);
/* These may be called by several threads at once. */
void expect_value(const char* what, long long value, long long wanted);
void expect_count(const char* what, const MPI_Status* status, size_t n);
/* A seed for message k from one rank to another. */
unsigned seed_of(int from, int to, int k);

/* The next number of a sequence, 0 <= number < bound. */
unsigned random_below(unsigned* state, unsigned bound);
/* A length near a size at which a transport or protocol may change, at most MAX_THRESHOLD bytes. */
enum { MAX_THRESHOLD = 70000 };
unsigned random_threshold(unsigned* state);

extern const size_t sizes[];
extern const int size_count;

void point_to_point_blocking(void);
void point_to_point_both_ways(void);
void point_to_point_nonblocking(void);
void wildcards(void);
void modes(void);
void persistent(void);
void synchronous(void);
void order(void);
void floods(void);
void outstanding(void);
void probes(void);
void canceled(void);
void truncated(void);
void strided(void);
void datatypes(void);
void self(void);
void communicators(void);
void intercommunicators(void);
void broadcast(void);
void reductions(void);
void all_to_all(void);
void gathers(void);
void uneven(void);
void nonblocking_collectives(void);
void barrier(void);
void large_fresh(void);
void large_again(void);
void large_overlapping(void);
void large_exchange(void);
void large_strided(void);
void one_sided_fence(void);
void one_sided_lock(void);
void one_sided_atomics(void);
void one_sided_groups(void);
void one_sided_requests(void);
void matching(void);
void matching_many(void);
void matching_truncated(void);
/* Only with MPI_THREAD_MULTIPLE. */
void threads(void);
void matching_threads(void);
