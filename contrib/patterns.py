#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measurements of the pinning paper in virtual time: with memory that is pinned first, meanwhile, or once.

    patterns.py TOOLS [--patterns NAME,...] [--bytes N] [--rounds N] [--slower N,...] --json FILE
    patterns.py TOOLS --json FILE [--compute FACTOR] --job JOB.tar.xz

TOOLS is the folder of tern-bench in a build. Each pattern (test/tern/mpi/patterns.c) is recorded with two ranks of Open MPI,
and replayed by `tern-bench replay` on the paper's network (10G Ethernet, 7.5 us one way) with the paper's costs of
pinning (table 1): all memory pinned for each message and unpinned after it; the same, but piece by piece while earlier
pieces are on the wire; and pinned once. The program uses the same buffers again and again. Its own computations, among
them the sums, take no time. A round is the difference of two recordings, with N and 2 N rounds.

--slower: the processor pins so many times as slowly, because others use it (section 4.3). --job: instead of the patterns,
a job that was recorded before (test/bench/traces), with its computations, on the Xeon.
"""
import argparse
import os
import tempfile

from replays import KEPT, Replay, Result, run, unpack

PATTERNS = ("PingPong", "SendRecv", "Allgatherv", "Broadcast", "Reduce", "Allreduce", "Reduce_scatter", "Exchange")
PROCESSORS = {"Xeon E5460": (1.3, 150), "Opteron 265": (4.2, 720)}  # us, and ns for each page of 4 KiB
NETWORK = "latency=7.5us,bandwidth=1.25"
KINDS = {
    "pinned first": {"TERN_PIN_MONITOR": "none", "TERN_TUNABLES": "rndv_pin_overlap=0"},
    "overlapped": {"TERN_PIN_MONITOR": "none"},
    "cached": {},
}
ALWAYS = {"TERN_RNDV_SCHEME": "zcopy", "TERN_RNDV_PIN_AFTER": "1", "RNDV_THRESH": "32k"}  # the last as in Open-MX
MPIRUN = ("mpirun.openmpi --oversubscribe -np 2 --mca pml ucx --mca osc ucx --mca btl self "
          "--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any").split()


class Recorder:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.library = os.path.abspath(os.path.join(options.tools, "..", ".libs", "libtern_record.so"))
        self.program = os.path.join(folder, "patterns")
        source = os.path.join(os.path.dirname(__file__), "../test/tern/mpi/patterns.c")
        run(["mpicc.openmpi", "-O2", "-o", self.program, source])

    def record(self, pattern, rounds):
        """The names of the traces."""
        trace = os.path.join(self.folder, f"{pattern}.{rounds}")
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        preload = f'LD_PRELOAD="{self.library}:$LD_PRELOAD" exec "$0" "$@"'
        words = [os.path.join(self.options.tools, "softhca"), "run", "--", *MPIRUN, *root, "-x", "TERN_RECORD",
                 "sh", "-c", preload, self.program, pattern, str(self.options.bytes), str(rounds)]
        run(words, timeout=300, env={**os.environ, "UCX_TLS": "rc_v,self", "TERN_RECORD": trace})
        return [f"{trace}.{rank}" for rank in (0, 1)]


class Paper:
    """Replays with the paper's network and costs."""

    def __init__(self, options):
        self.options, self.result, self.last = options, Result(), None

    def replay(self, costs, slower, kind, traces, compute=0):
        base, page = (slower * cost for cost in costs)
        model = f"{NETWORK},reg-latency={base}us,reg-bandwidth={4096 / page:.4g},dereg-latency=0us"
        bench = os.path.join(self.options.tools, "tern-bench")
        self.last = Replay(bench, "tern", {**ALWAYS, **KINDS[kind]}, traces, model=model, compute=compute)
        return self.last

    def pattern(self, name, few, many):
        """`few`, `many`: traces of N and 2 N rounds."""
        options = self.options
        where = options.bytes, f"{options.bytes >> 10} KiB"
        for processor, costs in PROCESSORS.items():
            for slower in options.slower:
                test = f"{name}, {processor}" + (f", pinning {slower} times as slow" if slower > 1 else "")
                times = {}
                for kind in KINDS:
                    early, late = (self.replay(costs, slower, kind, traces).time for traces in (few, many))
                    times[kind] = (late - early) / options.rounds
                    self.result.add(test, *where, kind, "us", times[kind])
                    if name == "PingPong":
                        self.result.add(f"{test}, throughput", *where, kind, "GB/s", 2 * options.bytes / times[kind] / 1000)
                self.gains(test, *where, times)

    def gains(self, test, x, x_text, times):
        for kind in ("overlapped", "cached"):
            self.result.add(f"{test}, gain", x, x_text, kind, "%", 100 * (1 - times[kind] / times["pinned first"]))

    def job(self, name, traces):
        where, times = (len(traces), name), {}
        costs = next(iter(PROCESSORS.values()))  # table 2 is of that one
        for kind in KINDS:
            replay = self.replay(costs, 1, kind, traces, self.options.compute)
            times[kind] = replay.time
            self.result.add("time of the job", *where, kind, "ms", replay.time / 1000)
            self.result.add("registrations of the job", *where, kind, "", replay.registrations)
        self.gains("time of the job", *where, times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", metavar="TOOLS")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--slower", default="1")
    parser.add_argument("--compute", type=float, default=1)
    parser.add_argument("--job", metavar=f"JOB{KEPT}")
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    options.slower = [int(word) for word in options.slower.split(",")]
    paper = Paper(options)
    with tempfile.TemporaryDirectory() as folder:
        if options.job:
            paper.job(os.path.basename(options.job).removesuffix(KEPT), unpack(options.job, folder))
        else:
            recorder = Recorder(options, folder)
            for name in options.patterns.split(","):
                paper.pattern(name, *(recorder.record(name, count * options.rounds) for count in (1, 2)))
    conditions = {key: value for key, value in paper.last.result.items() if key != "model"}
    more = {} if options.job else {"rounds": str(options.rounds)}
    paper.result.write(options.json, "patterns", conditions, network=NETWORK, **more)


if __name__ == "__main__":
    main()
