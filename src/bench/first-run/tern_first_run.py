#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command tern-first-run: tries an adapter, UCX and Tern between two machines, and writes a report.

A step is a generator in STEPS, which carries out rows: commands on one machine or on both. A row that fails is a row of
the report. Only a wrong byte, and a signal, end the run. What the report has of the commands' output are figures, and
of those that failed the last lines, without names and addresses.
"""
import argparse
import contextlib
import datetime
import getpass
import html
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

VERSION = "@PACKAGE_VERSION@"
CONTACT = "@PACKAGE_BUGREPORT@"
TOOLS = pathlib.Path(__file__).resolve().parent
SCHEMA = 1  # of first-run.json
EXIT_FAILED, EXIT_WRONG = 1, 3
WRONG = re.compile(r"wrong (?:byte|order).*|.*(?:out of order or were damaged|the bytes are not there).*")
NO_SERVER = re.compile(r"refused|connect|no server", re.I)
SERVER_STARTS = 20  # seconds, in which a client that finds no server tries again
PATIENCE = 30  # seconds, for what only tells something
# Without these, MPI may take other ways than UCX, or none of the network; tern-run sets them for Tern.
MPI_OVER_UCX = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx", "OMPI_MCA_opal_common_ucx_tls": "any",
                "OMPI_MCA_opal_common_ucx_devices": "any", "MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ucx"}

HELP = f"""Tries the adapters of two machines with perftest, UCX, MPI and Tern, and writes a report without names
and addresses: first-run.json and first-run.html.
Usage: tern-first-run [OPTIONS] [HOST1 HOST2]

HOST2 is reached by ssh without a password, or within an allocation of Slurm by srun; so is HOST1 if it is another
machine. Both have this package in the same folder. Without hosts: those of the allocation, or this machine twice.

Options:
  -h,--help                   Print this help message and exit
  --version                   Print the version and exit
  --device NAME[,NAME]        HCA and port as UCX names them, of both machines or of each [the first active port]
  --gid-index N               entry of the GID table, for RoCE [0; Tern and UCX choose]
  --output FOLDER             where the report is written [.]
  --short                     few repetitions: whether it works, not how fast
  --steps LIST                only these steps: check, perftest, order, ucx, bench, mpi, tests, faults
  --requests N                requests of the step order [1000000000; with --short 1000000]
  --limit SECONDS             the longest time of a command, instead of its own
  --tests FOLDER              the folder test of a build: runs its conformance programs on the device
  --faults                    kills a process, and looks whether the other one is told
  --cable COMMAND             runs "COMMAND down" and, 5 s later, "COMMAND up" under traffic
