# SPDX-License-Identifier: BSD-3-Clause
"""Ranks in a ring that exchange numpy arrays, which each step makes anew: from 256 KiB to 4 MiB, as results of operations
on whole arrays. One of the jobs of README.md; needs numpy and mpi4py."""
import sys

import numpy
from mpi4py import MPI


def main():
    world = MPI.COMM_WORLD
    rank, ranks = world.Get_rank(), world.Get_size()
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    total = 0.0
    for step in range(steps):
        count = 32768 << step % 5
        field = numpy.arange(count, dtype=numpy.float64) + rank
        halves = []
        for to, source in ((right, left), (left, right)):
            outgoing = field * 0.5
            incoming = numpy.empty(count)
            world.Sendrecv(outgoing, to, step, incoming, source, step)
            halves.append(incoming)
        total += float((halves[0] - halves[1]).sum())
    total = world.allreduce(total)
    if rank == 0:
        print("sum", total)
    sys.exit(0 if total == 0 else 1)


main()
