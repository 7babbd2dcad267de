#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a GoogleTest program and prints TAP: one line for each test case.

A test case is "not ok" if the program dies in it or exceeds the limit; the program is then started again for the
remaining cases. A process that outlives the program is "not ok", too. An argument --gtest_filter=... selects test
cases."""
import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

MAX_RESTARTS = int(os.environ.get("GTEST_TAP_RESTARTS", "20"))
MAX_CASES = 500  # in one run of the program, because one argument names them all
MAX_LINES = 200  # of the output of a case


def cases_of(listing):
    suite = ""
    for line in listing:
        name = line.split("  # ")[0]
        if not name.startswith("  "):
            suite = name
        elif "DISABLED_" not in suite + name:
            yield suite + name.strip()


def lines_of(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, errors="surrogateescape", **more).stdout.splitlines()


def members(session):
    """Its live processes: their names by their numbers."""
    listed = lines_of(["ps", "-o", "stat=,pid=,comm=", "-s", str(session)], check=False)
    return {pid: name for state, pid, name in (line.split(None, 2) for line in listed) if state[0] != "Z"}


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


class Runner:
    def __init__(self, command, limit):
        self.output = []
        self.command, self.limit = command, limit
        self.number = self.failures = 0
        self.remaining = []  # test cases without a verdict, in order

    def forget(self):
        """What belongs to a case. Its time begins: it is started, or the one before has ended."""
        self.current, self.skipped, self.output = "", "", []
        self.deadline = time.monotonic() + self.limit

    def show_output(self):
        for line in self.output[:MAX_LINES]:
            print("#", line)
        if len(self.output) > MAX_LINES:
            print(f"# (and {len(self.output) - MAX_LINES} lines more)")

    def verdict(self, good, name):
        self.number += 1
        self.failures += not good
        skipped = self.skipped and " # SKIP " + self.skipped.replace("#", "")
        print(f"{'ok' if good else 'not ok'} {self.number} - {name}{skipped}")
        if not good:
            self.show_output()
        sys.stdout.flush()
        self.forget()

    def finish_case(self, good):
        self.remaining = [name for name in self.remaining if name != self.current]
        self.verdict(good, self.current)

    def take(self, line):
        if match := re.search(r"\[ RUN      \] (\S+)", line):
            self.forget()
            self.current, self.reached = match[1], True
        elif match := re.search(r"\[     SKIP \] ?(.*)", line):  # UCX's own words
            self.skipped = match[1] or "no reason given"
        elif self.current and (match := re.search(rf"\[ +(\w+) +\] {re.escape(self.current)}[ ,]", line)):
            if match[1] == "SKIPPED":
                said = iter(self.output)
                any(line.endswith(": Skipped") for line in said)
                self.skipped = next(said, "no reason given")
            self.finish_case(match[1] != "FAILED")
        elif line and not line.startswith(("[-----", "[=====")):
            self.output.append(line)
            # The thread sanitizer lets a case pass and the program fail.
            self.reporting |= line.startswith("WARNING: ThreadSanitizer")
            if self.reporting:
                self.reports.append(line)
            if self.reporting and line.startswith("SUMMARY: "):
                self.reports.append(f"in or before {self.current}")
                self.reporting = False

    def run_once(self):
        """For the first remaining cases."""
        self.forget()
        self.reports, self.reporting, self.reached, self.late = [], False, False, False
        rest = b""
        with subprocess.Popen([*self.command, "--gtest_color=no", "--gtest_filter=" + ":".join(
                self.remaining[:MAX_CASES])], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, bufsize=0, start_new_session=True) as program:
            # Processes that the program leaves can hold the pipe open.
            os.set_blocking(program.stdout.fileno(), False)
            data, ended = b"", False
            while data or not ended:
                ended = program.poll() is not None
                data = program.stdout.read(65536) or b""
                *lines, rest = (rest + data).split(b"\n")
                for line in lines + ([rest] if ended and not data else []):
                    self.take(line.decode(errors="surrogateescape"))
                if time.monotonic() > self.deadline:
                    self.late = True
                    kill(members(program.pid))
                if not data:
                    time.sleep(0.02)
            self.status = program.returncode if program.returncode >= 0 else 128 - program.returncode
        self.check_leftovers(program.pid)

    def check_leftovers(self, session):
        patience = time.monotonic() + min(self.limit, 60)
        while left := members(session):
            over = time.monotonic() > patience
            if self.late or over:
                kill(left)
            # A crashed program may leave processes behind; that is not another failure.
            if over and self.status == 0:
                self.output += [f"{pid} {name}" for pid, name in left.items()]
                self.verdict(False, "no process is left behind")
            if over:
                return
            time.sleep(0.2)

    def how_it_ended(self):
        if self.late:
            return f"no verdict within {self.limit} s"
        killed_by = [number.name for number in signal.Signals if number == self.status - 128]
        return f"killed by signal {killed_by[0][3:]}" if killed_by else f"exited with status {self.status}"

    def bail_out(self, why):
        self.show_output()
        print("Bail out!", why)
        sys.exit(1)

    def run(self):
        command = " ".join(self.command)
        try:
            self.remaining = list(cases_of(lines_of([*self.command, "--gtest_list_tests"], check=True, timeout=self.limit)))
        except (OSError, subprocess.SubprocessError):
            self.bail_out(f"cannot list the tests of: {command}")
        restarts = 0
        while self.remaining:
            if restarts > MAX_RESTARTS:
                self.bail_out(f"gave up after {MAX_RESTARTS} restarts")
            failures, behind = self.failures, len(self.remaining[MAX_CASES:])
            self.run_once()
            if self.current or len(self.remaining) > behind:
                # The program ended early: in the current case, or before the next one.
                restarts += 1
                if not self.reached and not self.late and self.status <= 128:
                    self.bail_out(f"{command} started no test case and {self.how_it_ended()}")
                self.current = self.current or self.remaining[0]
                self.output.append(self.how_it_ended())
                self.finish_case(False)
            elif self.status and self.failures == failures:
                self.output = [*self.reports, *self.output, self.how_it_ended()]
                self.verdict(False, "the program ends with status 0")
        print(f"1..{self.number}")
        sys.exit(self.failures > 0)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("-t", dest="limit", type=int, default=300, help="for one test case, in seconds (default 300)")
parser.add_argument("command", nargs=argparse.REMAINDER)
options = parser.parse_args()
sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
Runner(options.command, options.limit).run()
