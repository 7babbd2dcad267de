/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An OpenSHMEM program that checks all that it receives. Prints the name of every section, and
 * "shmem: ok" at the end. A section that hangs ends the job.
 *
 * verify [SEED]: repeats a run.
 */
#include "verify.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int me, pes;

enum { SECTION_SECONDS = 120 };

static const struct {
    const char* name;
    void (*run)(void);
} sections[] = {
    {"puts and gets", puts_and_gets},
    {"strided", strided},
    {"not blocking", not_blocking},
    {"contexts", contexts},
    {"atomics", atomics},
    {"atomics, contended", atomics_contended},
    {"wait_until and test", waits},
    {"fence", fences},
    {"quiet", quiets},
    {"locks", locks},
    {"barrier and sync", barriers},
    {"broadcast", broadcasts},
    {"collect", collections},
    {"alltoall", exchanges},
    {"reductions", reductions},
};

static const char* section = "start";
static unsigned random_state;

void check(int holds, const char* format, ...) {
    va_list arguments;
    if (holds) return;
    fprintf(stderr, "shmem: %s: PE %d of %d: ", section, me, pes);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    shmem_global_exit(1);
}

static void hung(int signal) {
    char text[200];
    const int n = snprintf(text, sizeof text, "shmem: %s: PE %d of %d hangs\n", section, me, pes);
    (void)signal;
    if (write(2, text, (size_t)n) < 0) _exit(4);
    _exit(3);
}

unsigned char byte_of(int from, unsigned round, size_t i) {
    return (unsigned char)((unsigned)from * 89 + round * 23 + i * 7 + (i >> 8) * 13 + 1);
}

void fill(void* to, size_t length, int from, unsigned round) {
    unsigned char* bytes = to;
    for (size_t i = 0; i < length; ++i) bytes[i] = byte_of(from, round, i);
}

void expect(const char* what, const void* got, size_t length, int from, unsigned round) {
    const unsigned char* bytes = got;
    for (size_t i = 0; i < length; ++i) {
        check(bytes[i] == byte_of(from, round, i),
              "%s of %zu bytes from %d: byte %zu is %d, not %d", what, length, from, i, bytes[i],
              byte_of(from, round, i));
    }
}

unsigned random_below(unsigned bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

void* allocate(size_t bytes) {
    void* memory = shmem_malloc(bytes);
    check(memory != NULL, "no memory for %zu bytes", bytes);
    memset(memory, 0, bytes);
    shmem_barrier_all();
    return memory;
}

int main(int argc, char** argv) {
    static long seed;
    signal(SIGALRM, hung);
    alarm(SECTION_SECONDS);
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    if (me == 0) {
        seed = argc > 1 ? atol(argv[1]) : (long)time(NULL);
        printf("shmem: seed %ld\n", seed);
        for (int pe = 1; pe < pes; ++pe) shmem_long_p(&seed, seed, pe);
    }
    shmem_barrier_all();
    for (size_t i = 0; i < sizeof sections / sizeof *sections; ++i) {
        section = sections[i].name;
        random_state = (unsigned)seed + (unsigned)me * 7919;
        alarm(SECTION_SECONDS);
        sections[i].run();
        shmem_barrier_all();
        if (me == 0) printf("shmem: %s\n", section);
        fflush(stdout);
    }
    section = "end";
    shmem_finalize();
    if (me == 0) printf("shmem: ok\n");
    return 0;
}