"""

# What each rank sends to the other one: lengths around all powers of two, at once, and each byte is checked.
PAIR_C = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}
static void work(double until) {
    while (MPI_Wtime() < until) continue;
}
/* Medians at rank 1: of a message between buffers of its own or of all, and of what is left of one to wait for after
   both ranks have worked for twice its time. */
static void measure(int rank) {
    enum { FRESH, REUSED, LEFT, KINDS, TIMES = 31 };
    static const char* const names[] = {"fresh buffers", "reused buffers", "left after work"};
    for (int size = 1 << 16; size <= 1 << 22; size *= 8) {
        const size_t distance = size + 8192;
        double median = 0;
        for (int kind = FRESH; kind < KINDS; ++kind) {
            char* const memory = malloc((TIMES + 1) * distance);
            double times[TIMES];
            for (size_t i = 0; i < (TIMES + 1) * distance; i += 4096) memory[i] = 1;
            for (int i = -1; i < TIMES; ++i) {
                char* const buffer = memory + (kind == FRESH ? i + 1 : 0) * distance;
                MPI_Request request;
                MPI_Barrier(MPI_COMM_WORLD);
                double begin = MPI_Wtime();
                if (rank == 0) MPI_Isend(buffer, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
                if (rank == 1) MPI_Irecv(buffer, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
                if (kind == LEFT) work(begin + 2 * median);
                if (kind == LEFT) begin = MPI_Wtime();
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                if (i >= 0) times[i] = MPI_Wtime() - begin;
            }
            qsort(times, TIMES, sizeof times[0], compare);
            median = times[TIMES / 2];
            MPI_Bcast(&median, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
            if (rank == 0) printf("measured %d %.3f %s\\n", size, 1e6 * median, names[kind]);
            free(memory);
        }
    }
}
int main(int argc, char** argv) {
    enum { AT_ONCE = 4 };
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    long messages = 0;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rounds == 0) measure(rank);
    for (int round = 0; round < rounds; ++round)
        for (int size = 1; size <= 1 << 20; size *= 2) {
            unsigned char *out[AT_ONCE], *in[AT_ONCE];
            MPI_Request requests[2 * AT_ONCE];
            const int bytes = size + round % 3 - 1;
            for (int i = 0; i < AT_ONCE; ++i) {
                out[i] = malloc(bytes + 1);
                in[i] = calloc(1, bytes + 1);
                for (int b = 0; b < bytes; ++b) out[i][b] = (unsigned char)(b * 7 + b / 251 + round + i + rank);
                MPI_Irecv(in[i], bytes, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &requests[i]);
                MPI_Isend(out[i], bytes, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &requests[AT_ONCE + i]);
            }
            MPI_Waitall(2 * AT_ONCE, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < AT_ONCE; ++i, ++messages) {
                for (int b = 0; b < bytes; ++b) {
                    const unsigned char byte = (unsigned char)(b * 7 + b / 251 + round + i + 1 - rank);
                    if (in[i][b] == byte) continue;
                    printf("wrong byte: rank %d, round %d, message %d of %d bytes: byte %d is 0x%02x, not 0x%02x\\n",
                           rank, round, i, bytes, b, in[i][b], byte);
                    fflush(stdout);
                    MPI_Abort(MPI_COMM_WORLD, 3);
                }
                free(out[i]);
                free(in[i]);
            }
        }
    if (rank == 0) printf("verify: ok, %ld messages\\n", messages);
    MPI_Finalize();
    return 0;
}
"""

# What a machine is, as NAME=VALUE; of the device only what its kind has, not what the single one has.
FACTS_SH = r"""
mkdir -m 700 -p "$1"
echo "kernel=$(uname -r)"; echo "architecture=$(uname -m)"; echo "name=$(uname -n)"
. /etc/os-release 2>/dev/null && echo "system=$PRETTY_NAME"
sed -n 's/^model name[^:]*: /processor=/p' /proc/cpuinfo | head -n 1
echo "processors=$(nproc)"; echo "locked_memory_kib=$(ulimit -l)"
ucx_info -v | sed -n 's/.*ersion:* *\([0-9][0-9.]*[0-9]\).*/ucx=\1/p' | head -n 1
ucx_info -d | sed -n 's/.*Transport: *//p' | sort -u | tr '\n' ' ' | sed 's/^/transports=/'; echo
ibv_devinfo -v
"""
FACTS = ("kernel", "architecture", "name", "system", "processor", "processors", "locked_memory_kib", "ucx",
         "transports")
OF_A_DEVICE = ("fw_ver", "vendor_id", "vendor_part_id", "hw_ver", "board_id", "max_qp_rd_atom", "atomic_cap", "max_srq")
OF_A_PORT = ("state", "active_mtu", "link_layer", "active_width", "active_speed")


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

    def __init__(self, machine, words, environment, limit, stdin=None):
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

    def output(self):
        # The command's place in the file is not to move.
        file = self.file.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


class Outcome:
    """How commands ended, and what they printed: the figures are in what the client of a pair has printed."""

    def __init__(self, status, output, why=""):
        self.status, self.output, self.why = status, output, why
        self.printed = output


