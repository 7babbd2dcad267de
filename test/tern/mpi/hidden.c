/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from and to memory that comes and goes by bare system calls, as of an allocator that is
 * linked statically: no library can see them. Its pages are others again and again, at the same
 * place, with other bytes. hidden [ROUNDS]; prints "hidden: ok".
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 1 << 20, USES = 4 };

static long bare(long number, long a, long b, long c, long d, long e, long f) {
#ifdef __x86_64__
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c, d, e, f);
#endif
}

static void must(int right) {
    if (!right) MPI_Abort(MPI_COMM_WORLD, 2);
}

static unsigned char* map(void* at) {
    const long got = bare(SYS_mmap, (long)at, BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0), -1, 0);
    must(got > 0 || got < -4095);
    return (unsigned char*)got;
}

/* Other pages at the same place. */
static void change(unsigned char* memory, int how) {
    switch (how % 4) {
        case 0:
            must(bare(SYS_munmap, (long)memory, BYTES, 0, 0, 0, 0) == 0);
            must(map(memory) == memory);
            break;
        case 1:
            must(map(memory) == memory);
            break;
        case 2:
            must(bare(SYS_madvise, (long)memory, BYTES, MADV_DONTNEED, 0, 0, 0) == 0);
            break;
        default: { /* moved away, another one moved here */
            unsigned char* other = map(NULL);
            memset(other, 1, BYTES);
            must(bare(SYS_mremap, (long)other, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
                      (long)memory, 0) == (long)memory);
        }
    }
}

static void fill(unsigned char* memory, int n, unsigned seed) {
    unsigned state = seed * 2654435761u + 1;

    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        memory[i] = (unsigned char)(state >> 24);
    }
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 40;
    unsigned char* expected = malloc(BYTES);
    int rank, ranks;
    long wrong = 0, all = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    unsigned char *out = map(NULL), *in = map(NULL);
    for (int k = 0; k < rounds * USES; k++) {
        const int n = BYTES - k / USES % 3 * 5000;
        const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

        fill(out, n, (unsigned)(k * ranks + rank));
        MPI_Sendrecv(out, n, MPI_BYTE, next, k, in, n, MPI_BYTE, previous, k, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        fill(expected, n, (unsigned)(k * ranks + previous));
        wrong += memcmp(in, expected, (size_t)n) != 0;
        if (k % USES == USES - 1) {
            change(out, k / USES);
            change(in, k / USES + 1);
        }
    }
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "hidden: ok\n" : "hidden: %ld messages are wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
