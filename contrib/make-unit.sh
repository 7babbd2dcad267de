#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# make-unit.sh UNIT SOURCE...: writes the file UNIT, which includes those of the sources that end in .cc.
unit=$1
shift
mkdir -p "$(dirname "$unit")" || exit 1
for source in "$@"; do
    case $source in *.cc) echo "#include \"$source\"" ;; esac
done >"$unit"
