#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The bindings of rwapi for C++, Fortran and Python: each has all calls of rwapi.h, and a job of three processes uses
# them. The first programs of docs/rwapi/rwapi-bindings.md run, too. PYTHON, FC, CXX: the interpreter and the compilers.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
bindings=$srcdir/rwapi/bindings
rwapi=$(readlink -e "$srcdir/../src/rwapi")
libraries=$(dirname "$tern_library")
link=("-L$libraries" "-Wl,-rpath,$libraries" -lrwapi)
export UCX_WARN_UNUSED_ENV_VARS=n PYTHONPATH=$tmp/python PYTHONDONTWRITEBYTECODE=1
# Debian's own has numpy; another one may come first.
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3
fortran=${FC:-gfortran}

# job LANGUAGE PROGRAM...: each of three processes says that it is right.
job() {
    local language=$1 status
    shift
    timeout -k 5 "$limit" "${hca[@]}" ./rwapi-launch -np 3 "$@" >"$tmp/output" 2>&1 </dev/null
    status=$?
    [ $status != 0 ] || status=$(($(grep -c '^node [0-2]: right' "$tmp/output") != 3))
    result $status "$language: a job of three processes" "$tmp/output"
    grep -h '^node 0: right' "$tmp/output" | sed 's/^/# /'
}

# first LANGUAGE FILE: the first program of the manual in this language.
first() {
    # shellcheck disable=SC2016 # the quotes are Markdown's
    sed -n '/^```'"$1"'$/,/^```$/p' "$srcdir/../docs/rwapi/rwapi-bindings.md" | sed '/^```/d' >"$tmp/$2"
}
greets() { # language command...
    local language=$1
    shift
    check_match "$language: the program of the manual" '^node 0: node 2 says hello *$' \
        "${hca[@]}" ./rwapi-launch -np 3 "$@"
}

# throws LANGUAGE command...: an exception in one of three processes ends the job, while the others wait without limit.
throws() {
    local language=$1
    shift
    refuses "$language: an exception in one process ends the job" 1 '^rwapi: node 0: an exception' \
        "${hca[@]}" ./rwapi-launch -np 3 "$@"
}

use_tern
unset PYTHONUNBUFFERED # what one print writes could be mixed with that of another process
flags=(-std=c++20 -O1 -Wall -Wextra -Wshadow -Wpedantic -Werror "-I$rwapi/include")
check 'C++: job.cc compiles' "${CXX:-c++}" "${flags[@]}" -o "$tmp/job-cpp" "$bindings/job.cc" "${link[@]}"
job C++ "$tmp/job-cpp"
first cpp first.cc
check 'C++: the program of the manual compiles' \
    "${CXX:-c++}" "${flags[@]}" -o "$tmp/first-cpp" "$tmp/first.cc" "${link[@]}"
greets C++ "$tmp/first-cpp"
cat >"$tmp/throws.cc" <<'END'
#include <rwapi.hpp>
#include <stdexcept>
int main() try {
    rwapi::Context context = rwapi::Context::init();
    if (context.rank() == 0) throw std::runtime_error("an error of the program");
    context.notify_wait(1);
} catch (const std::exception&) {
    return 3;
}
END
check 'C++: a program that throws compiles' "${CXX:-c++}" "${flags[@]}" -o "$tmp/throws-cpp" "$tmp/throws.cc" "${link[@]}"
throws C++ "$tmp/throws-cpp"

declarations() { # template
    awk -f "$rwapi/bindings/interfaces.awk" "$rwapi/include/rwapi.h" "$rwapi/bindings/$1"
}
declarations rwapi.f90.in >"$tmp/rwapi.f90"
mkdir -p "$tmp/python/rwapi"
cp "$rwapi/bindings/rwapi/__init__.py" "$tmp/python/rwapi"
declarations rwapi/_c.py.in >"$tmp/python/rwapi/_c.py"
if command -v "$fortran" >/dev/null; then
    flags=(-std=f2018 -Wall -O1 "-J$tmp" "-I$tmp")
    check 'Fortran: the module compiles' "$fortran" "${flags[@]}" -c -o "$tmp/rwapi.o" "$tmp/rwapi.f90"
    check 'Fortran: job.f90 compiles' \
        "$fortran" "${flags[@]}" -fcheck=all -o "$tmp/job-f" "$bindings/job.f90" "$tmp/rwapi.o" "${link[@]}"
    job Fortran "$tmp/job-f"
    first fortran first.f90
    check 'Fortran: the program of the manual compiles' \
        "$fortran" "${flags[@]}" -o "$tmp/first-f" "$tmp/first.f90" "$tmp/rwapi.o" "${link[@]}"
    greets Fortran "$tmp/first-f"
    # Another compiler, which makes a module file of its own.
    flang=$(compgen -c flang-new | head -n 1)
    if [ -n "$flang" ]; then
        mkdir -p "$tmp/flang"
        check 'Fortran: the module and job.f90 compile with flang' \
            "$flang" -module-dir "$tmp/flang" -o "$tmp/job-flang" "$tmp/rwapi.f90" "$bindings/job.f90" "${link[@]}"
        job 'Fortran, flang' "$tmp/job-flang"
    else
        skip 'Fortran, flang' 'flang is not installed'
    fi
else
    skip 'Fortran' 'gfortran is not installed'
fi

export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if command -v "$python" >/dev/null; then
    job Python "$python" "$bindings/job.py"
    first python first.py
    greets Python "$python" "$tmp/first.py"
    throws Python "$python" -c 'import rwapi
with rwapi.init() as context:
    context.barrier()
    if context.rank == 0:
        raise ValueError("an error of the program")
    context.notify_wait(1)'
    cat >"$tmp/late.py" <<'END'
import os, rwapi, signal, sys, time
call = sys.argv[1]
context = rwapi if call == "init" else rwapi.init()
if os.environ["PMI_RANK"] == "1":
    time.sleep(60)
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    getattr(context, call)()
except KeyboardInterrupt:
    print("it is heard", file=sys.stderr, flush=True)
    os._exit(1)
END
    for call in init share barrier close; do
        refuses "Python: Ctrl-C in $call(), for which the other process does not come" 1 '^it is heard' \
            "${hca[@]}" ./rwapi-launch -np 2 "$python" "$tmp/late.py" $call
    done
    for binding in cpp fortran python; do
        check "$binding: each call of rwapi.h is there" "$python" "$bindings/complete.py" $binding "$rwapi" "$tmp/rwapi.f90"
    done
else
    skip 'Python, and whether the bindings are complete' 'python3 is not installed'
fi
finish
