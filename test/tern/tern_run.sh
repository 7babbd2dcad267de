#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The `tern-run` command: the variables that it sets, leaves alone and refuses, and that UCX then has the transport.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_info
tern_run=$(dirname "$SOFTHCA")/tern-run
unset LD_PRELOAD UCX_TLS UCX_PLUGIN_PATH SOFTHCA_PROFILE MPIR_CVAR_NOLOCAL "${!OMPI_MCA_@}"

# The variable by which UCX finds the transport, and its value; the user may have set it already.
if ucx_info -v | grep -Eq 'ersion:* 1\.(1.|2[01])\.'; then
    load=LD_PRELOAD way=$tern_library
else
    load=UCX_PLUGIN_PATH way=${tern_library%/*}
fi

# UCX_TLS by default, and without shared memory, as patterns; see transports_tests.
if ucx_info -v | grep -Eq 'ersion:* 1\.1[3-7]\.'; then
    gpus='(,cuda)?(,rocm)?(,ze)?'
    transports=tern,self,sm$gpus only=tern,self$gpus
else
    transports='\^ib,ib:aux,gga_mlx5,srd,rc_gda,tcp' only=$transports,sm
fi

# sets NAME PATTERN variable tern-run-option... [NAME=value...]: the value of a variable in the command's environment.
sets() {
    local name=$1 pattern=$2 variable=$3
    shift 3
    # shellcheck disable=SC2016 # for the inner shell
    check_match "$name" "^$pattern\$" "$@" sh -c 'printf "%s\n" "${'"$variable"'-unset}"'
}

silent() { # name command...
    local name=$1
    shift
    "$@" >"$tmp/silent" 2>&1 && [ ! -s "$tmp/silent" ]
    result $? "$name" "$tmp/silent"
}

environment_tests() {
    sets 'the transport is loaded' "$way" $load "$tern_run"
    sets 'UCX_TLS' "$transports" UCX_TLS "$tern_run"
    sets 'UCX_TLS without shared memory' "$only" UCX_TLS "$tern_run" --only
    sets 'and MPICH without its own' 1 MPIR_CVAR_NOLOCAL "$tern_run" --only
    sets 'Open MPI takes UCX' ucx OMPI_MCA_pml "$tern_run"
    sets 'Open MPI takes UCX for one-sided' ucx,sm OMPI_MCA_osc "$tern_run"
    sets 'Open MPI takes shared memory only where UCX cannot' 200 OMPI_MCA_osc_ucx_priority "$tern_run"
    sets 'Open MPI takes any transport' any OMPI_MCA_opal_common_ucx_tls "$tern_run"
    sets 'Open MPI takes any device' any OMPI_MCA_opal_common_ucx_devices "$tern_run"
    sets 'MPICH keeps its shared memory' unset MPIR_CVAR_NOLOCAL "$tern_run"
    sets 'no software HCA unasked' unset SOFTHCA_PROFILE "$tern_run"
    sets 'what is loaded already is kept' "$way:/lib/libm\.so\.6" $load env $load=/lib/libm.so.6 "$tern_run"
    sets 'UCX_TLS of the user stays' tern,sm,self UCX_TLS env UCX_TLS=tern,sm,self "$tern_run"
    sets 'settings of Open MPI stay' ob1 OMPI_MCA_pml env OMPI_MCA_pml=ob1 "$tern_run"
    sets 'within itself it loads once' "$way" $load "$tern_run" "$tern_run"
    sets 'and with --only' tern,sm,self UCX_TLS env UCX_TLS=tern,sm,self "$tern_run" --only
    check_match '-v says what is set' "^UCX_TLS=$transports\$" "$tern_run" -v true
    check_match '-v says what stays' '^OMPI_MCA_osc=rdma$' env OMPI_MCA_osc=rdma "$tern_run" -v true
}

soft_hca_tests() {
    local both='[^:]*/libsofthca\.so'
    [ $load != LD_PRELOAD ] || both="$way:$both"
    sets 'the software HCA is preloaded too' "$both" LD_PRELOAD "$tern_run" --soft-hca
    sets 'both once, within itself' "$both" LD_PRELOAD "$tern_run" --soft-hca "$tern_run" --soft-hca
    sets 'both once, within softhca run' "$both" LD_PRELOAD "$SOFTHCA" run -- "$tern_run" --soft-hca
    sets 'both once, around softhca run' "$both" LD_PRELOAD "$tern_run" --soft-hca "$SOFTHCA" run --
    sets 'a profile with =' infini SOFTHCA_PROFILE "$tern_run" --soft-hca=infini
    sets 'a profile within another' infini SOFTHCA_PROFILE "$tern_run" --soft-hca=hdr200 "$tern_run" --soft-hca=infini
    sets 'no profile: none is set' unset SOFTHCA_PROFILE "$tern_run" --soft-hca
    sets 'no profile: that of the environment' infini SOFTHCA_PROFILE env SOFTHCA_PROFILE=infini "$tern_run" --soft-hca
    sets 'no shared memory on the software HCA' "$only" UCX_TLS "$tern_run" --soft-hca
    says_so='^tern-run: --soft-hca: all ranks are on this machine, and use Tern in place of shared memory: UCX_TLS='
    check_match 'which it says' "$says_so$only\$" "$tern_run" --soft-hca true
    check_match 'to one rank' "$says_so" env PMI_RANK=0 "$tern_run" --soft-hca true
    silent 'not to another' env PMI_RANK=1 "$tern_run" --soft-hca true
    silent 'nor to who asks for it' "$tern_run" --soft-hca --only true
    silent 'nor to who sets UCX_TLS' env UCX_TLS=tern,self "$tern_run" --soft-hca true
    sets 'MPICH connects ranks of a machine by UCX' 1 MPIR_CVAR_NOLOCAL "$tern_run" --soft-hca
    sets 'or as the user says' 0 MPIR_CVAR_NOLOCAL env MPIR_CVAR_NOLOCAL=0 "$tern_run" --soft-hca
    check_match 'options behind the command are its own' '^--soft-hca hdr200$' "$tern_run" echo --soft-hca hdr200
    mkdir "$tmp/bin"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho "ran $SOFTHCA_PROFILE, $1"\n' >"$tmp/bin/hdr200"
    chmod +x "$tmp/bin/hdr200"
    check_match 'a command that is called like a profile' '^ran , infini$' \
        env PATH="$tmp/bin:$PATH" "$tern_run" --soft-hca hdr200 infini
    refuses 'a profile in place of the command' 127 'ideal: No such file.*; for the profile, write --soft-hca=ideal$' \
        "$tern_run" --soft-hca -- ideal
    check_match '-v says what softhca sets' '^SOFTHCA_DEVICES=2$' env SOFTHCA_DEVICES=2 "$tern_run" --soft-hca -v true
}

