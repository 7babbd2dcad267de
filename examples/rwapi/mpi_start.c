/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rwapi in an MPI program. A table of three functions starts rwapi by MPI, which needs no threads
 * for that. Each process sends its rank to the next one by rwapi, and MPI sums the ranks up.
 */
#include <mpi.h>
#include <rwapi.h>
#include <stdio.h>
#include <string.h>

/* Its own communicator separates rwapi's calls of MPI from the program's. */
struct start {
    MPI_Comm processes;
    MPI_Request barrier;
};

static int exchange(void* context, const void* mine, size_t bytes, void* all) {
    const struct start* start = context;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, start->processes);
}

static int barrier_begin(void* context) {
    struct start* start = context;
    return MPI_Ibarrier(start->processes, &start->barrier);
}

static int barrier_test(void* context) {
    struct start* start = context;
    int over = 0;
    return MPI_Test(&start->barrier, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS ? over : -1;
}

int main(int argc, char** argv) {
    int rank, size, sum, from = 0;
    struct start start;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &start.processes);
    MPI_Comm_rank(start.processes, &rank);
    MPI_Comm_size(start.processes, &size);

    const rwapi_bootstrap table = {&start,   (uint32_t)rank, (uint32_t)size,
                                   exchange, barrier_begin,  barrier_test};
    const rwapi_params params = {.size = sizeof params, .bootstrap = &table};
    int error = rwapi_init_params(&params);
    if (error != 0) {
        fprintf(stderr, "%s\n", rwapi_strerror(error));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    rwapi_small small = {{0}};
    memcpy(small.bytes, &rank, sizeof rank);
    error = rwapi_send((rank + 1) % size, &small);
    while (error == 0) error = rwapi_receive(&from, &small);
    int number = -1;
    if (error == 1) memcpy(&number, small.bytes, sizeof number);
    /* Calls of rwapi send this process's message. A call that waits in MPI would delay it, and
     * another process may wait for the message. */
    MPI_Request request;
    int done = 0;
    MPI_Iallreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        rwapi_progress(NULL);
    }
    const int right =
        from == (rank + size - 1) % size && number == from && sum == size * (size - 1) / 2;
    if (rank == 0) printf("mpi_start: %s\n", right ? "right" : "wrong");
    error = rwapi_finalize();
    MPI_Comm_free(&start.processes);
    MPI_Finalize();
    return right && error == 0 ? 0 : 1;
}
