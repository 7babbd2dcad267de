# SPDX-License-Identifier: BSD-3-Clause
"""Commands on one machine or on both, and the rows of the report that they make."""
import contextlib
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from report import cleaned

TOOLS = pathlib.Path(__file__).resolve().parent
WRONG = re.compile(r"wrong (?:byte|order).*|.*(?:out of order or were damaged|the bytes are not there).*")
NO_SERVER = re.compile(r"refused|connect|no server", re.I)
SERVER_STARTS = 20  # seconds, in which a client that finds no server tries again
PATIENCE = 30  # seconds, for what only tells something


class Wrong(Exception):
    """A byte was wrong: nothing else is worth running."""


def told(words):
    """What a command prints; nothing if there is none."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE).stdout
    return ""


class Machine:
    """One of the two machines, or of the two places on one."""

    def __init__(self, name, way):
        self.name, self.way = name, way
        self.alone = True  # the other one is this machine, too
        self.facts, self.device = {}, ""

    @property
    def address(self):
        return "127.0.0.1" if self.way == "local" and self.alone else self.name

    def command(self, words, environment, limit):
        words = ["timeout", "-k", "5", str(limit), "env", *(f"{k}={v}" for k, v in environment.items()), *words]
        if self.way == "local":
            return words
        # When the connection ends, so does the command.
        text = (f"exec 3<&0; {shlex.join(words)} </dev/null & p=$!; (cat <&3; kill $p) >/dev/null 2>&1 & "
                "wait $p; s=$?; kill $! 2>/dev/null; exit $s")
        if self.way == "srun":
            return ["srun", "--quiet", "--overlap", "-N1", "-n1", "-w", self.name, "sh", "-c", text]
        return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", self.name, "sh -c " + shlex.quote(text)]


class Process:
    """A running command; its output goes to a file."""

    def __init__(self, machine, words, environment, limit):
        self.file = tempfile.TemporaryFile("w+b")
        self.words = words = [str(word) for word in words]
        self.popen = subprocess.Popen(
            machine.command(words, environment, limit), stdout=self.file, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL if machine.way == "local" else subprocess.PIPE, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.file.close()

    def stop(self, patience=5):
        if self.popen.stdin:
            self.popen.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.popen.poll() is not None and number == signal.SIGTERM:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(patience)

    def ends(self, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)
        return self.popen.poll() is not None

    def prints(self, text, patience):
        """Whether the text appears before the command ends, and in so many seconds."""
        begin = time.monotonic()
        while text not in self.output() and not self.ends(0.2) and time.monotonic() < begin + patience:
            pass
        return text in self.output()

    def output(self):
        # The command's place in the file is not to move.
        file = self.file.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


class Outcome:
    """How commands ended, and what they printed: the figures are in what the client of a pair has printed."""

    def __init__(self, status, output, why=""):
        self.status, self.output, self.why = status, output, why
        self.printed, self.figures = output, []


class Run:
    """The run: options, machines, and the rows so far."""

    def __init__(self, options, machines):
        self.options, self.machines, self.rows = options, machines, []
        base = tempfile.gettempdir() if all(machine.way == "local" for machine in machines) else "/tmp"
        self.folder = f"{base}/tern-first-run-{random.randrange(16 ** 8):08x}"
        self.port = random.randrange(20000, 30000)
        self.step = ""
        self.reached = True

    def limit(self, seconds):
        return self.options.limit or seconds

    def one(self, words, limit=120, environment=None, machine=0):
        limit = self.limit(limit)
        with Process(self.machines[machine], words, environment or {}, limit) as process:
            ended = process.ends(limit + 10)
            return self.outcome(process, ended, limit)

    @staticmethod
    def outcome(process, ended, limit):
        status = process.popen.poll() if ended else 124
        why = f"no end within {limit} s" if status == 124 else f"status {status}"
        return Outcome(status, process.output(), "" if status == 0 else f"{process.words[0].split('/')[-1]}: {why}")

    def pair(self, server, client, limit=120, environment=None):
        """Runs `server` on the first machine and `client` on the second. A client that comes too early comes again."""
        limit, environment = self.limit(limit), environment or {}
        begin = time.monotonic()
        with Process(self.machines[0], server, environment, limit) as waiting:
            while True:
                with Process(self.machines[1], client, environment, limit) as coming:
                    while not coming.ends(0.1) and time.monotonic() < begin + limit + 10:
                        if waiting.popen.poll() not in (None, 0) and coming.ends(5) is False:
                            break
                    outcome = self.outcome(coming, coming.popen.poll() is not None, limit)
                early = NO_SERVER.search(outcome.output) and time.monotonic() < begin + SERVER_STARTS
                if outcome.status == 0 or waiting.popen.poll() is not None or not early:
                    break
                time.sleep(0.1)
            if outcome.status == 0:
                other = self.outcome(waiting, waiting.ends(20), limit)
                outcome.status, outcome.why = other.status, other.why
            else:
                waiting.stop()
            outcome.output += waiting.output()
        return outcome

    def next_port(self):
        self.port += 1
        return str(self.port)

    def row(self, title, act, needs=(), both=True):
        """Carries out a row: act() returns an Outcome."""
        print(f"{self.step:9} {title} ... ", end="", file=sys.stderr, flush=True)
        begin = time.monotonic()
        row = {"step": self.step, "title": title, "status": "ok", "figures": []}
        absent = [program for program in needs if not shutil.which(program)]
        if absent:
            row.update(status="missing", remark=f"{', '.join(absent)}: not installed")
        elif both and not self.reached:
            row.update(status="missing", remark="a machine cannot be reached")
        else:
            try:
                outcome = act()
            except Exception as error:  # pylint: disable=broad-except # the run goes on
                outcome = Outcome(1, "", f"{type(error).__name__}: {error}")
            row["figures"] = outcome.figures
            wrong = WRONG.search(outcome.output)
            if wrong:
                row.update(status="wrong", remark=self.clean(wrong.group(0)), log=self.tail(outcome.output))
            elif outcome.status != 0:
                row.update(status="failed", remark=self.clean(outcome.why), log=self.tail(outcome.output))
            elif outcome.why:
                row["remark"] = self.clean(outcome.why)
        row["seconds"] = round(time.monotonic() - begin, 1)
        self.rows.append(row)
        remark = f": {row['remark']}" if row.get("remark") else ""
        print(f"{row['status']}{remark} ({row['seconds']} s)", file=sys.stderr)
        if row["status"] == "wrong":
            raise Wrong(row["remark"])
        return row

    def clean(self, text):
        names = {self.folder, str(TOOLS), str(TOOLS.parent), self.options.tests or ""}
        for machine in self.machines:
            names |= {machine.name, machine.facts.get("name", "")}
        return cleaned(text, names)

    def tail(self, text):
        return self.clean("\n".join(text.strip().split("\n")[-30:]))


def figure(what, arm, size, value, unit):
    return {"what": what, "arm": arm, "bytes": size, "value": value, "unit": unit}


def with_figures(outcome, figures, wanted=True):
    outcome.figures = figures
    if outcome.status == 0 and wanted and not figures:
        outcome.status, outcome.why = 1, "its output has no figures"
    return outcome
