#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a rank of Open MPI takes on the software HCA, over btl openib, over stock UCX and over Tern.

    mpi_memory.py BUILD/src/tools [--ranks N,...] --json FILE

`tern-bench memory` counts the same for the transports by themselves, in virtual time, and for more peers; openib is a
part of Open MPI, and needs a real job. All ranks of a job talk to each other, in two stages: a message of 8 bytes to
each, and 40 to each. After each stage the device's counters are read. The memory of queues is that of mlx5's driver.
Needs mpi4py.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from replays import Result, read_json

MPIRUN = "mpirun.openmpi --oversubscribe --mca mpi_yield_when_idle 1 --mca btl_base_warn_component_unused 0".split()
UCX = "--mca pml ucx --mca osc ucx --mca btl self --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any".split()
OPENIB = ("--mca pml ob1 --mca osc pt2pt --mca btl openib,self --mca btl_openib_allow_ib 1 "
          "--mca btl_openib_warn_no_device_params_found 0").split()
EAGER_RDMA = "--mca btl_openib_use_eager_rdma 1".split()
ALL_PEERS = "--mca btl_openib_max_eager_rdma 1024".split()
# The options of mpirun, UCX_TLS, and the name in the result.
KINDS = (
    (OPENIB + "--mca btl_openib_use_eager_rdma 0".split(), "", "openib, no eager RDMA"),
    (OPENIB + EAGER_RDMA, "", "openib"),
    (OPENIB + EAGER_RDMA + ALL_PEERS, "", "openib, eager RDMA with all peers"),
    (UCX, "rc_v,self", "rc_v"),
    (UCX, "tern,self", "tern"),
)
STAGES = (("a message with each peer", 1), ("many small messages with each", 40))
TESTS = (("registered memory of a process", lambda process: process["counters"]["registered_bytes"]),
         ("memory of the queues of a process", lambda process: process["queues"]["bytes"]["live"]))


def rank():
    """The program of the job: a line for each stage, and then it waits for one."""
    # pylint: disable=import-error,import-outside-toplevel
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    mine, ranks = world.Get_rank(), world.Get_size()
    message, received = bytearray(8), bytearray(8)
    for _, times in STAGES:
        for _ in range(times):
            for distance in range(1, ranks):
                world.Sendrecv(message, (mine + distance) % ranks, 0, received, (mine - distance) % ranks, 0)
        world.Barrier()
        if mine == 0:
            print("stage", flush=True)
            sys.stdin.readline()
        world.Barrier()


def measure(options, kind, ranks):
    """For each stage the processes of the job, as `softhca status` has them."""
    mpirun, transports, name = kind
    softhca = os.path.join(options.tools, "softhca")
    fabric = f"mpi-memory-{os.getpid()}"
    words = [softhca, "run", "--fabric", fabric, "--personality", "mlx5", "--", *MPIRUN]
    words += ["--allow-run-as-root"] if os.getuid() == 0 else []
    words += ["-np", str(ranks), *mpirun]
    words += [os.path.join(options.tools, "tern-run"), "--"] if transports.startswith("tern") else []
    variables = {**os.environ, "UCX_NET_DEVICES": "softhca0:1", "UCX_WARN_UNUSED_ENV_VARS": "n",
                 "UCX_IB_PCI_RELAXED_ORDERING": "no"}
    if transports:
        variables["UCX_TLS"] = transports
    stages = []
    with tempfile.TemporaryFile() as errors, subprocess.Popen(
            words + [sys.executable, os.path.abspath(__file__), "rank"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors, env=variables, text=True) as job:
        for _ in STAGES:
            for line in job.stdout:
                if line.startswith("stage"):
                    break
            else:
                errors.seek(0)
                sys.exit(f"mpi_memory.py: {name}: " + errors.read().decode(errors="replace"))
            status = subprocess.run([softhca, "status", "--json", "--fabric", fabric], stdout=subprocess.PIPE, check=True)
            # mpirun looks at the devices too.
            stages.append([process for process in json.loads(status.stdout)["processes"]
                           if process["alive"] and process["objects"]["queue_pairs"] > 0])
            job.stdin.write("\n")
            job.stdin.flush()
    return stages


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", metavar="TOOLS")
    parser.add_argument("--ranks", default="2,9,33")
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    result = Result()
    for ranks in map(int, options.ranks.split(",")):
        for kind in KINDS:
            for (stage, _), processes in zip(STAGES, measure(options, kind, ranks)):
                if len(processes) != ranks:
                    sys.exit(f"mpi_memory.py: {kind[2]}: {len(processes)} processes on the device, not {ranks}")
                for test, value in TESTS:
                    mean = sum(map(value, processes)) / ranks / 1024
                    result.add(test, ranks - 1, f"{ranks - 1} peer" + "s" * (ranks > 2), f"{kind[2]}: {stage}", "KiB", mean)
                    print(f"{ranks} ranks, {kind[2]}, {stage}: {test} {mean:.0f} KiB", flush=True)
    # For the commit, the date and the machine.
    stamp = read_json([os.path.join(options.tools, "tern-bench"), "scale", "--patterns", "ring", "--ranks", "2", "--messages",
                       "1"])
    result.write(options.json, "mpi_memory",
                 {key: stamp[key] for key in ("schema", "version", "commit", "date", "machine", "ucx") if key in stamp})


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        rank()
    else:
        main()
