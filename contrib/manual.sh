#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contrib/manual.sh COMMANDS PAGE
#
# Makes a manual page by scdoc from its source, docs/man/NAME.scd, where NAME is that of the file PAGE. COMMANDS is the
# folder of the built commands. A line of the source that begins with @ becomes what they, docs/tern/settings.md and rwapi.h
# say:
#   @help COMMAND [SUBCOMMAND]   what its --help prints
#   @settings                    the table of docs/tern/settings.md
#   @softhca TOPIC               the table that `softhca help TOPIC` prints
#   @errors, @calls              the error codes of rwapi.h; its calls with their comments
set -euo pipefail
[ $# = 2 ] || { sed -n '/^# Usage/,/^#   @errors/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
commands=$(realpath "$1")
page=$(realpath -m "$2")
cd "$(dirname "$0")/.."
header=src/rwapi/include/rwapi.h

# Text of others has no marks of scdoc.
plain='
    function plain(text) {
        gsub(/[\\*_#`~\[\]|<>+]/, "\\\\&", text)
        gsub(/^[-.]/, "\\\\&", text)
        return text
    }'

# "  name   text" below a title is an item; its text may go on in lines of their own.
help() { # command [subcommand]
    "$commands/$1" "${@:2}" --help | awk -v subcommand="${2:+$*}" "$plain"'
        function title(text) { if (subcommand == "") printf "\n# %s\n\n", toupper(text); else print "" }
        /^Usage: / {
            usage = $0
            sub(/^Usage: /, "", usage)
            if (subcommand != "") printf "\n# %s\n\n", toupper(subcommand); else title("Synopsis")
            printf "%s\n\n", plain(usage)
            title("Description")
            printf "%s", about
            next
        }
        usage == "" { about = about plain($0) "\n"; next }
        /^[A-Z][a-z]*:$/ { title(substr($0, 1, length($0) - 1)); items = 1; next }
        $0 == "" { print described ? "\n" : ""; items = described = 0; next }
        items && /^  [^ ]/ {
            line = substr($0, 3)
            at = match(line, /  +/) ? RSTART : match(line, / [a-z]/) && line !~ /^-/ ? RSTART : length(line) + 1
            printf "%s*%s*\n", described ? "\n" : "", plain(substr(line, 1, at - 1))
            text = substr(line, at)
            sub(/^ +/, "", text)
            described = text != ""
            if (described) printf "\t%s", plain(text)
            next
        }
        items { sub(/^ +/, ""); printf "%s%s", described++ ? "++\n" : "\t", plain($0); next }
        { print plain($0) }'
}

# A table in Markdown: the first column names an item, and the one called Meaning describes it.
table() {
    awk "$plain"'
        /^\|/ {
            gsub(/\\\|/, "\001")
            gsub(/`|^\| *| *\|$/, "")
            n = split($0, cell, / *\| */)
            if (!rows++) { for (i = 1; i <= n; ++i) { head[i] = cell[i]; if (cell[i] == "Meaning") meaning = i }; next }
            if (rows == 2) next
            for (i = 1; i <= n; ++i) gsub(/\001/, "|", cell[i])
            printf "*%s*\n\t", plain(cell[1])
            lines = split(cell[meaning], line, /<br> */)
            for (i = 1; i <= lines; ++i) printf "%s%s", plain(line[i]), i < lines ? "++\n" : ""
            for (i = 2; i <= n; ++i)
                if (i != meaning && cell[i] != "") printf "++\n%s: %s", plain(head[i]), plain(cell[i])
            printf "\n\n"
        }'
}

errors() {
    awk "$plain"'/^    RWAPI_(OK|ERR_)/ {
        text = $0
        sub(/^.*\/\* */, "", text)
        sub(/ *\*\/$/, "", text)
        sub(/,$/, "", $3)
        printf "*%s* (%s)\n\t%s\n\n", plain($1), $3, /\/\*/ ? plain(text) : "success"
    }' "$header"
}

# A comment belongs to all calls up to the next empty line.
calls() {
    awk "$plain"'
        function end_of_group() {
            if (call != "") printf "%s\n\t%s\n\n", call, comment
            call = comment = ""
        }
        /^ \* ---- .* ----/ { sub(/^ \* ---- /, ""); sub(/ ----.*/, ""); end_of_group(); printf "## %s\n\n", $0; next }
        /^\/\* / { text = 1; comment = "" }
        text {
            line = $0
            sub(/^ *(\/\*|\*\/|\*) ?/, "", line)
            sub(/ *\*\/$/, "", line)
            if (line != "") comment = comment (comment == "" ? "" : "\n\t") plain(line)
            if (/\*\/$/) text = 0
            next
        }
        /^RWAPI_EXPORT/ { sub(/^RWAPI_EXPORT /, ""); open = 1; call = call (call == "" ? "" : "++\n") "*" }
        open {
            sub(/^ +/, " ")
            call = call plain($0)
            if (/;$/) { open = 0; call = call "*" }
            next
        }
        /^[^ ]/ { comment = "" }
        /^$/ { end_of_group() }
    ' "$header"
}

fill() { # source
    local line words
    while IFS= read -r line; do
        read -ra words <<<"$line"
        case $line in
            @help*) help "${words[@]:1}" ;;
            @settings) table <docs/tern/settings.md ;;
            @softhca*) "$commands/softhca" help "${words[1]}" | table ;;
            @errors) errors ;;
            @calls) calls ;;
            *) printf '%s\n' "$line" ;;
        esac
    done <"$1"
}

mkdir -p "$(dirname "$page")"
# Without the date and the version of scdoc, so that a page says the same everywhere. Empty lines in a row mean nothing.
fill "docs/man/$(basename "$page").scd" | cat -s | scdoc |
    sed '1 s/scdoc [0-9.]*/scdoc/; /^\.TH/ s/"[0-9-]*" "ucx-tern"/"" "ucx-tern"/' >"$page.new"
mv "$page.new" "$page"
