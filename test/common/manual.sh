#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The manual pages can be made of what the commands, the table of settings and rwapi.h say, and have no errors; shells
# complete what the commands say.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

if command -v scdoc >/dev/null; then
    for page in "$srcdir"/../docs/man/*.scd; do
        page=$(basename "$page" .scd)
        check "$page is made" "$srcdir/../contrib/manual.sh" "$(dirname "$SOFTHCA")" "$tmp/man/$page"
    done
    check 'a page has the options of a command' grep -q -- '--personality' "$tmp/man/softhca.1"
    check 'a page has the settings' grep -q 'UCX_TERN_HOT_AFTER' "$tmp/man/ucx-tern.7"
    check 'a page has the calls' grep -q 'rwapi_put' "$tmp/man/rwapi.3"
else
    skip 'the pages are made' 'scdoc is not installed'
fi
if command -v scdoc >/dev/null && command -v man >/dev/null; then
    for page in "$tmp"/man/*; do
        LC_ALL=C.UTF-8 man --warnings -l "$page" 2>>"$tmp/warnings" >/dev/null
    done
    check 'man has no warnings' diff /dev/null "$tmp/warnings"
else
    skip 'man has no warnings' 'man or scdoc is not installed'
fi

# What bash offers for the last word.
cat >"$tmp/completed" <<END
. "$srcdir/../contrib/completion/ucx-tern.bash"
PATH=$(dirname "$SOFTHCA"):\$PATH COMP_WORDS=("\$@") COMP_CWORD=\$((\$# - 1))
_ucx_tern
printf '%s\\n' "\${COMPREPLY[@]}"
END
completed=("$BASH" "$tmp/completed")
check_match 'completion: commands' '^inject$' "${completed[@]}" softhca in
check_match 'completion: options' '^--profile$' "${completed[@]}" softhca run --report --pr
check_match 'completion: values' '^mlx5$' "${completed[@]}" softhca run --personality m
check_match 'completion: faults' '^port-down$' "${completed[@]}" softhca inject port
check_match 'completion: experiments' '^rwapi$' "${completed[@]}" tern-bench --quick r
check_match 'completion: commands that read traces' '^replay$' "${completed[@]}" tern-bench rep
check_match 'completion: a program of the user' '^true$' "${completed[@]}" tern-bench program --rounds 3 tru
check_match 'completion: programs' '^true$' "${completed[@]}" tern-run -v tru
# What zsh would be offered: the functions of its completion that choose among words print these words.
if command -v zsh >/dev/null; then
    cat >"$tmp/offered" <<END
PATH=$(dirname "$SOFTHCA"):\$PATH
words=("\$@") CURRENT=\$# service=\$1 PREFIX=\$@[-1]
compadd() { shift; print -l -- \$@ }
_files() { print files }
_normal() { print normal \$words }
complete() { . "$srcdir/../contrib/completion/_ucx-tern" }
complete
END
    offered=(zsh -f "$tmp/offered")
    check_match 'zsh: commands' '^inject$' "${offered[@]}" softhca in
    check_match 'zsh: options' '^--profile$' "${offered[@]}" softhca run --pr
    check_match 'zsh: experiments' '^rwapi$' "${offered[@]}" tern-bench r
    check_match 'zsh: traces' '^files$' "${offered[@]}" tern-bench replay ''
    check_match 'zsh: programs, and their arguments' '^normal true arg$' "${offered[@]}" tern-run -v true arg
else
    skip 'completion for zsh' 'zsh is not installed'
fi
finish
