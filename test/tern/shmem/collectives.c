/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations, of all PEs and of every second one. */
#include <string.h>

#include "verify.h"

enum { ROUNDS = 4, MOST = 3000 };

/* Work memory must not be used again before all have left the call: it changes with the round. */
static long sync_memory[2][SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE +
                           SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE];

static long* sync_of(unsigned round) {
    return sync_memory[round % 2];
}

static void prepare(void) {
    for (unsigned i = 0; i < 2; ++i) {
        for (size_t k = 0; k < sizeof sync_memory[i] / sizeof(long); ++k) {
            sync_memory[i][k] = SHMEM_SYNC_VALUE;
        }
    }
    shmem_barrier_all();
}

/* The active sets: all PEs, and the even or the odd ones. */
struct set {
    int start, log_stride, size, rank; /* rank: of this PE; -1: it is not in the set */
};

static struct set set_of(unsigned round) {
    const struct set all = {0, 0, pes, me};
    const int first = round / 2 % 2;
    if (round % 2 == 0 || pes < 4) return all;
    return (struct set){first, 1, (pes - first + 1) / 2, me % 2 == first ? me / 2 : -1};
}

static int member(struct set set, int i) {
    return set.start + (i << set.log_stride);
}

void barriers(void) {
    enum { TIMES = 50 };
    long* seen = allocate(sizeof *seen * (size_t)pes);
    prepare();
    for (long round = 1; round <= TIMES; ++round) {
        const struct set set = set_of((unsigned)round);
        if (set.rank < 0) continue;
        for (int i = 0; i < set.size; ++i) shmem_long_p(&seen[me], round, member(set, i));
        if (set.size < pes) {
            shmem_barrier(set.start, set.log_stride, set.size, sync_of(0));
        } else if (round % 4) {
            shmem_barrier_all();
        } else {
            shmem_quiet();
            shmem_sync_all();
        }
        for (int i = 0; i < set.size; ++i) {
            check(seen[member(set, i)] >= round, "round %ld: PE %d is late", round, member(set, i));
        }
    }
    shmem_barrier_all();
    shmem_free(seen);
}

void broadcasts(void) {
    uint64_t* from = allocate(MOST * sizeof *from);
    uint64_t* to = allocate(MOST * sizeof *to);
    prepare();
    for (unsigned round = 0; round < 4 * ROUNDS; ++round) {
        const struct set set = set_of(round);
        const size_t n = 1 + (round * 197) % MOST;
        const int root = (int)(round / 4) % set.size;
        fill(from, n * 8, me, round);
        memset(to, 0, n * 8);
        shmem_barrier_all();
        if (set.rank < 0) continue;
        if (round % 3) {
            shmem_broadcast64(to, from, n, root, set.start, set.log_stride, set.size,
                              sync_of(round));
        } else {
            shmem_broadcast32(to, from, 2 * n, root, set.start, set.log_stride, set.size,
                              sync_of(round));
        }
        /* The root's target stays as it was. */
        if (set.rank != root) expect("broadcast", to, n * 8, member(set, root), round);
    }
    shmem_barrier_all();
    shmem_free(to);
    shmem_free(from);
}

void collections(void) {
    uint64_t* from = allocate(MOST * sizeof *from);
    uint64_t* to = allocate(MOST * sizeof *to * (size_t)pes);
    prepare();
    for (unsigned round = 0; round < 4 * ROUNDS; ++round) {
        const struct set set = set_of(round);
        const size_t n = 1 + (round * 97) % (MOST - 100);
        const int different = round / 2 % 2; /* collect: each has its own length */
        fill(from, MOST * 8, me, round);
        memset(to, 0, MOST * 8 * (size_t)pes);
        shmem_barrier_all();
        if (set.rank < 0) continue;
        if (different) {
            shmem_collect64(to, from, n + (size_t)me, set.start, set.log_stride, set.size,
                            sync_of(round));
        } else if (round % 3) {
            shmem_fcollect64(to, from, n, set.start, set.log_stride, set.size, sync_of(round));
        } else {
            shmem_fcollect32(to, from, 2 * n, set.start, set.log_stride, set.size, sync_of(round));
        }
        const uint64_t* at = to;
        for (int i = 0; i < set.size; ++i) {
            const int pe = member(set, i);
            const size_t length = n + (different ? (size_t)pe : 0);
            expect(different ? "collect" : "fcollect", at, length * 8, pe, round);
            at += length;
        }
    }
    shmem_barrier_all();
    shmem_free(to);
    shmem_free(from);
}