class Run:
    """The run: options, machines, and the rows so far."""

    def __init__(self, options, machines):
        self.options, self.machines, self.rows = options, machines, []
        base = tempfile.gettempdir() if all(machine.way == "local" for machine in machines) else "/tmp"
        self.folder = f"{base}/tern-first-run-{random.randrange(16 ** 8):08x}"
        self.port = random.randrange(20000, 30000)
        self.step = ""
        self.reached = True

    # ---- commands

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

    # ---- rows

    def row(self, title, act, needs=(), both=True):
        """Carries out a row: act() returns an Outcome with figures, or raises Missing."""
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
            row["figures"] = getattr(outcome, "figures", [])
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
        """Without names of machines and users, folders of theirs, and addresses."""
        names = {self.folder, os.path.expanduser("~"), os.getcwd(), socket.gethostname(), str(TOOLS), str(TOOLS.parent),
                 self.options.tests or ""}
        with contextlib.suppress(KeyError, OSError):  # a user without a name
            names.add(getpass.getuser())
        for machine in self.machines:
            names |= {machine.name, machine.facts.get("name", "")}
        names |= {name.split(".")[0] for name in names if "/" not in name and not name[:1].isdigit()}
        for name in sorted(names - {"", "/", "localhost", "root"}, key=len, reverse=True):
            more = "" if "/" in name else r"(?:[-.][\w.-]+)?"
            text = re.sub(rf"(?<![\w-]){re.escape(name)}{more}(?!\w)", "-", text)
        text = re.sub(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,}[0-9a-fA-F:.]*", "-", text)
        text = re.sub(r"(?<![\w:])[0-9a-fA-F]*::[0-9a-fA-F:.]*(?!\w)", "-", text)
        text = re.sub(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "-", text)
        return re.sub(r"(?i)(lid|guid|gid)\b[ :=]*(?:0x)?[0-9a-f]+\b", r"\1 -", text)

    def tail(self, text):
        return self.clean("\n".join(text.strip().split("\n")[-30:]))


def figure(what, arm, size, value, unit):
    return {"what": what, "arm": arm, "bytes": size, "value": value, "unit": unit}


def with_figures(outcome, figures, wanted=True):
    outcome.figures = figures
    if outcome.status == 0 and wanted and not figures:
        outcome.status, outcome.why = 1, "its output has no figures"
    return outcome


# ---- steps: generators of nothing; each names itself in STEPS

def device_of(run, machine, text):
    """Fills in the machine's device: the chosen one, or the first with an active port."""
    devices, at, port = {}, None, None
    for line in text.split("\n"):
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "hca_id":
            at = devices.setdefault(value, {"ports": {}})
        elif at is not None and name == "port" and value.isdigit():
            port = at["ports"].setdefault(int(value), {})
        elif at is not None and name in OF_A_PORT:
            if at["ports"]:
                port[name] = value
        elif at is not None and name in OF_A_DEVICE:
            at[name] = value
    wanted = run.options.device[machine] if run.options.device else None
    for name, facts in devices.items():
        for number, port in facts["ports"].items():
            if f"{name}:{number}" == wanted or (not wanted and "PORT_ACTIVE" in port.get("state", "")):
                run.machines[machine].device = f"{name}:{number}"
                return {**{k: v for k, v in facts.items() if k != "ports"}, **port, "name": f"{name}:{number}"}
    run.machines[machine].device = wanted or "mlx5_0:1"
    return {}


def facts(run):
    for i, machine in enumerate(run.machines):
        def act(i=i, machine=machine):
            outcome = run.one(["sh", "-c", FACTS_SH, "sh", run.folder], machine=i)
            machine.facts = dict(re.findall(rf"^({'|'.join(FACTS)})=(.*)$", outcome.output, re.M))
            if "kernel" not in machine.facts:
                run.reached = False
                outcome.status, outcome.why = outcome.status or 1, outcome.why + "; the machine cannot be reached"
                return outcome
            machine.facts["adapter"] = device_of(run, i, outcome.output)
            outcome.status = 0 if machine.facts["adapter"] else 1
            outcome.why = "" if outcome.status == 0 else "no device with an active port, or not the one that is named"
            return outcome
        run.row(f"machine {i + 1}", act, both=False)


def check(run):
    for i in range(2):
        def act(i=i):
            outcome = run.one([TOOLS / "tern-run", "--only", "--check"], machine=i)
            last = [line for line in outcome.output.split("\n") if line][-3:]
            if outcome.status in (0, 1) and len(last) == 3:
                outcome.why = " ".join(last)
            run.machines[i].facts["check"] = [
                run.clean(line) for line in outcome.output.split("\n") if re.match(r"(good|note|WRONG) ", line)]
            return outcome
        run.row(f"tern-run --check on machine {i + 1}", act)


