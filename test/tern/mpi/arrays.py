# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of NumPy through mpi4py, as Python makes and drops them; prints "arrays: ok".

Made anew for each message, freed and made again at the same place, reused, parts of others, as long
as the allocator likes, and a file that is mapped read-only.
"""
import sys
import tempfile

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
following, previous = (rank + 1) % ranks, (rank - 1) % ranks
wrong = []


def content(length, seed):
    return numpy.random.Generator(numpy.random.PCG64(seed)).integers(0, 256, length, numpy.uint8)


def shift(what, out, into, seed):
    """Sends content(seed + rank), which is in `out`, on; what comes must be the neighbour's."""
    world.Sendrecv(out, following, 1, into, previous, 1)
    if not numpy.array_equal(into, content(into.size, seed + previous).reshape(into.shape)):
        wrong.append(f"{what}, {seed}")


for i in range(12):
    length = 300_000 + 70_001 * i
    shift("fresh", content(length, i * ranks + rank), numpy.empty(length, numpy.uint8), i * ranks)

kept = []
for i in range(30):
    length = 1_000_000
    out, into = content(length, i * ranks + rank), numpy.zeros(length, numpy.uint8)
    shift("freed", out, into, i * ranks)
    if i % 5 == 0:
        kept.append(out)
    del out, into

out, into = numpy.empty(2_000_000, numpy.uint8), numpy.empty(2_000_000, numpy.uint8)
for i in range(12):
    out[:] = content(out.size, i * ranks + rank)
    shift("reused", out, into, i * ranks)

for i in range(12):
    part = slice(1000 * i + 1, 1000 * i + 900_001)
    out[part] = content(900_000, i * ranks + rank)
    shift("part", out[part], into[part][::1], i * ranks)

rows = numpy.zeros((64, 20_000), numpy.uint8)
for i in range(8):
    block = rows[8 * (i % 8) : 8 * (i % 8) + 8]
    block[:] = content(block.size, i * ranks + rank).reshape(block.shape)
    shift("rows", block, numpy.empty_like(block), i * ranks)

with tempfile.NamedTemporaryFile() as file:
    file.write(content(3_000_000, rank).tobytes())
    file.flush()
    for i in range(4):
        mapped = numpy.memmap(file.name, numpy.uint8, "r")
        shift("mapped", mapped, numpy.empty(mapped.size, numpy.uint8), 0)
        del mapped

objects = world.sendrecv({"a": content(500_000, rank)}, following, source=previous)
if not numpy.array_equal(objects["a"], content(500_000, previous)):
    wrong.append("object")

wrong = world.gather(wrong)
if rank == 0:
    print("arrays: ok" if not any(wrong) else f"arrays: {wrong}", flush=True)
    sys.exit(any(wrong))
