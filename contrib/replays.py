# SPDX-License-Identifier: BSD-3-Clause
"""Replays of recorded jobs in virtual time (`tern-bench replay`), and results that are made of them.

What availability.py, contenders.py and patterns.py have in common.
"""
import json
import os
import subprocess
import sys
import tarfile
import tempfile

LONG_RUN = 7200  # s: a replay of 128 ranks takes minutes


def run(words, timeout=LONG_RUN, **more):
    """Runs a program; if that fails, this program ends with what the other one said."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=timeout, **more)
    if done.returncode != 0:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {done.stdout.decode(errors='replace')}")


def read_json(words):
    """What a benchmark writes with --json."""
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "result.json")
        run([*words, "--json", name])
        with open(name, encoding="utf-8") as file:
            return json.load(file)


KEPT = ".tar.xz"


def unpack(archive, folder):
    """The names of the traces of a job that is kept (test/bench/traces), in the order of the ranks."""
    names = []
    with tarfile.open(archive, "r:xz") as kept:
        for member in kept:
            names.append(os.path.join(folder, os.path.basename(member.name)))
            with open(names[-1], "wb") as file:
                file.write(kept.extractfile(member).read())
    return names


class Replay:
    """A job, replayed over one transport: its time in us, how often its ranks registered memory, and the whole result."""

    def __init__(self, bench, transport, settings, traces, profile="graphene", model=None, compute=1):
        """`settings`: of UCX, without UCX_; or TERN_TUNABLES."""
        words = [bench, "replay", "--profile", profile, "--compute", str(compute), "--over", transport]
        words += ["--model", model] if model else []
        for key, value in settings.items():
            words += ["--set", f"{'' if key == 'TERN_TUNABLES' else 'UCX_'}{key}={value}"]
        self.result = read_json(words + traces)
        found = {figure["test"]: figure["median"] for figure in self.result["figures"]}
        self.time, self.registrations = found["job"], found["registrations of the job"]


class Result:
    """A file of docs/bench/results: figures, and under which conditions they came about."""

    def __init__(self):
        self.figures = []

    def add(self, test, x, x_text, name, unit, value):
        self.figures.append({"test": test, "x": x, "x_text": x_text, "name": name, "unit": unit, "median": value})

    def write(self, name, command, conditions, **more):
        """`conditions`: the result of a benchmark, of which all is kept that is not about its figures."""
        kept = {key: value for key, value in conditions.items() if key not in ("environment", "figures", "sizes")}
        kept.update(command=command, **more, figures=self.figures)
        with open(name, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
            file.write("\n")
