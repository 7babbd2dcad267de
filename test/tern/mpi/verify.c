/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program that checks every byte it receives. Prints one line per section and "verify: ok",
 * and ends with status 0 if all was right. Needs an even number of ranks.
 *
 * verify [--seed N] [--threads] [section...]: the sections whose names have one of the words, or
 * all; --threads asks for MPI_THREAD_MULTIPLE, which some sections need.
 */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char* name;
    void (*run)(void);
    int needs_threads;
} sections[] = {
    {"point-to-point, blocking", point_to_point_blocking, 0},
    {"point-to-point, both ways", point_to_point_both_ways, 0},
    {"point-to-point, non-blocking", point_to_point_nonblocking, 0},
    {"wildcards and probe", wildcards, 0},
    {"all send modes", modes, 0},
    {"persistent requests", persistent, 0},
    {"synchronous sends wait", synchronous, 0},
    {"order of random sizes", order, 0},
    {"floods of unexpected messages", floods, 0},
    {"many outstanding", outstanding, 0},
    {"probe and matched probe", probes, 0},
    {"canceled requests", canceled, 0},
    {"truncated messages", truncated, 0},
    {"matching at random", matching, 0},
    {"matching, many tags", matching_many, 0},
    {"matching, truncated synchronous", matching_truncated, 0},
    {"strided data", strided, 0},
    {"derived datatypes", datatypes, 0},
    {"to itself", self, 0},
    {"communicators", communicators, 0},
    {"intercommunicators", intercommunicators, 0},
    {"broadcast", broadcast, 0},
    {"allreduce and reduce_scatter", reductions, 0},
    {"alltoall", all_to_all, 0},
    {"allgather", gathers, 0},
    {"collectives of uneven parts", uneven, 0},
    {"non-blocking collectives", nonblocking_collectives, 0},
    {"barrier", barrier, 0},
    {"large, fresh memory", large_fresh, 0},
    {"large, again and again", large_again, 0},
    {"large, overlapping sends", large_overlapping, 0},
    {"large, all to all", large_exchange, 0},
    {"large, strided", large_strided, 0},
    {"one-sided, fence", one_sided_fence, 0},
    {"one-sided, lock", one_sided_lock, 0},
    {"one-sided, atomics", one_sided_atomics, 0},
    {"one-sided, groups", one_sided_groups, 0},
    {"one-sided, requests", one_sided_requests, 0},
    {"threads", threads, 1},
    {"matching by threads", matching_threads, 1},
};

static int chosen(const char* name, char** words) {
    if (*words == NULL) {
        return 1;
    }
    for (; *words != NULL; words++) {
        if (strstr(name, *words) != NULL) {
            return 1;
        }
    }
    return 0;
}

/* Runs one section at all ranks. Returns the number of errors, the same everywhere. */
static long run(size_t i) {
    const double start = MPI_Wtime();
    long sum;

    errors = 0;
    sections[i].run();
    MPI_Allreduce(&errors, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s: %s (%.2f s)\n", sections[i].name, sum == 0 ? "ok" : "WRONG",
               MPI_Wtime() - start);
        fflush(stdout);
    }
    return sum;
}

int main(int argc, char** argv) {
    int level = MPI_THREAD_SINGLE, provided, ran = 0;
    long total = 0;

    for (argv++; *argv != NULL && strncmp(*argv, "--", 2) == 0; argv++) {
        if (strcmp(*argv, "--threads") == 0) {
            level = MPI_THREAD_MULTIPLE;
        } else if (strcmp(*argv, "--seed") == 0 && argv[1] != NULL) {
            seed = (unsigned)strtoul(*++argv, NULL, 0);
        } else {
            fprintf(stderr, "verify: no such option %s\n", *argv);
            return 2;
        }
    }
    MPI_Init_thread(NULL, NULL, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks % 2 != 0 || provided < level) {
        fprintf(stderr,
                "verify: needs an even number of ranks, and an MPI with threads for "
                "--threads\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0) {
        printf("verify: %d ranks, seed %u\n", ranks, seed);
    }
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (chosen(sections[i].name, argv) &&
            (!sections[i].needs_threads || level == MPI_THREAD_MULTIPLE)) {
            total += run(i);
            ran++;
        }
    }
    if (rank == 0) {
        printf("verify: %s\n", ran == 0 ? "no such section" : total == 0 ? "ok" : "WRONG");
    }
    MPI_Finalize();
    return total != 0 || ran == 0;
}
