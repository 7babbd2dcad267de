/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last rank is killed while all others send to it; they go on until they are told. Prints what
 * each sender saw: "told" is right, "hung" is wrong. killed [BYTES]
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE = 500, PATIENCE = 120 };

static int rank;

static char hung[80];

static void give_up(int signal) {
    (void)signal;
    (void)!write(2, hung, strlen(hung));
    _exit(3);
}

static void be_killed(void* p, int n, int senders) {
    for (int i = 0; i < BEFORE * senders; i++) {
        MPI_Recv(p, n, MPI_BYTE, i % senders, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d: killed\n", rank);
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

static int send_until_told(const void* p, int n, int to) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int error, length;

    do {
        error = MPI_Send(p, n, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    } while (error == MPI_SUCCESS);
    MPI_Error_string(error, text, &length);
    fprintf(stderr, "rank %d: told: %s\n", rank, text);
    return 1;
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 100;
    int ranks;
    void* p;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    p = calloc(1, (size_t)n + 1);
    snprintf(hung, sizeof hung, "rank %d: hung, nobody told it that its peer is dead\n", rank);
    signal(SIGALRM, give_up);
    alarm(PATIENCE);
    if (rank == ranks - 1) {
        be_killed(p, n, ranks - 1);
    }
    _exit(send_until_told(p, n, ranks - 1)); /* MPI_Finalize would wait for the dead */
}
