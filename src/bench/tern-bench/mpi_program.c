/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI program that `tern-bench mpi` compiles when it runs, with the compiler of each MPI. Two
 * ranks measure messages, all-to-alls, puts and gets, and check every message.
 *
 *   mpi_program CPU CPU DIVISOR SIZE...
 *
 * CPU is where a rank runs, -1: anywhere. DIVISOR divides the number of samples. A size is a
 * multiple of 8 bytes. Rank 0 prints a line "library NAME", and for each test and size "result TEST
 * SIZE VALUE CPU-SHARE": a median in us or GB/s, and the CPU time of the rank that had less, as a
 * share of the time.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { RANKS = 2, WARM_UP = 20, WARM_UP_FRESH = 3, MOST_SAMPLES = 100, BATCH = 10, PAGE = 4096 };
enum { SHORT = 8 << 10, BYTES = 8 << 20, IN_FLIGHT = 16, BYTES_IN_FLIGHT = 4 << 20 };

/* One measurement. Its messages are numbered, warm-up included. */
struct run {
    int64_t size;
    int64_t parts; /* of a buffer, each of `size` bytes */
    int fresh;     /* a new buffer for each operation; otherwise one for all */
    char *out, *in;
    int64_t buffers, stride;
};

static int rank;
static MPI_Win window;
static char* window_memory;

static void fail(const char* what, const struct run* run) {
    fprintf(stderr, "rank %d: %s, with messages of %lld bytes\n", rank, what, (long long)run->size);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int done, const char* what, const struct run* run) {
    if (!done) fail(what, run);
}

/* Buffers. An unused page separates two of them, because registration caches merge neighbours. */

static char* ground(const struct run* run) {
    char* memory = mmap(NULL, (size_t)(run->buffers * run->stride), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "no memory", run);
    return memory;
}

static char* buffer(const struct run* run, char* memory, int64_t number) {
    return memory + (run->fresh ? number * run->stride : 0);
}

/* What messages contain: a number in the first and the last word, and a pattern between. */

static int64_t stamp_of(int from, int64_t number) {
    return RANKS * number + from + 1;
}

static int64_t word(int from, int64_t index) {
    return (index + 1) * 0x9e3779b97f4a7c1 + from;
}

static void stamp(const struct run* run, char* memory, int64_t number) {
    const int64_t value = stamp_of(rank, number);

    for (int64_t part = 0; part < run->parts; part++, memory += run->size) {
        memcpy(memory, &value, sizeof value);
        memcpy(memory + run->size - sizeof value, &value, sizeof value);
    }
}

static void check_stamp(const struct run* run, const char* message, int from, int64_t number) {
    const int64_t value = stamp_of(from, number);

    must(memcmp(message, &value, sizeof value) == 0 &&
             memcmp(message + run->size - sizeof value, &value, sizeof value) == 0,
         "a message is wrong, or late", run);
}

static void fill(const struct run* run, char* memory) {
    for (int64_t part = 0; part < run->parts; part++, memory += run->size) {
        for (int64_t i = 0; i < run->size / 8; i++) {
            const int64_t value = word(rank, i);
            memcpy(memory + 8 * i, &value, sizeof value);
        }
    }
}

static void check_message(const struct run* run, const char* message, int from, int64_t number) {
    check_stamp(run, message, from, number);
    for (int64_t i = 1; i < run->size / 8 - 1; i++) {
        const int64_t value = word(from, i);
        char what[96];
        int64_t found;

        memcpy(&found, message + 8 * i, sizeof found);
        if (found == value) continue;
        snprintf(what, sizeof what, "message %lld is wrong: byte %lld begins %#llx",
                 (long long)number, (long long)(8 * i), (long long)found);
        fail(what, run);
    }
}

/* Operations. */

