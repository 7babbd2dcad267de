/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be seen when: wait_until and test, fence, quiet, locks. */
#include <string.h>

#include "verify.h"

/* Every comparison, of every type; the value comes while the PE waits. */
#define WAITS(TYPE, NAME)                                                                        \
    static void waits_##NAME(TYPE* word, long* ready) {                                          \
        static const struct {                                                                    \
            int comparison;                                                                      \
            TYPE before, sent, with;                                                             \
        } cases[] = {{SHMEM_CMP_EQ, 0, 5, 5}, {SHMEM_CMP_NE, 3, 4, 3}, {SHMEM_CMP_GT, 5, 6, 5},  \
                     {SHMEM_CMP_GE, 4, 5, 5}, {SHMEM_CMP_LT, 5, 4, 5}, {SHMEM_CMP_LE, 6, 5, 5}}; \
        const int next = (me + 1) % pes, previous = (me + pes - 1) % pes;                        \
        for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {                              \
            *word = cases[i].before;                                                             \
            check(!shmem_##NAME##_test(word, cases[i].comparison, cases[i].with),                \
                  #NAME "_test, case %zu, too early", i);                                        \
            shmem_long_p(ready, (long)i + 1, previous); /* my word may be written now */         \
            shmem_long_wait_until(ready, SHMEM_CMP_EQ, (long)i + 1);                             \
            shmem_##NAME##_p(word, cases[i].sent, next);                                         \
            if (i % 2 == 0) {                                                                    \
                shmem_##NAME##_wait_until(word, cases[i].comparison, cases[i].with);             \
            } else {                                                                             \
                while (!shmem_##NAME##_test(word, cases[i].comparison, cases[i].with)) continue; \
            }                                                                                    \
            check(*word == cases[i].sent, #NAME "_wait_until, case %zu", i);                     \
        }                                                                                        \
        shmem_barrier_all();                                                                     \
        *ready = 0;                                                                              \
        shmem_barrier_all();                                                                     \
    }
WAITS(short, short)
WAITS(unsigned short, ushort)
WAITS(int, int)
WAITS(long, long)
WAITS(long long, longlong)
WAITS(unsigned, uint)
WAITS(unsigned long, ulong)
WAITS(unsigned long long, ulonglong)

void waits(void) {
    void* word = allocate(64);
    long* ready = allocate(64);
    waits_short(word, ready);
    waits_ushort(word, ready);
    waits_int(word, ready);
    waits_long(word, ready);
    waits_longlong(word, ready);
    waits_uint(word, ready);
    waits_ulong(word, ready);
    waits_ulonglong(word, ready);
    shmem_free(ready);
    shmem_free(word);
}

/* Data, fence, flag: who sees the flag sees the data. All PEs send to all others at once. */
void fences(void) {
    enum { ROUNDS = 60, LENGTH = 40000 };
    static const size_t lengths[] = {1, 8, 100, 2000, 8192, 20000, LENGTH};
    unsigned char* in = allocate((size_t)LENGTH * (size_t)pes);
    unsigned char* out = allocate(LENGTH);
    long* flags = allocate(sizeof *flags * (size_t)pes);
    long* taken = allocate(sizeof *taken * (size_t)pes);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const size_t length = lengths[round % (sizeof lengths / sizeof *lengths)];
        fill(out, length, me, round);
        for (int i = 1; i < pes; ++i) {
            const int pe = (me + i) % pes;
            if (round % 3 == 0) {
                shmem_putmem_nbi(in + (size_t)LENGTH * (size_t)me, out, length, pe);
            } else {
                shmem_putmem(in + (size_t)LENGTH * (size_t)me, out, length, pe);
            }
            shmem_fence();
            if (round % 2) {
                shmem_long_p(&flags[me], (long)round, pe);
            } else {
                shmem_long_atomic_set(&flags[me], (long)round, pe);
            }
        }
        for (int i = 1; i < pes; ++i) {
            const int pe = (me + pes - i) % pes;
            shmem_long_wait_until(&flags[pe], SHMEM_CMP_GE, (long)round);
            expect("put before a fence", in + (size_t)LENGTH * (size_t)pe, length, pe, round);
            shmem_long_p(&taken[me], (long)round, pe);
        }
        for (int pe = 0; pe < pes; ++pe) {
            if (pe != me) shmem_long_wait_until(&taken[pe], SHMEM_CMP_GE, (long)round);
        }
        shmem_quiet(); /* out is written again */
    }
    shmem_free(taken);
    shmem_free(flags);
    shmem_free(out);
    shmem_free(in);
}

/* After quiet the data are at the target for everybody: a third PE, told by the sender, gets them
 * from there. With two PEs, the third is the sender. */
void quiets(void) {
    enum { ROUNDS = 40, PIECES = 8, PIECE = 3000 };
    unsigned char* in = allocate((size_t)PIECES * PIECE * (size_t)pes);
    unsigned char* out = allocate((size_t)PIECES * PIECE);
    unsigned char* got = allocate((size_t)PIECES * PIECE);
    long* told = allocate(sizeof *told);
    long* taken = allocate(sizeof *taken);
    const int target = (me + 1) % pes, third = (me + 2) % pes;
    const int sender = (me + pes - 2 % pes) % pes, holder = (sender + 1) % pes;
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const size_t length = 1 + random_below(PIECE);
        fill(out, (size_t)PIECES * PIECE, me, round);
        for (size_t piece = 0; piece < PIECES; ++piece) {
            const size_t place = piece * PIECE;
            shmem_putmem_nbi(in + (size_t)PIECES * PIECE * (size_t)me + place, out + place,
                             piece % 2 ? PIECE : length, target);
            if (piece % 2) continue;
            shmem_putmem(in + (size_t)PIECES * PIECE * (size_t)me + place + length,
                         out + place + length, PIECE - length, target);
        }
        shmem_quiet();
        shmem_long_p(told, (long)round, third);
        shmem_long_wait_until(told, SHMEM_CMP_GE, (long)round);
        shmem_getmem(got, in + (size_t)PIECES * PIECE * (size_t)sender, (size_t)PIECES * PIECE,
                     holder);
        expect("put before quiet", got, (size_t)PIECES * PIECE, sender, round);
        shmem_long_p(taken, (long)round, sender);
        shmem_long_wait_until(taken, SHMEM_CMP_GE, (long)round);
    }
    shmem_free(taken);
    shmem_free(told);
    shmem_free(got);
    shmem_free(out);
    shmem_free(in);
}