void exchanges(void) {
    enum { EACH = 500, STRIDE = 3 };
    uint64_t* from = allocate(EACH * STRIDE * 8 * (size_t)pes);
    uint64_t* to = allocate(EACH * STRIDE * 8 * (size_t)pes);
    prepare();
    for (unsigned round = 0; round < 4 * ROUNDS; ++round) {
        const struct set set = set_of(round);
        const size_t n = 1 + (round * 61) % EACH;
        const size_t step = round / 2 % 2 ? STRIDE : 1;
        for (int i = 0; i < set.size; ++i) {
            for (size_t k = 0; k < n; ++k) {
                from[((size_t)i * n + k) * step] = ((uint64_t)me << 40) + ((uint64_t)i << 20) + k;
            }
        }
        shmem_barrier_all();
        if (set.rank < 0) continue;
        if (step == 1) {
            shmem_alltoall64(to, from, n, set.start, set.log_stride, set.size, sync_of(round));
        } else {
            shmem_alltoalls64(to, from, (ptrdiff_t)step, (ptrdiff_t)step, n, set.start,
                              set.log_stride, set.size, sync_of(round));
        }
        for (int i = 0; i < set.size; ++i) {
            for (size_t k = 0; k < n; ++k) {
                const uint64_t wanted =
                    ((uint64_t)member(set, i) << 40) + ((uint64_t)set.rank << 20) + k;
                check(to[((size_t)i * n + k) * step] == wanted, "alltoall%s: %zu of %d",
                      step == 1 ? "" : "s", k, i);
            }
        }
    }
    shmem_barrier_all();
    shmem_free(to);
    shmem_free(from);
}

#define REDUCE(TYPE, NAME, OPERATION, VALUE, COMBINE)                                         \
    static void NAME##_##OPERATION(unsigned round, void* in, void* out, void* work) {         \
        TYPE *from = in, *to = out;                                                           \
        const struct set set = set_of(round);                                                 \
        const int n = 1 + (int)(round * 131) % 600;                                           \
        for (int k = 0; k < n; ++k) from[k] = VALUE(me, k);                                   \
        shmem_barrier_all();                                                                  \
        if (set.rank < 0) return;                                                             \
        shmem_##NAME##_##OPERATION##_to_all(to, from, n, set.start, set.log_stride, set.size, \
                                            work, sync_of(round));                            \
        for (int k = 0; k < n; ++k) {                                                         \
            TYPE wanted = VALUE(set.start, k);                                                \
            for (int i = 1; i < set.size; ++i) {                                              \
                const TYPE next = VALUE(member(set, i), k);                                   \
                wanted = COMBINE(wanted, next);                                               \
            }                                                                                 \
            check(to[k] == wanted, #NAME "_" #OPERATION ": element %d of %d", k, n);          \
        }                                                                                     \
    }
/* Small whole numbers, whose sums and products are exact in each type. */
#define SMALL(PE, K) ((PE) + 1 + (K) % 3)
#define PLUS(A, B) ((A) + (B))
#define TIMES(A, B) ((A) * (B))
#define LEAST(A, B) ((A) < (B) ? (A) : (B))
#define MOST_OF(A, B) ((A) > (B) ? (A) : (B))
#define AND(A, B) ((A) & (B))
#define OR(A, B) ((A) | (B))
#define XOR(A, B) ((A) ^ (B))
REDUCE(int, int, sum, SMALL, PLUS)
REDUCE(int, int, prod, SMALL, TIMES)
REDUCE(int, int, min, SMALL, LEAST)
REDUCE(int, int, max, SMALL, MOST_OF)
REDUCE(int, int, and, SMALL, AND)
REDUCE(int, int, or, SMALL, OR)
REDUCE(int, int, xor, SMALL, XOR)
REDUCE(long, long, sum, SMALL, PLUS)
REDUCE(long, long, max, SMALL, MOST_OF)
REDUCE(short, short, sum, SMALL, PLUS)
REDUCE(double, double, sum, SMALL, PLUS)
REDUCE(double, double, prod, SMALL, TIMES)
REDUCE(float, float, min, SMALL, LEAST)

void reductions(void) {
    static void (*const all[])(unsigned, void*, void*, void*) = {
        int_sum,  int_prod, int_min,   int_max,    int_and,     int_or,   int_xor,
        long_sum, long_max, short_sum, double_sum, double_prod, float_min};
    enum { BYTES = 8 * (600 / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE) };
    void* in = allocate(600 * 8);
    void* out = allocate(600 * 8);
    void* work[2] = {allocate(BYTES), allocate(BYTES)};
    prepare();
    for (unsigned round = 0; round < ROUNDS; ++round) {
        for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) {
            all[i](round, in, out, work[(round + i) % 2]);
            shmem_barrier_all();
        }
    }
    shmem_free(work[1]);
    shmem_free(work[0]);
    shmem_free(out);
    shmem_free(in);
}
