/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and puts of MPI. A put and its signal are two puts, each with a flush. */
#include <mpi.h>

#include "bench/tern-bench/shim.h"

enum { IN_FLIGHT = 64, TAG = 1, LOOKS = 8 };

static int other;
static char* memory;
static MPI_Win window;

static char* open_mpi(char* mine, size_t size) {
    int rank;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = !rank;
    memory = mine;
    MPI_Win_create(memory, (MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    return memory;
}

static void close_mpi(void) {
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
}

static void progress(void) {
    int there;

    MPI_Iprobe(other, TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
}

static void send(const char* from, size_t size) {
    MPI_Send(from, (int)size, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
}

static void receive(char* into, size_t size) {
    MPI_Recv(into, (int)size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void many(const char* from, char* into, size_t size, size_t places, size_t count) {
    MPI_Request requests[IN_FLIGHT];
    MPI_Status statuses[IN_FLIGHT];

    for (size_t i = 0; i < count; i++) {
        MPI_Request* const request = &requests[i % IN_FLIGHT];
        const size_t at = i % places * size;
        if (i >= IN_FLIGHT) MPI_Wait(request, MPI_STATUS_IGNORE);
        if (from != NULL) {
            MPI_Isend(from + at, (int)size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, request);
        } else {
            MPI_Irecv(into + at, (int)size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, request);
        }
    }
    MPI_Waitall((int)(count < IN_FLIGHT ? count : IN_FLIGHT), requests, statuses);
}

static void put(size_t to, const void* from, size_t size) {
    MPI_Put(from, (int)size, MPI_BYTE, other, (MPI_Aint)to, (int)size, MPI_BYTE, window);
    MPI_Win_flush(other, window);
}

static void put_signal(size_t to, const char* from, size_t size, size_t word, uint64_t number) {
    put(to, from, size);
    put(word, &number, sizeof number);
}

static void wait_signal(size_t word, uint64_t number) {
    const volatile uint64_t* const signal = (const volatile uint64_t*)(memory + word);

    for (unsigned looks = 1;; looks++) {
        MPI_Win_sync(window);
        if (*signal >= number) break;
        if (looks % LOOKS == 0) progress();
    }
    MPI_Win_sync(window);
}

const struct tern_bench_calls tern_bench_shim = {
    .open = open_mpi,
    .close = close_mpi,
    .progress = progress,
    .send = send,
    .receive = receive,
    .many = many,
    .put_signal = put_signal,
    .wait_signal = wait_signal,
};
