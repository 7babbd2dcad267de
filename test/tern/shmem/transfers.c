/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets of all kinds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

/* Where protocols change, and odd ones. */
static const size_t sizes[] = {1,     2,     3,     7,      8,      9,      63,   64,
                               65,    200,   1000,  4095,   4096,   8192,   8193, 16385,
                               32767, 65536, 65537, 131072, 262147, 1048576};
enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 1048576, GUARD = 64 };

/* Every PE puts to its successor and gets from it, at offsets that are not aligned; memory beside
 * it must not change. */
void puts_and_gets(void) {
    unsigned char* in = allocate(LARGEST + 2 * GUARD);
    unsigned char* out = allocate(LARGEST);
    unsigned char* own = malloc(LARGEST);
    const int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    for (unsigned round = 0; round < SIZES; ++round) {
        const size_t length = sizes[round], at = GUARD - round % 9;
        memset(in, 0xee, length + 2 * GUARD);
        fill(out, length, me, round);
        /* Private memory is a source too. */
        fill(own, length, me, round + 100);
        shmem_barrier_all();
        shmem_putmem(in + at, round % 2 ? out : own, length, next);
        shmem_barrier_all();
        expect("put", in + at, length, previous, round % 2 ? round : round + 100);
        for (size_t i = 0; i < at; ++i) check(in[i] == 0xee, "a put wrote before its target");
        for (size_t i = at + length; i < length + 2 * GUARD; ++i) {
            check(in[i] == 0xee, "a put wrote behind its target");
        }
        memset(own, 0, length);
        shmem_getmem(own, out, length, next);
        expect("get", own, length, next, round);
        shmem_barrier_all();
    }

    long long* words = allocate(64 * sizeof *words);
    shmem_char_p((char*)&words[0], (char)(me + 1), next);
    shmem_short_p((short*)&words[1], (short)(me + 300), next);
    shmem_int_p((int*)&words[2], me + 70000, next);
    shmem_longlong_p(&words[3], me + 5000000000LL, next);
    shmem_double_p((double*)&words[4], me + 0.5, next);
    shmem_float_p((float*)&words[5], (float)me + 0.25f, next);
    shmem_barrier_all();
    check(*(char*)&words[0] == previous + 1 && *(short*)&words[1] == previous + 300 &&
              *(int*)&words[2] == previous + 70000 && words[3] == previous + 5000000000LL &&
              *(double*)&words[4] == previous + 0.5 &&
              *(float*)&words[5] == (float)previous + 0.25f,
          "p");
    check(shmem_char_g((char*)&words[0], next) == me + 1 &&
              shmem_short_g((short*)&words[1], next) == me + 300 &&
              shmem_int_g((int*)&words[2], next) == me + 70000 &&
              shmem_longlong_g(&words[3], next) == me + 5000000000LL &&
              shmem_double_g((double*)&words[4], next) == me + 0.5 &&
              shmem_float_g((float*)&words[5], next) == (float)me + 0.25f,
          "g");
    shmem_barrier_all();

    /* To oneself. */
    fill(out, 5000, me, 77);
    shmem_putmem(in, out, 5000, me);
    shmem_quiet();
    expect("put to itself", in, 5000, me, 77);
    shmem_free(words);
    free(own);
    shmem_free(out);
    shmem_free(in);
}