refusal_tests() {
    refuses 'wrong option' 2 "^tern-run: no such option '--hard-hca'$" "$tern_run" --hard-hca
    refuses 'wrong profile' 2 '--profile=myri: choose from ideal, graphene' "$tern_run" --soft-hca=myri true
    refuses 'wrong variable' 2 'SOFTHCA_EXECUTOR=fast: choose from inline, thread' \
        env SOFTHCA_EXECUTOR=fast "$tern_run" --soft-hca true
    refuses 'nothing to run' 2 '^tern-run: no command to run$' "$tern_run" --soft-hca=hdr200
    refuses 'no such command' 127 'no-such-command: No such file' "$tern_run" no-such-command
    refuses 'not a command' 126 'Permission denied' "$tern_run" /dev/null
    refuses 'the status of the command is passed on' 7 '^$' "$tern_run" sh -c 'echo >&2; exit 7'
    cp "$tern_run" "$tmp/tern-run"
    refuses 'no softhca' 127 '^tern-run: --soft-hca: softhca: No such file' \
        env PATH="$tmp" "$tmp/tern-run" --soft-hca true
    if "$tmp/tern-run" true >/dev/null 2>&1; then
        skip 'no library' 'it is installed'
    else
        refuses 'no library' 1 "cannot find libuct_tern\.so\.0 in any of these places" "$tmp/tern-run" true
    fi
    for command in tern-run tern-bench softhca; do
        check_match "$command --version" "^$command [0-9]" "$(dirname "$tern_run")/$command" --version
    done
    check_match '--help' '^Usage: tern-run ' "$tern_run" --help
}

others='tern|self|cuda_.*|rocm_.*|ze_.*|gdr_copy|gaudi_gdr' shared='posix|sysv|cma|knem|xpmem'
used_by() { # command...: the transports that UCX then uses, in $tmp/names
    "$@" env UCX_LOG_LEVEL=warn ucx_info -p -u t >"$tmp/used" 2>&1
    sed -n 's/^# *resource.* \([a-z_0-9]*\)\/.*/\1/p' "$tmp/used" | sort -u >"$tmp/names"
}

# Transports that know a GPU's memory stay, and UCX does not warn of the default: no other network is used.
transports_tests() {
    local used
    if [ "${transports#tern}" != "$transports" ]; then
        mkdir "$tmp/modules"
        echo 'int none;' | cc -x c -shared -o "$tmp/modules/libuct_cuda.so.0" -
        sets "UCX_TLS where UCX has a module for CUDA" 'tern,self,sm,cuda.*' UCX_TLS env UCX_MODULE_DIR="$tmp/modules" "$tern_run"
        echo 'int missing(void); int f(void) { return missing(); }' |
            cc -x c -shared -fPIC -Wl,-z,now -o "$tmp/modules/libuct_rocm.so.0" -
        sets "not of one that cannot be loaded" 'tern,self,sm,cuda(,ze)?' UCX_TLS \
            env UCX_MODULE_DIR="$tmp/modules" "$tern_run"
    fi
    used_by "$SOFTHCA" run -- "$tern_run"
    result "$(! grep -q WARN "$tmp/used"; echo $?)" 'UCX does not warn of the default' "$tmp/used"
    result "$(grep -q '^tern$' "$tmp/names" && grep -Eqx 'posix|sysv' "$tmp/names" && ! grep -Evx "$others|$shared" "$tmp/names"
        echo $?)" 'it leaves Tern, shared memory, self and the transports of GPUs' "$tmp/used"
    used_by "$SOFTHCA" run -- "$tern_run" --only
    result "$(grep -q '^tern$' "$tmp/names" && ! grep -Evx "$others" "$tmp/names"; echo $?)" '--only: no shared memory' "$tmp/used"
}

environment_tests
transports_tests
soft_hca_tests
refusal_tests
check_match 'UCX has the transport' 'Transport: tern$' "$tern_run" --soft-hca ucx_info -d -t tern
if ucx_info -v | grep -q 'ersion:* 1\.13\.'; then
    # shellcheck disable=SC2016
    check 'docs/tern/settings.md is current' bash -c '"$1/contrib/settings.sh" "$2" | diff "$1/docs/tern/settings.md" -' _ \
        "$srcdir/.." "$tern_run"
else
    skip 'docs/tern/settings.md is current' 'it is that of UCX 1.13'
fi
finish
