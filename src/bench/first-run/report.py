# SPDX-License-Identifier: BSD-3-Clause
"""The report: what it says of a run, without names and addresses."""
import contextlib
import datetime
import getpass
import html
import json
import os
import pathlib
import re
import socket

VERSION = "@PACKAGE_VERSION@"
CONTACT = "@PACKAGE_BUGREPORT@"
SCHEMA = 1  # of first-run.json

PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>First run of Tern</title>
<style>body{font:15px sans-serif;margin:2em auto;max-width:70em}table{border-collapse:collapse}td,th{padding:2px 10px;
text-align:left;border-bottom:1px solid #ddd;vertical-align:top}.failed,.wrong{background:#fdd}.missing{background:#eee}
td.n{text-align:right}pre{font-size:12px;white-space:pre-wrap}</style>
<h1>First run of Tern %(version)s, %(date)s</h1><p><b>%(verdict)s</b></p><h2>Machines</h2><table>%(machines)s</table>
<h2>Steps</h2><table><tr><th>Step<th>What<th>Result<th>s<th>Remark</tr>%(rows)s</table>
<h2>Figures</h2><table><tr><th>What<th>Bytes<th>Over<th>Value<th>Unit</tr>%(figures)s</table><p>%(send)s</p></html>
"""


def cleaned(text, names):
    """Without these names of machines and folders, those of this machine and user, and addresses."""
    names = names | {os.path.expanduser("~"), os.getcwd(), socket.gethostname()}
    with contextlib.suppress(KeyError, OSError):  # a user without a name
        names.add(getpass.getuser())
    names |= {name.split(".")[0] for name in names if "/" not in name and not name[:1].isdigit()}
    for name in sorted(names - {"", "/", "localhost", "root"}, key=len, reverse=True):
        more = "" if "/" in name else r"(?:[-.][\w.-]+)?"
        text = re.sub(rf"(?<![\w-]){re.escape(name)}{more}(?!\w)", "-", text)
    text = re.sub(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,}[0-9a-fA-F:.]*", "-", text)
    text = re.sub(r"(?<![\w:])[0-9a-fA-F]*::[0-9a-fA-F:.]*(?!\w)", "-", text)
    text = re.sub(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "-", text)
    return re.sub(r"(?i)(lid|guid|gid)\b[ :=]*(?:0x)?[0-9a-f]+\b", r"\1 -", text)


def cells(*columns):
    return "".join(f"<td class=n>{c:g}" if isinstance(c, float) else f"<td>{html.escape(str(c))}" for c in columns)


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
        "rows": "".join(f"<tr class={row['status']}>" + cells(
            *(row.get(key, "") for key in ("step", "title", "status", "seconds", "remark"))) +
                        (f"<pre>{html.escape(row['log'])}</pre>" if "log" in row else "") + "</tr>"
                        for row in run.rows),
        "figures": "".join("<tr>" + cells(f["what"], "" if f["bytes"] is None else f["bytes"], f["arm"],
                                          float(f["value"]), f["unit"]) + "</tr>" for row in run.rows
                           for f in row["figures"]),
        "send": html.escape(f"Send first-run.json to {CONTACT}.")}, encoding="utf-8")
    return send
