/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work queue: node 0 distributes tasks to the other nodes. A task is put into the ring of a
 * worker, with a signal that adds 1 to the worker's number of tasks. The result is returned in the
 * same way. Both sides read only their own memory.
 */
#include "common.h"

enum { TASKS = 3000, DEPTH = 8, END = -1 };

/* The memory of each node. Node 0 uses `done` and `results`, the others the rest. */
struct memory {
    uint64_t given;              /* tasks that have been put into the ring */
    int64_t ring[DEPTH];         /* numbers of tasks */
    uint64_t done[64];           /* results that have arrived from each worker */
    uint64_t results[TASKS + 1]; /* of each task; 0: it has not been done */
};

/* A task: how many steps Collatz's sequence takes from a number to 1, and the number itself, so
 * that the result is never 0. */
static uint64_t work(int64_t task) {
    uint64_t n = (uint64_t)task + 1, steps = 0;
    for (; n != 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    return steps * TASKS + (uint64_t)task + 1;
}

static void give(const rwapi_net* nets, int worker, uint64_t* given, int64_t task) {
    const size_t slot = offsetof(struct memory, ring) + 8 * (given[worker]++ % DEPTH);
    put_and_add(nets[worker], slot, &task, sizeof task, offsetof(struct memory, given), 1);
}

static int master(const struct memory* memory, const rwapi_net* nets, int size) {
    uint64_t given[64] = {0}, done = 0;
    int64_t next = 0;
    while (done < TASKS) {
        done = 0;
        for (int worker = 1; worker < size; ++worker) {
            const uint64_t back = rwapi_signal_read(&memory->done[worker]);
            done += back;
            /* A worker has room for what it has not done. */
            while (next < TASKS && given[worker] - back < DEPTH) {
                give(nets, worker, given, next++);
            }
        }
        rwapi_progress(NULL);
    }
    for (int worker = 1; worker < size; ++worker) give(nets, worker, given, END);
    int most = 0;
    for (int64_t task = 0; task < TASKS; ++task) {
        if (memory->results[task] != work(task)) {
            fprintf(stderr, "work_queue: task %d is wrong\n", (int)task);
            return 1;
        }
    }
    for (int worker = 1; worker < size; ++worker) {
        if (given[worker] > given[most]) most = worker;
    }
    printf("work_queue: %d tasks are right; at most %d by one worker\n", TASKS,
           (int)given[most] - 1);
    return 0;
}

static void worker(struct memory* memory, const rwapi_net* nets, int rank) {
    for (uint64_t taken = 0;; ++taken) {
        TRY(rwapi_signal_wait(NULL, &memory->given, taken + 1, 10000000));
        const int64_t task = memory->ring[taken % DEPTH];
        if (task == END) return;
        const uint64_t result = work(task);
        put_and_add(nets[0], offsetof(struct memory, results) + 8 * (uint64_t)task, &result,
                    sizeof result, offsetof(struct memory, done) + 8 * (uint64_t)rank, 1);
    }
}

int main(int argc, char** argv) {
    check("rwapi_init", rwapi_init(&argc, &argv));
    const int rank = rwapi_rank(), size = rwapi_size();
    if (size < 2 || size > 64) {
        fprintf(stderr, "work_queue needs 2 to 64 nodes\n");
        return 2;
    }
    struct memory* memory = allocate(sizeof *memory);
    rwapi_net nets[64];
    share(memory, sizeof *memory, nets);
    int status = 0;
    if (rank == 0) {
        status = master(memory, nets, size);
    } else {
        worker(memory, nets, rank);
    }
    check("rwapi_finalize", rwapi_finalize());
    return status;
}