def perftest(run):
    short = run.options.short
    for operation in ("write", "send", "read"):
        for kind in ("lat", "bw"):
            for inline in (0, 64) if operation != "read" else (None,):
                name = f"ib_{operation}_{kind}"
                words = [name, "-F", "-p", run.next_port()]
                words += ["-s", "8", "-n", "200"] if short else ["-s", "8"] if inline else ["-a"]
                words += ["-I", str(inline)] if inline is not None else []
                words += ["-x", str(run.options.gid_index)] if run.options.gid_index is not None else []

                def act(words=words, name=name, inline=inline, kind=kind):
                    def on(i):
                        device, _, port = run.machines[i].device.partition(":")
                        return ["-d", device, "-i", port]
                    outcome = run.pair(words + on(0), words + on(1) + [run.machines[0].address])
                    arm = "" if inline is None else f"inline {inline}"
                    found = []
                    for line in re.findall(r"^ *(\d+ +\d+ +[\d. \t]+)$", outcome.printed, re.M):
                        cells = [float(cell) for cell in line.split()]
                        if kind == "lat" and len(cells) > 4:
                            found.append(figure(name, arm, int(cells[0]), cells[4], "us"))
                        elif kind == "bw" and len(cells) == 5:
                            found += [figure(name, arm, int(cells[0]), cells[3], "MB/s"),
                                      figure(name, arm, int(cells[0]), cells[4], "M/s")]
                    return with_figures(outcome, found)
                run.row(name + ("" if inline is None else f", inline {inline}"), act, needs=[name])


