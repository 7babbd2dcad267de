#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command tern-first-run: tries an adapter, UCX and Tern between two machines, and writes a report.

A step is a function in STEPS, which carries out rows: commands on one machine or on both. A row that fails is a row of
the report. Only a wrong byte, and a signal, end the run. What the report has of the commands' output are figures, and
of those that failed the last lines, without names and addresses.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

from report import VERSION, report
from rows import SERVER_STARTS, TOOLS, Machine, Outcome, Process, Run, Wrong, figure, told, with_figures

EXIT_FAILED, EXIT_WRONG = 1, 3
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

# Compiled on both machines: what the two ranks send to each other.
PAIR_C = r"""
@PAIR_C@
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


def device_of(run, machine, text):
    """Fills in the machine's device: the chosen one, or the first with an active port."""
    wanted = run.options.device[machine] if run.options.device else None
    lines = re.compile(r"^[ \t]*(\w+)[ \t]*:[ \t]*(.*?)[ \t]*$", re.M)
    for device in re.split(r"^hca_id:[ \t]*", text, flags=re.M)[1:]:
        of_device, *ports = re.split(r"^[ \t]*port:[ \t]*(?=\d)", device, flags=re.M)
        found = {name: value for name, value in lines.findall(of_device) if name in OF_A_DEVICE}
        for port in ports:
            facts_of_port = {name: value for name, value in lines.findall(port) if name in OF_A_PORT}
            name = f"{device.split()[0]}:{port.split()[0]}"
            if name == wanted or (not wanted and "PORT_ACTIVE" in facts_of_port.get("state", "")):
                run.machines[machine].device = name
                return {**found, **facts_of_port, "name": name}
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


def gid_index(run, option):
    return [option, str(run.options.gid_index)] if run.options.gid_index is not None else []


def perftest(run):
    short = run.options.short
    for operation in ("write", "send", "read"):
        for kind in ("lat", "bw"):
            for inline in (0, 64) if operation != "read" else (None,):
                name = f"ib_{operation}_{kind}"
                words = [name, "-F", "-p", run.next_port()]
                words += ["-s", "8", "-n", "200"] if short else ["-s", "8"] if inline else ["-a"]
                words += ["-I", str(inline)] if inline is not None else []
                words += gid_index(run, "-x")

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
        words += gid_index(run, "--gid-index")
        server = words + ["--device", run.machines[0].device]
        client = words + ["--device", run.machines[1].device, "--count", str((requests + 1) // 2)]
        outcome = run.pair(server, client + [run.machines[0].address], limit=120 + requests // 500_000)
        found = []
        for where, *values, promise in re.findall(
                r"^order (\w+): (\d+) requests.*?, ([\d.]+) million.*within a request: (\d+), between requests: (\d+); "
                r"the device (promises.*)", outcome.printed, re.M):
            arm = {"there": "into machine 1", "here": "into machine 2"}[where]
            names = {"requests": "", "rate": "M/s", "late within a request": promise, "late between requests": promise}
            found += [figure(name, arm, None, float(value) if name == "rate" else int(value), unit)
                      for (name, unit), value in zip(names.items(), values)]
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
            words += gid_index(run, "--gid-index")
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
    tap = source / "test/common/gtest_tap.py"
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
            if not client.prints("[thread", SERVER_STARTS):
                return Outcome(1, client.output() + server.output(), "there was no traffic")
            why = act(client)
            if not server.prints("error handler called", patience) and not server.ends(0):
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


STEPS = {step.__name__: step for step in (check, perftest, order, ucx, bench, mpi, tests, faults)}


def options_of(words):
    parser = argparse.ArgumentParser(prog="tern-first-run", add_help=False, allow_abbrev=False)
    parser.format_usage = lambda: ""
    parser.add_argument("hosts", nargs="*")
    kinds = {"N": int, "SECONDS": int, "LIST": lambda text: text.split(",")}
    for name, value in re.findall(r"^  (--[a-z-]+)(?: ([A-Z]+))?", HELP, re.M):
        parser.add_argument(name, **({"type": kinds.get(value, str)} if value else {"action": "store_true"}))
    if {"-h", "--help"} & set(words):
        print(HELP, end="")
        sys.exit(0)
    if "--version" in words:
        print(f"tern-first-run (ucx-tern) {VERSION}")
        sys.exit(0)
    options = parser.parse_args(words)
    if len(options.hosts) not in (0, 2):
        parser.error("name two hosts, or none")
    wrong = set(options.steps or ()) - set(STEPS)
    if wrong:
        parser.error(f"--steps: no step {', '.join(sorted(wrong))}")
    options.output = options.output or "."
    if options.device:
        options.device = (options.device.split(",") * 2)[:2]
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
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number, _):
        # A second one would end the report, and leave the folders.
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)
    for number in numbers:
        signal.signal(number, end)
    verdict, status = "ended early by a signal", None
    try:
        run.step = "check"
        facts(run)
        for name, step in STEPS.items():
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
