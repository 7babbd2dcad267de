// SPDX-License-Identifier: BSD-3-Clause
/* How long a program's own calls take on memory that has been sent: a line CALL MEDIAN P90 for
 * each, in microseconds. Usage: calls ROUNDS */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alone.h"

enum { kMany = 4096, kPage = 4096 };
static const size_t kMapping = 64 << 20, kSent = 4 << 20;
static char* place;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void* expect(const char* what, void* memory) {
    if (memory != MAP_FAILED && memory != NULL) return memory;
    perror(what);
    exit(1);
}

static void done(const char* what, int result) {
    if (result != 0) expect(what, NULL);
}

/* The calls: each with memory whose middle has been sent, and returns it, or where it is now. */
struct memory {
    char* start;
    size_t length;
    int of_malloc;
};

static void grow(struct memory* m) {
    m->start = expect("mremap", mremap(m->start, m->length, 2 * m->length, MREMAP_MAYMOVE));
    m->length *= 2;
}
static void shrink(struct memory* m) {
    m->start = expect("mremap", mremap(m->start, m->length, m->length / 2, 0));
    m->length /= 2;
}
static void reallocate(struct memory* m) {
    m->start = expect("realloc", realloc(m->start, 2 * m->length));
    m->length *= 2;
}
static void advise(struct memory* m, size_t at, size_t length, int advice) {
    done("madvise", madvise(m->start + at, length, advice));
}
static void purge(struct memory* m) {
    advise(m, m->length / 2, 16 * kPage, MADV_DONTNEED);
}
static void purge_other(struct memory* m) {
    advise(m, 0, 16 * kPage, MADV_DONTNEED);
}
static void give_up(struct memory* m) {
    advise(m, m->length / 2, 16 * kPage, MADV_FREE);
}
static void want(struct memory* m) {
    advise(m, m->length / 2, 16 * kPage, MADV_WILLNEED);
}
static void protect(struct memory* m) {
    done("mprotect", mprotect(m->start + m->length / 2, 16 * kPage, PROT_READ));
}
static void lock(struct memory* m) {
    done("mlock", mlock(m->start + m->length / 2, kPage));
}
static void unmap_part(struct memory* m) {
    done("munmap", munmap(m->start + m->length - kSent, kSent));
    m->length -= kSent;
}
static void unmap(struct memory* m) {
    done("munmap", munmap(m->start, m->length));
    m->length = 0;
}
static void give_back(struct memory* m) {
    free(m->start);
    m->length = 0;
}
static void fork_child(struct memory* m) {
    (void)m;
    const pid_t child = fork();
    if (child == 0) _exit(0);
    done("waitpid", waitpid(child, NULL, 0) == child ? 0 : -1);
}

static const struct {
    const char* name;
    void (*call)(struct memory*);
    int of_malloc;
} kCalls[] = {
    {"mremap:64->128MiB", grow, 0},
    {"mremap:64->32MiB", shrink, 0},
    {"realloc:64->128MiB", reallocate, 1},
    {"madvise:DONTNEED,sent", purge, 0},
    {"madvise:DONTNEED,beside", purge_other, 0},
    {"madvise:FREE,sent", give_up, 0},
    {"madvise:WILLNEED,sent", want, 0},
    {"mprotect:sent", protect, 0},
    {"mlock:sent", lock, 0},
    {"munmap:4MiB,of,64", unmap_part, 0},
    {"munmap:64MiB", unmap, 0},
    {"free:64MiB", give_back, 1},
    {"fork", fork_child, 0},
};

static double once(size_t which) {
    struct memory m = {.length = kMapping, .of_malloc = kCalls[which].of_malloc};
    if (m.of_malloc)
        m.start = expect("malloc", malloc(m.length));
    else
        m.start = expect("mmap", mmap(NULL, m.length, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(m.start, 1, m.length);
    for (int i = 0; i < 6; ++i) exchange(m.start + m.length / 2, place, kSent);
    const double begin = now();
    kCalls[which].call(&m);
    const double taken = now() - begin;
    if (m.length != 0 && m.of_malloc)
        free(m.start);
    else if (m.length != 0)
        munmap(m.start, m.length);
    return taken;
}

static int by_value(const void* a, const void* b) {
    const double difference = *(const double*)a - *(const double*)b;
    return (difference > 0) - (difference < 0);
}

int main(int count, char** arguments) {
    static double taken[kMany];
    const size_t rounds = count > 1 ? strtoul(arguments[1], NULL, 10) : 0;
    if (rounds == 0 || rounds > kMany) return 2;
    place = expect("malloc", malloc(kSent));
    memset(place, 1, kSent);
    open_workers();
    for (size_t which = 0; which < sizeof kCalls / sizeof *kCalls; ++which) {
        for (size_t i = 0; i < rounds; ++i) taken[i] = once(which);
        qsort(taken, rounds, sizeof *taken, by_value);
        printf("%s %.1f %.1f\n", kCalls[which].name, taken[rounds / 2], taken[rounds * 9 / 10]);
        fflush(stdout);
    }
    close_workers();
    free(place);
    return 0;
}
