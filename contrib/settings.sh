#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contrib/settings.sh [path/to/tern-run] >docs/tern/settings.md
#
# The settings of the transport in Markdown, as UCX prints them. The table in docs/ is for UCX 1.13.
set -euo pipefail
tern_run=${1:-tern-run}

unset "${!UCX_@}"
cat <<'EOT'
# Settings of the transport

With this page you can look up each setting of the transport, its default and its values. Settings are environment
variables. `contrib/settings.sh` makes the table from the output of `tern-run ucx_info -cf`; a test compares the two.
Every transport of UCX also has settings like `UCX_TERN_ALLOC`, `UCX_TERN_FAILURE` and `UCX_TERN_MAX_NUM_EPS`. UCX's own
settings apply too: `UCX_TLS` and `UCX_NET_DEVICES` choose transports and devices; some of its transports' count where
Tern's are not set ([running.md](running.md#a-sites-settings)).

| Variable | Default | Values | Meaning |
|---|---|---|---|
EOT
"$tern_run" ucx_info -cf | awk '
    function cell(text) {
        gsub(/\|/, "\\|", text)
        gsub(/  +/, " ", text)
        return text
    }
    function nice(value,  number) { # UCX prints times in microseconds
        if (value !~ /^[0-9.]+us$/) return value
        number = value + 0
        if (number >= 1000000) return number / 1000000 "s"
        return number >= 1000 ? number / 1000 "ms" : number "us"
    }
    /^#/ {
        line = $0
        sub(/^# ?/, "", line)
        if (line ~ /^syntax:/) {
            sub(/^syntax: */, "", line)
            syntax = line
        } else if (line ~ /^inherits:.*UCX_IB_/) {
            sub(/^inherits: */, "", line)
            help = help "<br>`" line "` counts if this is not set."
        } else if (line ~ /^inherits:/) { # those of all transports
            inherited = 1
        } else if (line != "") {
            help = help (help == "" ? "" : line ~ /^ / ? "<br>" : " ") line
        }
        next
    }
    /^UCX_TERN_/ && !inherited {
        split($0, part, "=")
        value = nice(substr($0, length(part[1]) + 2))
        printf "| `%s` | %s | `%s` | %s |\n", part[1], value == "" ? "" : "`" value "`", cell(syntax), cell(help)
    }
    { help = syntax = ""; inherited = 0 }
'