/* Contended, it hangs with Open MPI 4.1.4, over shared memory too. */
#define TEST_LOCK_WORKS \
    (OSHMEM_MAJOR_VERSION * 10000 + OSHMEM_MINOR_VERSION * 100 + OSHMEM_RELEASE_VERSION > 40104)

/* A counter that is not atomic, changed under a lock. */
void locks(void) {
    enum { LOCKS = 2, ROUNDS = 25 };
    static long lock[LOCKS];
    long* counters = allocate(LOCKS * sizeof *counters);
    long* owner = allocate(LOCKS * sizeof *owner);
    for (int round = 0; round < ROUNDS; ++round) {
        const int i = (me + round) % LOCKS, home = i % pes;
        if (TEST_LOCK_WORKS && round % 3 == 0) {
            while (shmem_test_lock(&lock[i])) continue;
        } else {
            shmem_set_lock(&lock[i]);
        }
        check(shmem_long_g(&owner[i], home) == 0, "lock %d: another PE is inside", i);
        shmem_long_p(&owner[i], me + 1, home);
        const long value = shmem_long_g(&counters[i], home);
        shmem_long_p(&counters[i], value + 1, home);
        shmem_quiet();
        check(shmem_long_g(&owner[i], home) == me + 1, "lock %d: another PE has come", i);
        shmem_long_p(&owner[i], 0, home);
        shmem_quiet();
        shmem_clear_lock(&lock[i]);
    }
    shmem_barrier_all();
    /* One PE after the other, so that nobody competes. */
    for (int pe = 0; pe < pes; ++pe) {
        if (pe == me) {
            check(shmem_test_lock(&lock[0]) == 0, "a free lock is not given");
            shmem_clear_lock(&lock[0]);
        }
        shmem_barrier_all();
    }
    long sum = 0;
    for (int i = 0; i < LOCKS; ++i) sum += shmem_long_g(&counters[i], i % pes);
    check(sum == (long)ROUNDS * pes, "a change under a lock was lost: %ld", sum);
    shmem_barrier_all();
    shmem_free(owner);
    shmem_free(counters);
}
