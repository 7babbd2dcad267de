/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sections of verify.c and verify_*.c share. */
#pragma once

#include <mpi.h>
#include <stddef.h>

extern int rank, ranks;
extern long errors; /* wrong results seen by this rank since the section began */

/* A buffer of n bytes with guard bytes behind it. reset() fills both with a known value. */
unsigned char* make_buffer(size_t n);
void reset(unsigned char* p, size_t n);

/* Byte i of every message is a function of its seed and of i. */
void fill(unsigned char* p, size_t n, unsigned seed);
/* Counts an error if p is not what fill() made, or if bytes behind p + n were changed. */
void expect(const char* what, const unsigned char* p, size_t n, unsigned seed);
void expect_value(const char* what, long long value, long long wanted);

extern const size_t sizes[];
extern const int size_count;

void point_to_point_blocking(void);
void point_to_point_both_ways(void);
void point_to_point_nonblocking(void);
void wildcards(void);
void strided(void);
void broadcast(void);
void reductions(void);
void all_to_all(void);
void gathers(void);
void barrier(void);
void one_sided_fence(void);
void one_sided_lock(void);
void one_sided_atomics(void);
