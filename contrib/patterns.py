#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Table 2 of the pinning paper in virtual time: patterns of communication, with and without a cache of pins.

    patterns.py TOOLS [--patterns NAME,...] [--bytes N] [--rounds N] --json FILE

TOOLS is the folder of tern-bench in a build. Each pattern (test/mpi/patterns.c) is recorded with two ranks of Open MPI,
and replayed by `tern-bench replay` on the paper's network (10G Ethernet, 7.5 us one way) with the paper's costs of
pinning (table 1): all memory pinned for each message and unpinned after it; the same, but piece by piece while earlier pieces
are on the wire; and pinned once. The program uses the same buffers again and again. Its own computations, among them the
sums, take no time. A round is the difference of two recordings, with N and 2 N rounds.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

PATTERNS = ("PingPong", "SendRecv", "Allgatherv", "Broadcast", "Reduce", "Allreduce", "Reduce_scatter", "Exchange")
PROCESSORS = {"Xeon E5460": (1.3, 150), "Opteron 265": (4.2, 720)}  # us, and ns for each page of 4 KiB
NETWORK = "latency=7.5us,bandwidth=1.25"
KINDS = {
    "pinned first": {"TERN_PIN_MONITOR": "none", "TERN_RNDV_PIN_OVERLAP": "n"},
    "overlapped": {"TERN_PIN_MONITOR": "none"},
    "cached": {},
}
ALWAYS = {"TERN_RNDV_SCHEME": "zcopy", "TERN_RNDV_PIN_AFTER": "1", "RNDV_THRESH": "32k"}  # the last as in Open-MX
MPIRUN = ("mpirun.openmpi --oversubscribe -np 2 --mca pml ucx --mca osc ucx --mca btl self "
          "--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any").split()


def run(words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300, **more)
    if done.returncode != 0:
        sys.exit("patterns.py: " + done.stdout.decode(errors="replace"))


class Recorder:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.library = os.path.abspath(os.path.join(options.tools, "..", ".libs", "libtern_record.so"))
        self.program = os.path.join(folder, "patterns")
        source = os.path.join(os.path.dirname(__file__), "../test/mpi/patterns.c")
        run(["mpicc.openmpi", "-O2", "-o", self.program, source])

    def record(self, pattern, rounds):
        """The names of the traces."""
        trace = os.path.join(self.folder, f"{pattern}.{rounds}")
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        preload = f'LD_PRELOAD="{self.library}:$LD_PRELOAD" exec "$0" "$@"'
        words = [os.path.join(self.options.tools, "softhca"), "run", "--", *MPIRUN, *root, "-x", "TERN_RECORD",
                 "sh", "-c", preload, self.program, pattern, str(self.options.bytes), str(rounds)]
        run(words, env={**os.environ, "UCX_TLS": "rc_v,self", "TERN_RECORD": trace})
        return [f"{trace}.{rank}" for rank in (0, 1)]


def replay(options, model, settings, traces, folder):
    result = os.path.join(folder, "replay.json")
    words = [os.path.join(options.tools, "tern-bench"), "replay", "--profile", "graphene", "--model", model,
             "--compute", "0", "--json", result]
    for key, value in {**ALWAYS, **settings}.items():
        words += ["--set", f"UCX_{key}={value}"]
    run(words + traces)
    with open(result, encoding="utf-8") as file:
        return json.load(file)


def job(result):
    return next(figure["median"] for figure in result["figures"] if figure["name"] == "tern")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", metavar="TOOLS")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    figures, last = [], None

    def add(test, name, unit, value):
        figures.append({"test": test, "x": options.bytes, "x_text": f"{options.bytes >> 10} KiB", "name": name,
                        "unit": unit, "median": value})

    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(options, folder)
        for pattern in options.patterns.split(","):
            few, many = (recorder.record(pattern, count * options.rounds) for count in (1, 2))
            for processor, (base, page) in PROCESSORS.items():
                model = f"{NETWORK},reg-latency={base}us,reg-bandwidth={4096 / page:.4g},dereg-latency=0us"
                times = {}
                for name, settings in KINDS.items():
                    early, last = (replay(options, model, settings, traces, folder) for traces in (few, many))
                    times[name] = (job(last) - job(early)) / options.rounds
                    add(f"{pattern}, {processor}", name, "us", times[name])
                for name in ("overlapped", "cached"):
                    add(f"{pattern}, {processor}, gain", name, "%", 100 * (1 - times[name] / times["pinned first"]))
    result = {key: value for key, value in last.items() if key not in ("environment", "figures", "sizes", "model")}
    result.update(command="patterns", network=NETWORK, rounds=str(options.rounds), figures=figures)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
