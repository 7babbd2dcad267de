/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sections of the OpenSHMEM program share. */
#pragma once

#include <shmem.h>
#include <stddef.h>
#include <stdint.h>

extern int me, pes;

/* Ends the job with an error message if the condition does not hold. */
void check(int holds, const char* format, ...) __attribute__((format(printf, 2, 3)));

/* Byte i of what PE `from` sends in a round is a function of all three. */
unsigned char byte_of(int from, unsigned round, size_t i);
void fill(void* to, size_t length, int from, unsigned round);
void expect(const char* what, const void* got, size_t length, int from, unsigned round);

/* A number below the bound, from a sequence that begins with the seed of the run. */
unsigned random_below(unsigned bound);

/* The same at all PEs, once they all call it. */
void* allocate(size_t bytes);

void puts_and_gets(void);
void strided(void);
void not_blocking(void);
void contexts(void);
void atomics(void);
void atomics_contended(void);
void waits(void);
void fences(void);
void quiets(void);
void locks(void);
void barriers(void);
void broadcasts(void);
void collections(void);
void exchanges(void);
void reductions(void);