def order(run):
    requests = run.options.requests or (10 ** 6 if run.options.short else 10 ** 9)

    def act():
        words = [TOOLS / "tern-bench", "order", "--port", run.next_port()]
        words += ["--gid-index", str(run.options.gid_index)] if run.options.gid_index is not None else []
        server = words + ["--device", run.machines[0].device]
        client = words + ["--device", run.machines[1].device, "--count", str((requests + 1) // 2)]
        outcome = run.pair(server, client + [run.machines[0].address], limit=120 + requests // 500_000)
        found = []
        for where, count, rate, within, between, promise in re.findall(
                r"^order (\w+): (\d+) requests.*?, ([\d.]+) million.*within a request: (\d+), between requests: (\d+); "
                r"the device (promises.*)", outcome.printed, re.M):
            arm = {"there": "into machine 1", "here": "into machine 2"}[where]
            found += [figure("requests", arm, None, int(count), ""), figure("rate", arm, None, float(rate), "M/s"),
                      figure("late within a request", arm, None, int(within), promise),
                      figure("late between requests", arm, None, int(between), promise)]
        return with_figures(outcome, found)
    run.row(f"{requests} writes, each byte checked", act)


def arms_of(run):
    """Tern, and UCX's own transports that both machines have."""
    have = [set(machine.facts.get("transports", "").split()) for machine in run.machines]
    stock = {"rc_verbs": "rc_v", "rc_mlx5": "rc_x", "dc_mlx5": "dc_x"}
    return ["tern", *(alias for name, alias in stock.items() if all(name in names for names in have))]


def over(run, arm, words):
    """The command over Tern or one of UCX's transports, and its environment."""
    devices = sorted({machine.device for machine in run.machines})
    environment = {"UCX_NET_DEVICES": ",".join(devices), "UCX_WARN_UNUSED_ENV_VARS": "n"}
    if run.options.gid_index is not None:
        environment["UCX_IB_GID_INDEX"] = str(run.options.gid_index)
    if arm != "tern":
        return words, {**environment, "UCX_TLS": f"{arm},self"}
    return [TOOLS / "tern-run", "--only", *words], environment


UCX_TESTS = [("tag_lat", (8, 4096, 1 << 20)), ("tag_bw", (8, 4096, 1 << 20)), ("ucp_am_lat", (8,)),
             ("stream_lat", (8,)), ("ucp_put_lat", (8, 1 << 20)), ("ucp_put_bw", (8, 1 << 20)),
             ("ucp_get", (8, 1 << 20)), ("ucp_add", (8,)), ("ucp_fadd", (8,)), ("ucp_swap", (8,)), ("ucp_cswap", (8,))]


def alone_of_ucx():
    """Where ucx_perftest is a program of MPI too, it is not to be one."""
    return ["-P", "0"] if re.search(r"^ +-P ", told(["ucx_perftest", "-h"]), re.M) else []


def ucx(run):
    short = run.options.short
    alone = alone_of_ucx()
    for test, sizes in UCX_TESTS[:5:2] + UCX_TESTS[-1:] if short else UCX_TESTS:
        for size in sizes[-1:] if short else sizes:
            def act(test=test, size=size):
                values, failures = {}, {}
                count = ["-n", "100", "-w", "10"] if short else ["-n", str(max(200, min(100_000, (1 << 28) // size)))]
                for _ in range(1 if short else 5):  # in turns
                    for arm in arms_of(run):
                        words = ["ucx_perftest", "-p", run.next_port(), *alone]
                        server, environment = over(run, arm, words)
                        client = [*server, run.machines[0].address, "-t", test, "-s", str(size), *count, "-f"]
                        outcome = run.pair(server, client, environment=environment)
                        numbers = re.findall(r"^(?:Final:)? +\d+ +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+) +[\d.]+ +\d+ +\d+",
                                             outcome.printed, re.M)
                        if outcome.status == 0 and not numbers:
                            outcome.status, outcome.why = 1, "its output has no figures"
                        if outcome.status != 0:
                            failures[arm] = outcome
                        else:
                            latency, bandwidth = map(float, numbers[0])
                            values.setdefault(arm, []).append(bandwidth if test.endswith("_bw") else latency)
                unit = "MB/s" if test.endswith("_bw") else "us"
                # Only a failure of Tern's is one of the row.
                outcome = failures.get("tern") or Outcome(0, "")
                outcome.why = "; ".join(f"{arm}: {failed.why}" for arm, failed in failures.items())
                return with_figures(outcome, [figure(test, arm, size, statistics.median(v), unit)
                                            for arm, v in values.items()])
            run.row(f"{test}, {size} bytes", act, needs=["ucx_perftest"])


def bench(run):
    """On the first machine: its two processes talk through the adapter's loopback."""
    uct = {"rc_x": "rc_mlx5", "dc_x": "dc_mlx5"}
    others = [uct[arm] for arm in arms_of(run) if arm in uct]
    for command, transport in [("latency", "tern"), *([] if run.options.short else [("tune", "tern")]),
                               *(("latency", other) for other in others)]:
        def act(command=command, transport=transport):
            file = f"{run.folder}/bench.json"
            words = [str(TOOLS / "tern-bench"), command, "--device", run.machines[0].device, "--transport", transport,
                     "--json", file]
            words += ["--gid-index", str(run.options.gid_index)] if run.options.gid_index is not None else []
            words += ["--quick"] if run.options.short else []
            outcome = run.one(["sh", "-c", f"{shlex.join(words)} >&2 && echo && cat {file}"], limit=900)
            found = []
            with contextlib.suppress(ValueError):
                text = outcome.output
                found = [figure(f"{command}: {item['test']}", item["name"], item["x_text"], item["median"],
                                item["unit"]) for item in json.loads(text[text.rindex("\n{\n"):])["figures"]
                         if item.get("median") is not None]
            return with_figures(outcome, found)
        run.row(f"tern-bench {command}, {transport}", act, both=False)


def mpis(run):
    """(name, compiler, launcher, options with which it starts a rank on each machine)"""
    hosts = ",".join(machine.address for machine in run.machines)
    apart = any(machine.way != "local" for machine in run.machines)
    for suffix in ("openmpi", "mpich", ""):
        compiler, launcher = (f"mpicc.{suffix}", f"mpirun.{suffix}") if suffix else ("mpicc", "mpirun")
        if shutil.which(launcher):
            text = told([launcher, "--version"])
            if "Open MPI" in text or "OpenRTE" in text:
                yield "Open MPI", compiler, launcher, ["-H", hosts] if apart else ["--oversubscribe"]
            elif "HYDRA" in text:
                yield "MPICH", compiler, launcher, ["-hosts", hosts] if apart else []


def mpi(run):
    seen = set()
    for name, compiler, launcher, options in mpis(run):
        if name in seen:
            continue
        seen.add(name)
        program = f"{run.folder}/{name.replace(' ', '-')}"
        script = f'cat >{program}.c <<"END"\n{PAIR_C}END\n{compiler} -std=gnu11 -O2 -o {program} {program}.c'

        def build(script=script):
            outcomes = [run.one(["sh", "-c", script], machine=i) for i in range(2)]
            return next((outcome for outcome in outcomes if outcome.status != 0), outcomes[0])
        if run.row(f"{name}: a program is built", build, needs=[compiler])["status"] != "ok":
            continue
        checks, matching = "1" if run.options.short else "100", {"UCX_TERN_TM_ENABLE": "y"}
        for arm, rounds, setting in [("tern", checks, {}), ("tern", checks, matching), ("tern", "0", matching),
                                     *((arm, "0", {}) for arm in arms_of(run))]:
            def act(arm=arm, rounds=rounds, setting=setting, name=name, launcher=launcher, options=options,
                    program=program):
                words, environment = over(run, arm, [program, rounds])
                environment.update({} if arm == "tern" else MPI_OVER_UCX)
                if os.geteuid() == 0:
                    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
                outcome = run.one([launcher, "-np", "2", *options, "env", *(f"{k}={v}" for k, v in {
                    **environment, **setting}.items()), *map(str, words)], environment=environment, limit=300)
                if arm != "tern":  # a row fails by Tern only
                    outcome.status = 0
                label = arm + (", matching" if setting else "")
                found = [figure(f"{name}: {what}", label, int(size), float(time), "us") for size, time, what
                         in re.findall(r"^measured (\d+) ([\d.]+) (.*)", outcome.output, re.M)]
                count = re.findall(r"verify: ok, ([1-9]\d*) messages", outcome.output)
                found += [figure(f"{name}: messages", label, None, int(n), "") for n in count]
                return with_figures(outcome, found, wanted=arm == "tern")
            what = f"times over {arm}" if rounds == "0" else "each byte of messages"
            run.row(f"{name}: {what}" + "".join(f", {k}={v}" for k, v in setting.items()), act)
    if not seen:
        run.row("Open MPI, MPICH", lambda: Outcome(0, ""), needs=["mpirun"])


def tests(run):
    """On the first machine, what a build has: conformance programs, and UCX's own tests."""
    folder = pathlib.Path(run.options.tests or "")
    source = folder
    with contextlib.suppress(OSError, AttributeError):
        source = pathlib.Path(re.search(r"^abs_top_srcdir = (.*)", (folder / "Makefile").read_text(), re.M)[1])
    tap = source / "test/common/gtest_tap.sh"
    device, _, port = run.machines[0].device.partition(":")
    environment = {"CONFORMANCE_DEVICE": device, "CONFORMANCE_PORT": port, "CONFORMANCE_DEADLINE": "30",
                   "CONFORMANCE_GID_INDEX": str(run.options.gid_index or 0), "TERN_TEST_DEVICE": run.machines[0].device,
                   "UCX_GTEST_DEVICE": run.machines[0].device, "UCX_SELECTION": "ci", "UCX_LOG_LEVEL": "error",
                   "SOFTHCA": str(TOOLS / "softhca"), "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    for title, words in (("verbs-conformance", [tap, "-t", "100", "./verbs-conformance"]),
                         ("tern-uct", [tap, "-t", "300", "tern-run", "./tern-uct"]),
                         ("UCX's UCT tests over Tern", [source / "test/tern/ucx/uct.sh"]),
                         ("UCX's UCP tests over Tern", [source / "test/tern/ucx/ucp.sh"])):
        def act(words=words):
            outcome = run.one(["sh", "-c", 'cd "$1" && shift && "$@"', "sh", str(folder), *map(str, words)],
                              limit=7200, environment=environment)
            kinds = {"passed": r"^ok (?!.*# SKIP)", "skipped": r"^ok .*# SKIP", "not ok": r"^not ok "}
            found = [figure(kind, "", None, len(re.findall(pattern, outcome.output, re.M)), "")
                     for kind, pattern in kinds.items()]
            failed = re.findall(r"^not ok \d+ - (\S+)", outcome.output, re.M)
            outcome.why = f"{len(failed)} not ok: {' '.join(failed[:100])}" if failed else outcome.why
            outcome.figures = found
            return outcome
        if run.options.tests:
            run.row(title, act, both=False)


def faults(run):
    """A peer is killed under traffic, and the cable is pulled: in both cases a process must not hang."""
    words, environment = over(run, "tern", ["ucx_perftest", "-p", run.next_port(), *alone_of_ucx(), "-e"])
    environment["UCX_TERN_TIMEOUT"] = "1s"
    stream = [run.machines[0].address, "-t", "tag_bw", "-s", "4096", "-n", "2000000000"]

    def under_traffic(act, patience):
        limit = run.limit(patience + 60)
        with Process(run.machines[0], words, environment, limit) as server, \
                Process(run.machines[1], ["sh", "-c", 'for i in 1 2 3 4 5; do "$@" && exit; sleep 1; done', "sh",
                                          *map(str, words), *stream], environment, limit) as client:
            begin = time.monotonic()
            while "[thread" not in client.output() and not client.ends(0.2):
                if time.monotonic() > begin + SERVER_STARTS:
                    break
            if "[thread" not in client.output():
                return Outcome(1, client.output() + server.output(), "there was no traffic")
            why = act(client)
            begin = time.monotonic()
            while not server.ends(0.2) and "error handler called" not in server.output():
                if time.monotonic() > begin + patience:
                    return Outcome(1, server.output(), f"not told within {patience} s")
            status = server.popen.poll() or 0
            crashed = status < 0 or status > 128
            why = f"the survivor ended with status {status}" if crashed else why
            return Outcome(int(crashed), server.output(), why)

    def cable(state, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["sh", "-c", f"{run.options.cable} {state}"], check=False, timeout=60)
        time.sleep(seconds)
    if run.options.faults:
        run.row("a peer is killed", lambda: under_traffic(lambda client: client.stop(1), 60), needs=["ucx_perftest"])
    if run.options.cable:
        def act():
            def pulled(client):
                try:
                    cable("down", 5)
                finally:
                    cable("up", 1)
                goes_on = not client.ends(0)
                client.stop(1)
                return "the traffic went on" if goes_on else "the traffic had ended"
            return under_traffic(pulled, 60)
        run.row("the cable is pulled for 5 s", act, needs=["ucx_perftest"])


STEPS = [("check", check), ("perftest", perftest), ("order", order), ("ucx", ucx), ("bench", bench), ("mpi", mpi),
         ("tests", tests), ("faults", faults)]

# ---- the report

PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>First run of Tern</title>
<style>body{font:15px sans-serif;margin:2em auto;max-width:70em}table{border-collapse:collapse}td,th{padding:2px 10px;
text-align:left;border-bottom:1px solid #ddd;vertical-align:top}.failed,.wrong{background:#fdd}.missing{background:#eee}
td.n{text-align:right}pre{font-size:12px;white-space:pre-wrap}</style>
<h1>First run of Tern %(version)s, %(date)s</h1><p><b>%(verdict)s</b></p><h2>Machines</h2><table>%(machines)s</table>
<h2>Steps</h2><table><tr><th>Step<th>What<th>Result<th>s<th>Remark</tr>%(rows)s</table>
<h2>Figures</h2><table><tr><th>What<th>Bytes<th>Over<th>Value<th>Unit</tr>%(figures)s</table><p>%(send)s</p></html>
"""


def cells(row, *columns):
    return "".join(f"<td{' class=n' if isinstance(row, dict) and isinstance(c, float) else ''}>"
                   f"{html.escape(f'{c:g}' if isinstance(c, float) else str(c))}" for c in columns)


def report(run, verdict):
    kinds = [{k: v for k, v in machine.facts.items() if k not in ("name", "transports")} for machine in run.machines]
    one = all(machine.way == "local" for machine in run.machines)
    result = {"schema": SCHEMA, "version": VERSION, "date": datetime.date.today().isoformat(), "verdict": verdict,
              "one_machine": one, "short": run.options.short, "machines": kinds, "rows": run.rows}
    folder = pathlib.Path(run.options.output)
    send = f"Please read {folder / 'first-run.json'}, and send it to {CONTACT}: it names no machine, user or address."
    (folder / "first-run.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "first-run.html").write_text(PAGE % {
        "version": VERSION, "date": result["date"], "verdict": html.escape(verdict),
        "machines": "".join(f"<tr><th>{i}<td>{html.escape(json.dumps(kind))}</tr>" for i, kind in enumerate(kinds, 1)),
        "rows": "".join(f"<tr class={row['status']}>" + cells(row, row["step"], row["title"], row["status"],
                                                             row["seconds"], row.get("remark", "")) +
                        (f"<pre>{html.escape(row['log'])}</pre>" if "log" in row else "") + "</tr>"
                        for row in run.rows),
        "figures": "".join("<tr>" + cells(f, f["what"], "" if f["bytes"] is None else f["bytes"], f["arm"],
                                          float(f["value"]), f["unit"]) + "</tr>" for row in run.rows
                           for f in row["figures"]),
        "send": html.escape(f"Send first-run.json to {CONTACT}.")}, encoding="utf-8")
    return send


def options_of(words):
    parser = argparse.ArgumentParser(prog="tern-first-run", add_help=False, allow_abbrev=False)
    parser.format_usage = lambda: ""
    parser.add_argument("hosts", nargs="*")
    for name in ("--short", "--faults"):
        parser.add_argument(name, action="store_true")
    for name in ("--device", "--steps"):
        parser.add_argument(name, type=lambda text: text.split(","))
    for name in ("--gid-index", "--requests", "--limit"):
        parser.add_argument(name, type=int)
    for name in ("--tests", "--cable"):
        parser.add_argument(name)
    parser.add_argument("--output", default=".")
    if {"-h", "--help"} & set(words):
        print(HELP, end="")
        sys.exit(0)
    if "--version" in words:
        print(f"tern-first-run (ucx-tern) {VERSION}")
        sys.exit(0)
    options = parser.parse_args(words)
    if len(options.hosts) not in (0, 2):
        parser.error("name two hosts, or none")
    wrong = set(options.steps or ()) - {name for name, _ in STEPS}
    if wrong:
        parser.error(f"--steps: no step {', '.join(sorted(wrong))}")
    if options.device:
        options.device = (options.device * 2)[:2]
    if not os.access(options.output, os.W_OK):
        parser.error(f"--output: {options.output} is no folder in which files can be written")
    return options


def machines_of(options):
    here = {"localhost", socket.gethostname(), socket.gethostname().split(".")[0]}
    allocation = os.environ.get("SLURM_JOB_NODELIST")
    names = options.hosts
    if not names and allocation:
        names = told(["scontrol", "show", "hostnames", allocation]).split()
    names = (names * 2 if len(names) == 1 else names)[:2] or ["localhost"] * 2
    machines = [Machine(name, "local" if name in here else "srun" if allocation else "ssh") for name in names]
    for machine in machines:
        machine.alone = all(other.way == "local" for other in machines)
        if machine.name == "localhost" and not machine.alone:
            machine.name = socket.gethostname()
    return machines


def main():
    options = options_of(sys.argv[1:])
    run = Run(options, machines_of(options))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    verdict, status = "ended early by a signal", None
    try:
        run.step = "check"
        facts(run)
        for name, step in STEPS:
            if not options.steps or name in options.steps:
                run.step = name
                step(run)
                report(run, f"under way: {name} is done")
        failed = [row for row in run.rows if row["status"] == "failed"]
        missing = sum(row["status"] == "missing" for row in run.rows)
        verdict = f"{len(run.rows) - len(failed) - missing} rows ok, {len(failed)} failed, {missing} missing"
        status = EXIT_FAILED if failed else 0
    except Wrong as wrong:
        verdict, status = f"stopped at a wrong byte: {wrong}", EXIT_WRONG
    finally:
        send = report(run, verdict)
        for i in range(2 if run.reached else 1):
            with contextlib.suppress(OSError):
                run.one(["rm", "-rf", run.folder], machine=i)
        print(f"\n{verdict}\n{send}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