#define STRIDED(TYPE, NAME)                                                                  \
    static void strided_##NAME(TYPE* in, TYPE* out, TYPE* got, ptrdiff_t to, ptrdiff_t from, \
                               size_t n) {                                                   \
        const int next = (me + 1) % pes, previous = (me + pes - 1) % pes;                    \
        const size_t all = n * (size_t)(to > from ? to : from);                              \
        for (size_t i = 0; i < all; ++i) {                                                   \
            in[i] = got[i] = (TYPE)-1;                                                       \
            out[i] = (TYPE)(i * 3 + (size_t)me);                                             \
        }                                                                                    \
        shmem_barrier_all();                                                                 \
        shmem_##NAME##_iput(in, out, to, from, n, next);                                     \
        shmem_##NAME##_iget(got, out, to, from, n, next);                                    \
        shmem_barrier_all();                                                                 \
        for (size_t i = 0; i < n * (size_t)to; ++i) {                                        \
            const size_t source = i / (size_t)to * (size_t)from;                             \
            const int hit = i % (size_t)to == 0;                                             \
            check(in[i] == (hit ? (TYPE)(source * 3 + (size_t)previous) : (TYPE)-1),         \
                  #NAME "_iput by %td from %td: element %zu", to, from, i);                  \
            check(got[i] == (hit ? (TYPE)(source * 3 + (size_t)next) : (TYPE)-1),            \
                  #NAME "_iget by %td from %td: element %zu", to, from, i);                  \
        }                                                                                    \
        shmem_barrier_all();                                                                 \
    }
STRIDED(short, short)
STRIDED(int, int)
STRIDED(long, long)
STRIDED(double, double)

void strided(void) {
    enum { ELEMENTS = 200, MOST = ELEMENTS * 5 };
    double* in = allocate(MOST * sizeof *in);
    double* out = allocate(MOST * sizeof *out);
    double* got = allocate(MOST * sizeof *got);
    for (ptrdiff_t to = 1; to <= 5; to += 2) {
        for (ptrdiff_t from = 1; from <= 4; from += 3) {
            strided_short((short*)in, (short*)out, (short*)got, to, from, ELEMENTS);
            strided_int((int*)in, (int*)out, (int*)got, to, from, ELEMENTS);
            strided_long((long*)in, (long*)out, (long*)got, to, from, ELEMENTS);
            strided_double(in, out, got, to, from, ELEMENTS);
        }
    }
    shmem_free(got);
    shmem_free(out);
    shmem_free(in);
}

/* Many operations under way, of random sizes, to all PEs at once. */
void not_blocking(void) {
    enum { SLOTS = 64, SLOT = 20000, ROUNDS = 6 };
    unsigned char* in = allocate((size_t)SLOTS * SLOT * (size_t)pes);
    unsigned char* out = allocate((size_t)SLOTS * SLOT);
    unsigned char* got = allocate((size_t)SLOTS * SLOT);
    /* [PE][slot]: how long the put into it is. */
    long* lengths = allocate(sizeof *lengths * SLOTS * (size_t)pes);
    for (unsigned round = 0; round < ROUNDS; ++round) {
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            const int target = (me + (int)slot) % pes;
            const size_t place = ((size_t)me * SLOTS + slot) * SLOT;
            const long length = 1 + (long)random_below(slot % 4 ? 200 : SLOT);
            fill(out + (size_t)slot * SLOT, (size_t)length, me, round * SLOTS + slot);
            shmem_putmem_nbi(in + place, out + (size_t)slot * SLOT, (size_t)length, target);
            shmem_long_p(&lengths[(size_t)me * SLOTS + slot], length, target);
        }
        shmem_barrier_all(); /* completes them all */
        for (int from = 0; from < pes; ++from) {
            for (unsigned slot = 0; slot < SLOTS; ++slot) {
                if ((from + (int)slot) % pes != me) continue;
                const size_t place = (size_t)from * SLOTS + slot;
                check(lengths[place] > 0, "no length");
                expect("put_nbi", in + place * SLOT, (size_t)lengths[place], from,
                       round * SLOTS + slot);
            }
        }
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            shmem_getmem_nbi(got + (size_t)slot * SLOT, out + (size_t)slot * SLOT, 1 + slot,
                             (me + (int)slot) % pes);
        }
        shmem_quiet();
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            /* The first byte is always there, whatever length the other PE chose. */
            expect("get_nbi", got + (size_t)slot * SLOT, 1, (me + (int)slot) % pes,
                   round * SLOTS + slot);
        }
        shmem_barrier_all();
    }
    shmem_free(lengths);
    shmem_free(got);
    shmem_free(out);
    shmem_free(in);
}

/* Contexts complete on their own. */
void contexts(void) {
    enum { CONTEXTS = 4, LENGTH = 10000 };
    unsigned char* in = allocate(CONTEXTS * LENGTH);
    unsigned char* out = allocate(CONTEXTS * LENGTH);
    long* flags = allocate(CONTEXTS * sizeof *flags);
    shmem_ctx_t made[CONTEXTS];
    const int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    const long options[CONTEXTS] = {0, SHMEM_CTX_PRIVATE, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE};
    for (int i = 0; i < CONTEXTS; ++i) {
        check(shmem_ctx_create(options[i], &made[i]) == 0, "ctx_create %d", i);
    }
    for (unsigned i = 0; i < CONTEXTS; ++i) {
        fill(out + i * LENGTH, LENGTH, me, i);
        shmem_ctx_putmem_nbi(made[i], in + i * LENGTH, out + i * LENGTH, LENGTH, next);
    }
    for (unsigned i = CONTEXTS; i-- > 0;) {
        shmem_ctx_quiet(made[i]);
        shmem_ctx_long_atomic_add(made[i], &flags[i], 1, next);
        shmem_ctx_quiet(made[i]);
    }
    for (unsigned i = 0; i < CONTEXTS; ++i) {
        shmem_long_wait_until(&flags[i], SHMEM_CMP_EQ, 1);
        expect("put in a context", in + i * LENGTH, LENGTH, previous, i);
    }
    for (int i = 0; i < CONTEXTS; ++i) shmem_ctx_destroy(made[i]);
    shmem_barrier_all();
    shmem_free(flags);
    shmem_free(out);
    shmem_free(in);
}
