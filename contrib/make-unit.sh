#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# make-unit.sh UNIT [-p PART/PARTS] SOURCE...: writes the file UNIT, which includes those of the sources that end in .cc,
# or one of several parts of them. UNIT keeps its time if nothing changes.
unit=$1
shift
part=1 parts=1
if [ "$1" = -p ]; then
    part=${2%/*} parts=${2#*/}
    shift 2
fi
mkdir -p "$(dirname "$unit")" || exit 1
printf '%s\n' "$@" | sed -n '/\.cc$/p' |
    awk -v part="$part" -v parts="$parts" '
        { source[NR] = $0 }
        END { for (i = int(NR * (part - 1) / parts) + 1; i <= int(NR * part / parts); ++i)
                  printf "#include \"%s\"\n", source[i] }' >"$unit.new" || exit 1
if cmp -s "$unit.new" "$unit"; then rm "$unit.new"; else mv "$unit.new" "$unit"; fi
