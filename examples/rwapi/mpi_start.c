/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rwapi in an MPI program. A table of two functions starts rwapi by MPI. Each process sends its
 * rank to the next one by rwapi, and MPI sums the ranks up.
 */
#include <mpi.h>
#include <rwapi.h>
#include <stdio.h>
#include <string.h>

static int exchange(void* context, const void* mine, size_t bytes, void* all) {
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE,
                         *(MPI_Comm*)context);
}

static int barrier(void* context) {
    return MPI_Barrier(*(MPI_Comm*)context);
}

int main(int argc, char** argv) {
    /* At the end, rwapi calls the barrier in another thread. Its own communicator separates this
     * from the program's calls. */
    int rank, size, threads, sum, from = 0;
    MPI_Comm own;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_rank(own, &rank);
    MPI_Comm_size(own, &size);

    const rwapi_bootstrap table = {&own, (uint32_t)rank, (uint32_t)size, exchange, barrier};
    const rwapi_params params = {.size = sizeof params, .bootstrap = &table};
    rwapi_context* context;
    int error = rwapi_context_create(&params, &context);
    if (error != 0) {
        fprintf(stderr, "%s\n", rwapi_strerror(error));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    rwapi_small small = {{0}};
    memcpy(small.bytes, &rank, sizeof rank);
    while ((error = rwapi_context_send(context, (rank + 1) % size, &small)) == RWAPI_ERR_AGAIN) {
        rwapi_progress(context);
    }
    while (error == 0) error = rwapi_context_receive(context, &from, &small);
    int number = -1;
    if (error == 1) memcpy(&number, small.bytes, sizeof number);
    /* Calls of rwapi send this process's message. A call that waits in MPI would delay it, and
     * another process may wait for the message. */
    MPI_Request request;
    int done = 0;
    MPI_Iallreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        rwapi_progress(context);
    }
    const int right =
        from == (rank + size - 1) % size && number == from && sum == size * (size - 1) / 2;
    if (rank == 0) printf("mpi_start: %s\n", right ? "right" : "wrong");
    error = rwapi_context_destroy(context);
    MPI_Comm_free(&own);
    MPI_Finalize();
    return right && error == 0 ? 0 : 1;
}
