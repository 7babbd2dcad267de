// SPDX-License-Identifier: BSD-3-Clause
// Ranks in a ring whose parts of a list grow: each step appends to a std::vector, which takes new
// memory when it is full, and exchanges what is new with both neighbours into vectors of their
// own. So most messages come from memory that no message has used. One of the jobs of README.md.
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Values = std::vector<double>;

// All values of a step, to a neighbour; theirs, from the other one.
Values exchange(const Values& mine, int to, int from, int step) {
    unsigned long count = mine.size(), theirs = 0;
    MPI_Sendrecv(&count, 1, MPI_UNSIGNED_LONG, to, step, &theirs, 1, MPI_UNSIGNED_LONG, from, step,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    Values received(theirs);
    MPI_Sendrecv(mine.data(), static_cast<int>(count), MPI_DOUBLE, to, step, received.data(),
                 static_cast<int>(theirs), MPI_DOUBLE, from, step, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return received;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int steps = argc > 1 ? std::atoi(argv[1]) : 24;
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    Values mine;
    double sum = 0;
    // From 256 KiB to 4 MiB: 32768 values more in each step, up to 16 times as many.
    for (int step = 0; step < steps; ++step) {
        if (step % 16 == 0) Values().swap(mine);  // the list begins anew
        for (int i = 0; i < 32768; ++i) mine.push_back(rank + i + step);
        const Values from_left = exchange(mine, right, left, 2 * step);
        const Values from_right = exchange(mine, left, right, 2 * step + 1);
        for (size_t i = 0; i < from_left.size(); ++i) sum += from_left[i] - from_right[i];
    }
    double all = 0;
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) std::printf("sum %g\n", all);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
