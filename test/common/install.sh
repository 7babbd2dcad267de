#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The files that `make install` installs: the commands find the libraries, and the pkg-config file and the
# environment-modules file lead to them.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
require make ucx_info nm readelf
build=$(readlink -e "$(dirname "$SOFTHCA")/../..")
root=$tmp/root
unset LD_PRELOAD UCX_PLUGIN_PATH UCX_TLS

installed() { # name file: a file, or a folder that has the library
    [ -n "$2" ] && { [ -f "$root$2" ] || [ -f "$root$2/libuct_tern.so.0" ]; }
    result $? "$1: ${2:-none}"
}

# The value of a variable in a file. A space or = follows the variable's name; values refer to others as ${name}.
value() { # file variable
    local prefix exec_prefix libdir datarootdir
    # shellcheck disable=SC2034 # what the values refer to
    {
        prefix=$(sed -n 's/^\(set \)\?prefix[ =]//p' "$1")
        exec_prefix=$(eval "echo $(sed -n 's/^\(set \)\?exec_prefix[ =]//p' "$1")")
        libdir=$(eval "echo $(sed -n 's/^libdir=//p' "$1")")
        datarootdir=$(eval "echo $(sed -n 's/^set datarootdir //p' "$1")")
    }
    eval "echo $(sed -nE "s/^ *(prepend-path )?$2[ =]//p" "$1")"
}

check 'make install' make -C "$build" install DESTDIR="$root" || finish
commands=$(dirname "$(find "$root" -path '*/bin/tern-run')")
check_match 'the installed tern-run takes the installed transport' "^(LD_PRELOAD|UCX_PLUGIN_PATH)=$root/" \
    "$commands/tern-run" -v true
check_match 'and the installed software HCA' "^LD_PRELOAD=.*$root/[^:]*/libsofthca\.so" "$commands/tern-run" --soft-hca -v true
check_match 'the installed softhca too' "^LD_PRELOAD=$root/.*/libsofthca\.so" "$commands/softhca" run -v true

# The calls of rwapi.h, those of exports.map with their version, and the symbols of the library are the same.
library=$(find "$root" -name librwapi.so.0)
header=$(find "$root" -name rwapi.h)
sed -n 's/^RWAPI_EXPORT.*[ *]\(rwapi_[a-z_0-9]*\)(.*/\1/p' "$header" | sort >"$tmp/declared"
awk 'NR == FNR && /^RWAPI_/ { node = $1; if (first == "") first = node }
    NR == FNR { if (sub(/;$/, "") && $1 ~ /^rwapi_[a-z_0-9]+$/) version[$1] = node; next }
    { print $1 "@@" ($1 in version ? version[$1] : first) }' \
    "$srcdir/../src/rwapi/exports.map" "$tmp/declared" | sort >"$tmp/listed"
nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" { print $3 }' | sort >"$tmp/exported"
check 'librwapi exports what rwapi.h declares, by the versions of exports.map' diff "$tmp/listed" "$tmp/exported"
check_match "its name has the interface's number" 'SONAME.*\[librwapi\.so\.0\]' readelf -d "$library"
check_match 'the macros of rwapi.h have the version of the package' "^$("$SOFTHCA" --version | sed 's/[^0-9]*//; s/\.[0-9]*$//')$" \
    sh -c "printf '#include \"%s\"\nRWAPI_VERSION_MAJOR.RWAPI_VERSION_MINOR\n' '$header' | cc -E -P -x c - | tail -n 1 | tr -d ' '"

documents=$(dirname "$(find "$root" -path '*/doc/*' -name architecture.md)")
for document in README.md NEWS SECURITY.md; do
    check "$document is beside the documents" test -f "$documents/$document"
done

pc=$(find "$root" -name tern.pc)
if command -v pkg-config >/dev/null; then
    for variable in preload plugin_path softhca; do
        installed "pkg-config: $variable" "$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --variable=$variable tern)"
    done
    # shellcheck disable=SC2016 # the quotes are Markdown's
    sed -n '/^```c$/,/^```$/p' "$(dirname "$0")/../../docs/rwapi/rwapi.md" | sed '/^```/d' >"$tmp/rwapi.c"
    # A sanitizer's run-time library must be the program's too.
    case $(ldd "$library") in
        *libasan*) sanitize=-fsanitize=address,undefined ;;
        *libtsan*) sanitize=-fsanitize=thread ;;
        *) sanitize= ;;
    esac
    # shellcheck disable=SC2046
    check 'pkg-config: a program that uses rwapi' "${CC:-cc}" $sanitize "$tmp/rwapi.c" -o "$tmp/rwapi" \
        $(PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags --libs rwapi)
    check_match 'it runs with the installed librwapi' 'node 0: node 0 says hello' \
        env LD_LIBRARY_PATH="$(dirname "$library")" \
        "$commands/tern-run" --soft-hca -- "$tmp/rwapi"
else
    skip 'pkg-config: variables, and a program that uses rwapi' 'pkg-config is not installed'
