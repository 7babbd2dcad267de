#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Usage: contrib/lint.sh [--tidy none|changed|all]
#
# Checks the form of the sources, and prints TAP: clang-format, shellcheck, spelling, sentences, the sizes of classes, and
# clang-tidy on the C++ files that differ from LINT_BASE (default: the commit before the last). clang-tidy needs a
# configured build/check or build/dev, for the headers of UCX, and takes some 5 s for a file. `all` checks a folder at a
# time if the units of the folders have been made (by `make`), which takes five minutes.
. "$(dirname "$0")/common.sh"

usage() {
    sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' contrib/lint.sh
}

tidy=changed
while [ $# -gt 0 ]; do
    case "$1 ${2:-}" in
        '--tidy none' | '--tidy changed' | '--tidy all')
            tidy=$2
            shift 2
            ;;
        -h\ * | --help\ *)
            usage
            exit 0
            ;;
        *)
            usage >&2
            exit 2
            ;;
    esac
done
number=0
failures=0

# verdict NAME COMMAND...: runs the command, and shows its output if it fails.
verdict() {
    local name=$1 output
    shift
    number=$((number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $number - $name"
    else
        failures=$((failures + 1))
        echo "not ok $number - $name"
        # shellcheck disable=SC2001
        sed 's/^/# /' <<<"$output" | head -n 200
    fi
}

skip() { # name reason
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

# tracked PATTERN...: the files of the checkout that still exist.
tracked() {
    local file
    while read -r file; do [ ! -e "$file" ] || echo "$file"; done < <(git ls-files -- "$@")
}

format() {
    tracked '*.cc' '*.h' '*.hpp' '*.c' | xargs clang-format --dry-run --Werror
}

# Scripts share variables and `set -e` with the files that they source, which shellcheck does not follow everywhere.
shell_scripts() {
    tracked '*.sh' .ci/run | xargs shellcheck --severity=warning --exclude=SC1091,SC2034,SC2154,SC2164
}

spelling() {
    tracked '*.cc' '*.h' '*.hpp' '*.c' '*.f90' '*.f90.in' '*.md' '*.sh' '*.py' '*.am' '*.ac' '*.1' '*.7' | xargs codespell
}

# Prose that makes one look back, or whose subject is a relative clause.
prose() {
    ! git grep -nE '(^|[.:] |(//|#|\*) |^- )(The same[.,:;]|The same (of|for|with|without|as|but|if|in|into|from) |Who [a-z]+s )' -- \
        '*.cc' '*.h' '*.hpp' '*.c' '*.md' '*.sh' '*.py' '*.txt' NEWS ':!contrib/lint.sh'
}

# Sentences of documents that have more than 38 words. Items of lists and parts between semicolons count as sentences;
# tables, code and the targets of links do not count.
long_sentences() {
    local file found
    found=$(for file in $(tracked '*.md'); do
        awk '/^ *```/ { code = !code } code || /^    / || /^ *```|^[|]|^<!--/ { print ""; next }
            { gsub(/`[^`]*`/, "X"); gsub(/\]\([^)]*\)/, "]"); sub(/^ *- /, ". "); sub(/^#.*/, "&."); gsub(/;|: *$/, "."); print }' \
            "$file" | style -l 38 | sed -n "s|^[^ ]*:\([0-9]*\): |$file:\1: |p"
    done)
    echo "$found"
    [ -z "$found" ]
}

# Methods and data members of classes, and arguments of their constructors (CONTRIBUTING.md).
# Constructors, destructors, assignments and constants do not count as methods or members.
class_sizes() {
    tracked 'src/*.h' 'src/*.cc' |
        xargs ctags -f - --languages=C++ --langmap=C++:.h.cc --kinds-C++=+p --fields=+KS |
        awk -F'\t' '
            # The number of arguments: commas that stand in no inner brackets, and one.
            function arguments(text) {
                sub(/^signature:\(/, "", text)
                while (gsub(/<[^<>]*>|\([^()]*\)|\{[^{}]*\}/, "", text)) continue
                return gsub(/,/, "", text) + 1
            }
            /^!/ { next }
            {
                class = signature = ""
                for (i = 5; i <= NF; ++i) {
                    if ($i ~ /^(class|struct):/) class = substr($i, index($i, ":") + 1)
                    if ($i ~ /^signature:/) signature = $i
                }
                name = class
                sub(/.*::/, "", name)
                if (class != "" && $1 == name && ++constructors && arguments(signature) > 6) {
                    print class " in " $2 ": " arguments(signature) " arguments of a constructor"
                    wrong = 1
                }
                if (class == "" || $1 == name || $1 == "~" name || $1 ~ /^operator *=$/ || $1 ~ /^k[A-Z]/) next
                if (seen[$2, class, $1, signature]++) next
                if ($4 == "function" || $4 == "prototype") ++methods[class " in " $2]
                if ($4 == "member") ++members[class " in " $2]
                if ($4 == "member") ++found
            }
            END {
                if (found < 1000 || constructors < 300) {
                    print "ctags finds only " found " data members and " constructors " constructors"
                    exit 1
                }
                for (class in methods)
                    if (methods[class] > 40) { print class ": " methods[class] " methods"; wrong = 1 }
                for (class in members)
                    if (members[class] > 20) { print class ": " members[class] " data members"; wrong = 1 }
                exit wrong
            }'
}

tidy_files() {
    case $tidy in
        all) if [ -e "$folder/src/units/engine.cc" ]; then ls "$folder"/src/units/*.cc; else tracked 'src/*.cc'; fi ;;
        changed) git diff --name-only --diff-filter=AM "${LINT_BASE:-HEAD~1}" -- 'src/*.cc' ;;
    esac
}

# run_tidy FILE: leaves the findings, and the mark .ok if there are none, in the folder $findings.
run_tidy() {
    local result=$findings/${1//\//_}
    clang-tidy --quiet --warnings-as-errors='*' --checks=-bugprone-suspicious-include "$1" -- -std=gnu++20 -DHAVE_CONFIG_H \
        -Isrc "-I$folder" "-I$folder/src" "-I$folder/ucx" -Isrc/rwapi/include -isystem build/ucx-headers/src \
        -DTERN_LIBDIR='""' -DTERN_LIBEXECDIR='""' -DTERN_OTHER_TLS='""' -DSOFTHCA_LIBDIR='""' >"$result" 2>/dev/null && touch "$result.ok"
}

tidy_result() { # file
    cat "$findings/${1//\//_}"
    [ -e "$findings/${1//\//_}.ok" ]
}

# On all processors; the verdicts are in the order of the files.
tidy() {
    local file files findings
    mapfile -t files < <(tidy_files)
    findings=$(mktemp -d)
    export -f run_tidy
    export findings folder
    printf '%s\n' "${files[@]}" | xargs -r -P "$(nproc)" -I{} bash -c 'run_tidy {}' || true
    for file in "${files[@]}"; do
        verdict "clang-tidy: $file" tidy_result "$file"
    done
    rm -rf "$findings"
}

if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    echo "1..0 # SKIP not a checkout"
    exit 0
fi
verdict 'the code has the format of .clang-format' format
verdict 'shellcheck has nothing to say' shell_scripts
verdict 'the words are spelled correctly' spelling
verdict 'no sentence makes one look back' prose
verdict 'no sentence has more than 38 words' long_sentences
limits='no class has more than 40 methods, 20 data members or 6 arguments of a constructor'
if ctags --version 2>/dev/null | grep -q '^Universal'; then
    verdict "$limits" class_sizes
else
    skip "$limits" 'universal-ctags is not installed'
fi
for folder in build/check build/dev; do [ ! -e $folder/tern_config.h ] || break; done
if [ ! -e "$folder/tern_config.h" ]; then
    skip clang-tidy 'there is no configured build/check'
elif ! git rev-parse -q --verify "${LINT_BASE:-HEAD~1}" >/dev/null; then
    skip clang-tidy 'this is the first commit'
else
    tidy
fi
echo "1..$number"
[ $failures = 0 ]
