#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What `make install` puts where: the commands find the libraries, and so do those who read the pkg-config file and the
# environment-modules file.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require make
build=$(readlink -e "$(dirname "$SOFTHCA")/../..")
root=$tmp/root
unset LD_PRELOAD UCX_PLUGIN_PATH UCX_TLS

installed() { # name file: not a link that leads nowhere, nor a folder without the library
    [ -n "$2" ] && { [ -f "$root$2" ] || [ -f "$root$2/libuct_tern.so.0" ]; }
    result $? "$1: ${2:-none}"
}

# The value of a variable in a file in which names of other variables stand as ${name}, and which a space or = follows.
value() { # file variable
    local prefix exec_prefix libdir
    # shellcheck disable=SC2034 # what the values refer to
    {
        prefix=$(sed -n 's/^\(set \)\?prefix[ =]//p' "$1")
        exec_prefix=$(eval "echo $(sed -n 's/^\(set \)\?exec_prefix[ =]//p' "$1")")
        libdir=$(eval "echo $(sed -n 's/^libdir=//p' "$1")")
    }
    eval "echo $(sed -nE "s/^(prepend-path )?$2[ =]//p" "$1")"
}

check 'make install' make -C "$build" install DESTDIR="$root" || finish
commands=$(dirname "$(find "$root" -name tern-run)")
check_match 'the installed tern-run takes the installed transport' "^(LD_PRELOAD|UCX_PLUGIN_PATH)=$root/" \
    "$commands/tern-run" -v true
check_match 'and the installed software HCA' "^LD_PRELOAD=.*$root/[^:]*/libsofthca\.so" "$commands/tern-run" --soft-hca -v true
check_match 'the installed softhca too' "^LD_PRELOAD=$root/.*/libsofthca\.so" "$commands/softhca" run -v true

pc=$(find "$root" -name tern.pc)
if command -v pkg-config >/dev/null; then
    for variable in preload plugin_path softhca; do
        installed "pkg-config: $variable" "$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --variable=$variable tern)"
    done
fi
module=$(find "$root" -path '*/modulefiles/ucx-tern/*' -type f)
installed 'environment modules: what is loaded' "$(value "$module" '(LD_PRELOAD|UCX_PLUGIN_PATH)')"
check 'environment modules: the commands' test -x "$root$(value "$module" PATH)/tern-run"

check 'make uninstall' make -C "$build" uninstall DESTDIR="$root"
check_match 'nothing is left' '^none$' sh -c "find '$root' ! -type d | grep . || echo none"
finish