static void ping_pong(const struct run* run, int64_t number) {
    char *out = buffer(run, run->out, number), *in = buffer(run, run->in, number);
    const int size = (int)run->size, other = !rank;

    stamp(run, out, number);
    if (rank == 0) MPI_Send(out, size, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    MPI_Recv(in, size, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(out, size, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    check_stamp(run, in, other, number);
}

static void stream(const struct run* run, int64_t number) {
    char *out = buffer(run, run->out, number), *in = buffer(run, run->in, number);
    const int size = (int)run->size, parts = (int)run->parts;
    MPI_Request requests[IN_FLIGHT];
    MPI_Status statuses[IN_FLIGHT];

    stamp(run, out, number);
    for (int i = 0; i < parts; i++) {
        if (rank == 0) {
            MPI_Isend(out + i * run->size, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(in + i * run->size, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(parts, requests, statuses);
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    for (int i = 0; i < parts; i++) check_stamp(run, in + i * run->size, 0, number);
}

static void all_to_all(const struct run* run, int64_t number) {
    char *out = buffer(run, run->out, number), *in = buffer(run, run->in, number);
    const int size = (int)run->size;

    stamp(run, out, number);
    MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < RANKS; from++) {
        check_stamp(run, in + from * run->size, from, number);
    }
}

static void put(const struct run* run, int64_t number) {
    char* out = buffer(run, run->out, number);
    const int size = (int)run->size;

    if (rank == 1) return;
    stamp(run, out, number);
    for (int64_t at = 0; at < run->parts * run->size; at += run->size) {
        MPI_Put(out + at, size, MPI_BYTE, 1, at, size, MPI_BYTE, window);
    }
    MPI_Win_flush(1, window);
}

static void get(const struct run* run, int64_t number) {
    char* in = buffer(run, run->in, number);
    const int size = (int)run->size;

    if (rank == 1) return;
    for (int64_t at = 0; at < run->parts * run->size; at += run->size) {
        MPI_Get(in + at, size, MPI_BYTE, 1, at, size, MPI_BYTE, window);
    }
    MPI_Win_flush(1, window);
    for (int64_t at = 0; at < run->parts * run->size; at += run->size) {
        check_stamp(run, in + at, 1, 0);
    }
}

static const struct test {
    const char* name;
    void (*operate)(const struct run* run, int64_t number);
    enum { MESSAGES, PUTS, GETS } kind;
    int parts; /* 0: as many as may be in flight; the result is a bandwidth */
    int half;  /* the result is half of the time */
    int fresh;
} tests[] = {
    {"ping-pong", ping_pong, MESSAGES, 1, 1, 0},
    {"ping-pong-fresh", ping_pong, MESSAGES, 1, 1, 1},
    {"stream", stream, MESSAGES, 0, 0, 0},
    {"all-to-all", all_to_all, MESSAGES, RANKS, 0, 0},
    {"all-to-all-fresh", all_to_all, MESSAGES, RANKS, 0, 1},
    {"put", put, PUTS, 1, 0, 0},
    {"put-fresh", put, PUTS, 1, 0, 1},
    {"put-stream", put, PUTS, 0, 0, 0},
    {"get", get, GETS, 1, 0, 0},
    {"get-fresh", get, GETS, 1, 0, 1},
    {"get-stream", get, GETS, 0, 0, 0},
};

/* Checks the last message of each buffer. */
static void check_all(const struct test* test, const struct run* run, int64_t last) {
    if (test->kind == PUTS) {
        for (int64_t part = 0; rank == 1 && part < run->parts; part++) {
            check_message(run, window_memory + part * run->size, 0, last);
        }
        return;
    }
    if (test->operate == stream && rank == 0) return;
    if (test->kind == GETS && rank == 1) return;
    for (int64_t number = run->fresh ? 0 : last; number <= last; number++) {
        for (int64_t part = 0; part < run->parts; part++) {
            const char* message = buffer(run, run->in, number) + part * run->size;
            const int from = test->operate == all_to_all ? (int)part : !rank;
            check_message(run, message, from, test->kind == GETS ? 0 : number);
        }
    }
}

static int64_t between(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double seconds(clockid_t clock) {
    struct timespec time;

    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* What the target's memory holds before puts, and for gets. */
static void fill_window(const struct test* test, const struct run* run) {
    memset(window_memory, 0, (size_t)(run->parts * run->size));
    if (test->kind == GETS) {
        fill(run, window_memory);
        stamp(run, window_memory, 0);
    }
    MPI_Win_sync(window);
}

static void measure(const struct test* test, int64_t size, int divisor) {
    static double samples[MOST_SAMPLES];
    struct run run = {.size = size, .fresh = test->fresh};
    const int64_t batch = size <= SHORT ? BATCH : 1;
    int64_t warm_up = run.fresh ? WARM_UP_FRESH : WARM_UP, number = 0, count;
    double wall, cpu, least, value;

    run.parts = test->parts > 0 ? test->parts : between(BYTES_IN_FLIGHT / size, 4, IN_FLIGHT);
    count = between(BYTES / size / run.parts, 10, size <= SHORT ? 50 : MOST_SAMPLES);
    count = between(count / divisor, 3, MOST_SAMPLES);
    run.stride = (run.parts * size + PAGE - 1) / PAGE * PAGE + PAGE;
    run.buffers = run.fresh ? warm_up + count * batch : 1;
    run.out = ground(&run);
    run.in = ground(&run);
    for (int64_t i = 0; i < run.buffers; i++) {
        fill(&run, buffer(&run, run.out, i));
        memset(buffer(&run, run.in, i), 0, (size_t)(run.parts * size));
    }
    fill_window(test, &run);
    MPI_Barrier(MPI_COMM_WORLD);
    while (number < warm_up) test->operate(&run, number++);
    MPI_Barrier(MPI_COMM_WORLD);
    wall = seconds(CLOCK_MONOTONIC);
    cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < count; i++) {
        const double start = seconds(CLOCK_MONOTONIC);
        for (int64_t j = 0; j < batch; j++) test->operate(&run, number++);
        samples[i] = (seconds(CLOCK_MONOTONIC) - start) / (double)batch;
    }
    /* The target of puts and gets waits here. */
    MPI_Barrier(MPI_COMM_WORLD);
    cpu = (seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) / (seconds(CLOCK_MONOTONIC) - wall);
    MPI_Win_sync(window);
    check_all(test, &run, number - 1);
    munmap(run.out, (size_t)(run.buffers * run.stride));
    munmap(run.in, (size_t)(run.buffers * run.stride));
    MPI_Reduce(&cpu, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank != 0) return;
    qsort(samples, (size_t)count, sizeof *samples, compare);
    value = samples[count / 2] * 1e6 / (test->half ? 2 : 1);
    if (test->parts == 0) value = (double)(run.parts * size) / value / 1e3;
    printf("result %s %lld %.6g %.3f\n", test->name, (long long)size, value, least);
}

static void stay_on(int cpu) {
    cpu_set_t set;

    if (cpu < 0) return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) perror("sched_setaffinity");
}

int main(int argc, char** argv) {
    struct run largest = {.size = 8};
    int ranks, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc > 4 && ranks == RANKS, "two ranks and four arguments are needed", &largest);
    stay_on(atoi(argv[1 + rank]));
    for (int i = 4; i < argc; i++) {
        const int64_t size = atoll(argv[i]);
        if (size > largest.size) largest.size = size;
    }
    largest.parts = between(BYTES_IN_FLIGHT / largest.size, 4, IN_FLIGHT);
    MPI_Win_allocate(largest.parts * largest.size + BYTES_IN_FLIGHT, 1, MPI_INFO_NULL,
                     MPI_COMM_WORLD, &window_memory, &window);
    MPI_Win_lock_all(0, window);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    if (rank == 0) printf("library %s\n", library);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        for (int j = 4; j < argc; j++) measure(&tests[i], atoll(argv[j]), atoi(argv[3]));
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