fi
if command -v cmake >/dev/null; then
    printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(test C)' 'find_package(rwapi 0.2 REQUIRED)' \
        'add_executable(program rwapi.c)' 'target_link_libraries(program rwapi::rwapi)' >"$tmp/CMakeLists.txt"
    config=$(dirname "$(find "$root" -name rwapi-config.cmake)")
    check 'CMake: find_package(rwapi)' cmake -S "$tmp" -B "$tmp/cmake" -Drwapi_DIR="$config" -DCMAKE_C_FLAGS="$sanitize"
    check 'CMake: a program that uses rwapi' cmake --build "$tmp/cmake"
    check_match 'it runs too' 'node 0: node 0 says hello' \
        "$commands/tern-run" --soft-hca -- "$tmp/cmake/program"
    sed -i 's/rwapi 0.2/rwapi 1.0/' "$tmp/CMakeLists.txt"
    refuses 'CMake: a later major version is not found' 1 'version "1.0"' \
        cmake -S "$tmp" -B "$tmp/cmake-later" -Drwapi_DIR="$config"
else
    skip 'CMake: a program that uses rwapi' 'cmake is not installed'
fi

# The first programs of the manual of the bindings, with the installed files.
first() { # language
    # shellcheck disable=SC2016 # the quotes are Markdown's
    sed -n '/^```'"$1"'$/,/^```$/p' "$srcdir/../docs/rwapi/rwapi-bindings.md" | sed '/^```/d'
}
fortran_pc=$(find "$root" -name rwapi-fortran.pc)
if [ -z "$sanitize" ] && [ -n "$fortran_pc" ] && command -v pkg-config >/dev/null; then
    first fortran >"$tmp/first.f90"
    export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR=$root
    PKG_CONFIG_PATH=$(dirname "$fortran_pc")
    # shellcheck disable=SC2046
    check 'pkg-config: a program in Fortran' \
        gfortran "$tmp/first.f90" -o "$tmp/first" $(pkg-config --cflags --libs rwapi-fortran)
    check_match 'it runs' 'node 0: node 0 says hello' env LD_LIBRARY_PATH="$(dirname "$library")" \
        "$commands/tern-run" --soft-hca -- "$tmp/first"
else
    skip 'pkg-config: a program in Fortran' 'no Fortran module is installed, or a sanitizer is used'
fi
python_module=$(find "$root" -path '*/rwapi/__init__.py')
if [ -z "$sanitize" ] && [ -n "$python_module" ]; then
    first python >"$tmp/first.py"
    check_match 'a program in Python' 'node 0: node 0 says hello' env LD_LIBRARY_PATH="$(dirname "$library")" \
        PYTHONPATH="${python_module%/rwapi/__init__.py}" PYTHONDONTWRITEBYTECODE=1 \
        "$commands/tern-run" --soft-hca -- python3 "$tmp/first.py"
else
    skip 'a program in Python' 'no Python module is installed, or a sanitizer is used'
fi
module=$(find "$root" -path '*/modulefiles/ucx-tern/*' -type f)
installed 'environment modules: what is loaded' "$(value "$module" '(LD_PRELOAD|UCX_PLUGIN_PATH)')"
check 'environment modules: the commands' test -x "$root$(value "$module" PATH)/tern-run"
check 'environment modules: the manual' test -f "$root$(value "$module" MANPATH)/man1/tern-run.1"
if command -v tclsh >/dev/null; then
    # Prints what the file sets; its other commands do nothing.
    echo 'proc unknown {args} { if {[lindex $args 0] eq "setenv"} { puts [lindex $args 1]=[lindex $args 2] } }
source [lindex $argv 0]' >"$tmp/module.tcl"
    "$commands/tern-run" -v true 2>&1 | grep '^UCX_TLS=' >"$tmp/transports"
    check 'environment modules: UCX_TLS as by tern-run' sh -c 'tclsh "$1" "$2" >"$4" && grep -Fxf "$3" "$4"' _ \
        "$tmp/module.tcl" "$module" "$tmp/transports" "$tmp/set"
else
    skip 'environment modules: UCX_TLS as by tern-run' 'tclsh is not installed'
fi

# UCX 1.22 and later find the transport in UCX's own folder of modules. A copy of this UCX, in the temporary folder,
# gets a link to the installed transport there.
if [ "$(sed -n 's/^ucxmoduledir = //p' "$build/src/Makefile")" ]; then
    check 'make install-ucx-module' make -C "$build/src" install-ucx-module DESTDIR="$root"
    link=$(find "$root" -path '*/ucx/libuct_tern.so*')
    check 'the link leads to the transport' test -f "$root$(readlink "$link")"
    mkdir -p "$tmp/ucx"
    for library in $(ldd "$(command -v ucx_info)" | sed -n 's/.*=> \(.*libuc[stmp]\.so[^ ]*\).*/\1/p'); do
        cp "$library" "$tmp/"
    done
    ln -s "$root$(readlink "$link")" "$tmp/ucx/$(basename "$link")"
    check_match 'UCX finds it by itself' 'Component: tern' \
        "${hca[@]}" env LD_LIBRARY_PATH="$tmp" ucx_info -d -t tern
    check 'make uninstall-ucx-module' make -C "$build/src" uninstall-ucx-module DESTDIR="$root"
else
    version=$(sed -n 's/^UCX_VERSION = //p' "$build/src/Makefile")
    skip 'UCX finds it by itself' "UCX $version loads no modules that it does not know"
    refuses 'make install-ucx-module says so' 2 'loads no modules that it does not know' \
        make -C "$build/src" install-ucx-module DESTDIR="$root"
fi

check 'make uninstall' make -C "$build" uninstall DESTDIR="$root"
check_match 'nothing is left' '^none$' sh -c "find '$root' ! -type d | grep . || echo none"
finish
