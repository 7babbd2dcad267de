/* SPDX-License-Identifier: BSD-3-Clause */
/* Every atomic operation of every type: its result, and that none is lost under contention. */
#include <inttypes.h>

#include "verify.h"

/* Open MPI before 4.1.5 stores a compare_swap's result of 4 bytes as 8 (its issue 11257). */
#if OSHMEM_MAJOR_VERSION * 10000 + OSHMEM_MINOR_VERSION * 100 + OSHMEM_RELEASE_VERSION < 40105
#define CAN_COMPARE_SWAP(TYPE) (sizeof(TYPE) == 8)
#else
#define CAN_COMPARE_SWAP(TYPE) 1
#endif

enum { ROUNDS = 40 };

/* One PE after the other has the word; 2^bits - 1 also shows that the width is right. */
#define ALONE(TYPE, NAME)                                                                      \
    static void alone_##NAME(TYPE* word) {                                                     \
        const int pe = (me + 1) % pes;                                                         \
        const TYPE big = (TYPE)((TYPE)1 << (sizeof(TYPE) * 8 - 2));                            \
        shmem_##NAME##_atomic_set(word, big, pe);                                              \
        check(shmem_##NAME##_atomic_fetch(word, pe) == big, #NAME " set or fetch");            \
        check(shmem_##NAME##_atomic_swap(word, 5, pe) == big, #NAME " swap");                  \
        if (CAN_COMPARE_SWAP(TYPE)) {                                                          \
            check(shmem_##NAME##_atomic_compare_swap(word, 4, 9, pe) == 5,                     \
                  #NAME " compare_swap, no");                                                  \
            check(shmem_##NAME##_atomic_compare_swap(word, 5, 9, pe) == 5,                     \
                  #NAME " compare_swap, yes");                                                 \
        } else {                                                                               \
            shmem_##NAME##_atomic_set(word, 9, pe);                                            \
        }                                                                                      \
        check(shmem_##NAME##_atomic_fetch_add(word, big, pe) == 9, #NAME " fetch_add");        \
        check(shmem_##NAME##_atomic_fetch_inc(word, pe) == big + 9, #NAME " fetch_inc");       \
        shmem_##NAME##_atomic_add(word, 20, pe);                                               \
        shmem_##NAME##_atomic_inc(word, pe);                                                   \
        check(shmem_##NAME##_atomic_fetch(word, pe) == big + 31, #NAME " add or inc");         \
    }                                                                                          \
    static void crowd_##NAME(TYPE* words) {                                                    \
        /* added, counted, tickets, compared, swapped in and out */                            \
        TYPE out = 0, tickets = 0, last = -1;                                                  \
        for (int round = 0; round < ROUNDS; ++round) {                                         \
            const int pe = (me + round) % pes;                                                 \
            shmem_##NAME##_atomic_add(&words[0], (TYPE)(me + 1), pe);                          \
            shmem_##NAME##_atomic_inc(&words[1], pe);                                          \
            (void)shmem_##NAME##_atomic_fetch_add(&words[0], (TYPE)(me + 1), pe);              \
            const TYPE ticket = shmem_##NAME##_atomic_fetch_inc(&words[2], 0);                 \
            check(round == 0 || ticket > last, #NAME " fetch_inc went back");                  \
            last = ticket;                                                                     \
            tickets += ticket;                                                                 \
            for (TYPE seen = 0, now; CAN_COMPARE_SWAP(TYPE); seen = now) {                     \
                now = shmem_##NAME##_atomic_compare_swap(&words[3], seen, seen + 1, 0);        \
                if (now == seen) break;                                                        \
            }                                                                                  \
            out += shmem_##NAME##_atomic_swap(&words[4], (TYPE)(me * ROUNDS + round), 0);      \
        }                                                                                      \
        shmem_##NAME##_atomic_add(&words[5], out, 0);                                          \
        shmem_##NAME##_atomic_add(&words[6], tickets, 0);                                      \
        shmem_barrier_all();                                                                   \
        TYPE sum = 0, counted = 0;                                                             \
        for (int pe = 0; pe < pes; ++pe) {                                                     \
            sum += shmem_##NAME##_atomic_fetch(&words[0], pe);                                 \
            counted += shmem_##NAME##_atomic_fetch(&words[1], pe);                             \
        }                                                                                      \
        const TYPE all = (TYPE)(pes * ROUNDS);                                                 \
        check(sum == all * (TYPE)(pes + 1), #NAME " add was lost");                            \
        check(counted == all, #NAME " inc was lost");                                          \
        if (me == 0) {                                                                         \
            check(words[2] == all, #NAME " fetch_inc was lost");                               \
            check(words[6] == all * (all - 1) / 2, #NAME " fetch_inc gave a number twice");    \
            check(!CAN_COMPARE_SWAP(TYPE) || words[3] == all, #NAME " compare_swap was lost"); \
            /* What was swapped in has come out, or is there. */                               \
            check(words[5] + words[4] == all * (all - 1) / 2, #NAME " swap was lost");         \
        }                                                                                      \
        shmem_barrier_all();                                                                   \
        for (int i = 0; i < 8; ++i) words[i] = 0;                                              \
        shmem_barrier_all();                                                                   \
    }
ALONE(int, int)
ALONE(long, long)
ALONE(long long, longlong)
ALONE(unsigned, uint)
ALONE(unsigned long, ulong)
ALONE(unsigned long long, ulonglong)

#define BITS(TYPE, NAME)                                                                       \
    static void bits_##NAME(TYPE* word) {                                                      \
        const int pe = (me + 1) % pes;                                                         \
        shmem_putmem(word, &(TYPE){0x5a}, sizeof(TYPE), pe);                                   \
        shmem_quiet();                                                                         \
        check(shmem_##NAME##_atomic_fetch_and(word, 0x1f, pe) == 0x5a, #NAME " fetch_and");    \
        check(shmem_##NAME##_atomic_fetch_or(word, 0x41, pe) == 0x1a, #NAME " fetch_or");      \
        check(shmem_##NAME##_atomic_fetch_xor(word, 0x0f, pe) == 0x5b, #NAME " fetch_xor");    \
        shmem_##NAME##_atomic_and(word, 0x50, pe);                                             \
        shmem_##NAME##_atomic_or(word, 0x03, pe);                                              \
        shmem_##NAME##_atomic_xor(word, (TYPE)-1, pe);                                         \
        check(shmem_##NAME##_atomic_fetch_xor(word, 0, pe) == (TYPE) ~(TYPE)0x53,              \
              #NAME " and, or, xor");                                                          \
    }                                                                                          \
    /* Each PE sets, clears and flips bits of its own in one word. */                          \
    static void crowd_bits_##NAME(TYPE* words) {                                               \
        const TYPE mine = (TYPE)((TYPE)0x5 << (me * 4));                                       \
        TYPE all = 0;                                                                          \
        for (int pe = 0; pe < pes; ++pe) all |= (TYPE)((TYPE)0x5 << (pe * 4));                 \
        for (int round = 0; round < ROUNDS; ++round) {                                         \
            shmem_##NAME##_atomic_or(&words[0], mine, 0);                                      \
            check((shmem_##NAME##_atomic_fetch_and(&words[0], (TYPE)~mine, 0) & mine) == mine, \
                  #NAME " or was lost");                                                       \
            check((shmem_##NAME##_atomic_fetch_or(&words[0], mine, 0) & mine) == 0,            \
                  #NAME " fetch_and was lost");                                                \
            shmem_##NAME##_atomic_and(&words[0], (TYPE)~mine, 0);                              \
            check((shmem_##NAME##_atomic_fetch_xor(&words[0], mine, 0) & mine) == 0,           \
                  #NAME " and was lost");                                                      \
            shmem_##NAME##_atomic_xor(&words[1], mine, 0);                                     \
            check((shmem_##NAME##_atomic_fetch_or(&words[1], 0, 0) & mine) ==                  \
                      (round % 2 ? 0 : mine),                                                  \
                  #NAME " xor was lost");                                                      \
        }                                                                                      \
        shmem_barrier_all();                                                                   \
        if (me == 0) {                                                                         \
            check(words[0] == all, #NAME " fetch_xor was lost");                               \
            check(words[1] == 0, #NAME " xor hit other bits");                                 \
            words[0] = words[1] = 0;                                                           \
        }                                                                                      \
        shmem_barrier_all();                                                                   \
    }
BITS(unsigned, uint)
BITS(unsigned long, ulong)
BITS(unsigned long long, ulonglong)
BITS(int32_t, int32)
BITS(int64_t, int64)
BITS(uint32_t, uint32)
BITS(uint64_t, uint64)

#define REAL(TYPE, NAME)                                                                      \
    static void real_##NAME(TYPE* word) {                                                     \
        const int pe = (me + 1) % pes;                                                        \
        shmem_##NAME##_atomic_set(word, (TYPE)1.5, pe);                                       \
        check(shmem_##NAME##_atomic_fetch(word, pe) == (TYPE)1.5, #NAME " set or fetch");     \
        check(shmem_##NAME##_atomic_swap(word, (TYPE)-2.25, pe) == (TYPE)1.5, #NAME " swap"); \
        check(shmem_##NAME##_atomic_fetch(word, pe) == (TYPE)-2.25, #NAME " swap or fetch");  \
    }
REAL(float, float)
REAL(double, double)

/* Neighbours in memory must not change. */
#define BETWEEN(TYPE, FUNCTION)                                                         \
    do {                                                                                \
        TYPE* words = (TYPE*)memory;                                                    \
        for (int i = 0; i < 3; ++i) words[i] = 77;                                      \
        shmem_barrier_all();                                                            \
        FUNCTION(&words[1]);                                                            \
        shmem_barrier_all();                                                            \
        check(words[0] == 77 && words[2] == 77, #FUNCTION ": a neighbour has changed"); \
        shmem_barrier_all();                                                            \
    } while (0)

void atomics(void) {
    uint64_t* memory = allocate(64);
    BETWEEN(int, alone_int);
    BETWEEN(long, alone_long);
    BETWEEN(long long, alone_longlong);
    BETWEEN(unsigned, alone_uint);
    BETWEEN(unsigned long, alone_ulong);
    BETWEEN(unsigned long long, alone_ulonglong);
    BETWEEN(unsigned, bits_uint);
    BETWEEN(unsigned long, bits_ulong);
    BETWEEN(unsigned long long, bits_ulonglong);
    BETWEEN(int32_t, bits_int32);
    BETWEEN(int64_t, bits_int64);
    BETWEEN(uint32_t, bits_uint32);
    BETWEEN(uint64_t, bits_uint64);
    BETWEEN(float, real_float);
    BETWEEN(double, real_double);
    shmem_free(memory);
}

void atomics_contended(void) {
    void* memory = allocate(128);
    crowd_int(memory);
    crowd_long(memory);
    crowd_longlong(memory);
    crowd_uint(memory);
    crowd_ulong(memory);
    crowd_ulonglong(memory);
    crowd_bits_uint(memory);
    crowd_bits_ulong(memory);
    crowd_bits_ulonglong(memory);
    crowd_bits_int32(memory);
    crowd_bits_int64(memory);
    crowd_bits_uint32(memory);
    crowd_bits_uint64(memory);
    shmem_free(memory);
}
