#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The programs of ibverbs-utils on the software HCA.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
require ibv_devices ibv_devinfo ibv_rc_pingpong

pingpong() { # name kind option...
    local name=$1 program="ibv_$2_pingpong"
    shift 2
    new_port
    pair "$name" "${hca[@]}" "$program" -p "$port" "$@" ::: \
        "${hca[@]}" "$program" -p "$port" "$@" 127.0.0.1
}

every_pingpong() { # label option...
    local label=$1 kind
    shift
    for kind in rc uc ud srq; do
        pingpong "$label: $kind" $kind -c "$@"
        pingpong "$label: $kind with events" $kind -c -e "$@"
    done
    pingpong "$label: xsrq" xsrq "$@"
    pingpong "$label: xsrq with events" xsrq -e "$@"
    pingpong "$label: rc with ibv_wr_*" rc -c -N "$@"
}

check_match 'ibv_devices' '^ +softhca0' "${hca[@]}" ibv_devices
check_match 'ibv_devinfo' 'state:.*PORT_ACTIVE' "${hca[@]}" ibv_devinfo -v -d softhca0
check_match 'ibv_devinfo: infiniband' 'link_layer:.*InfiniBand' "${hca[@]}" ibv_devinfo

every_pingpong inline
pingpong 'inline: rc, 1 MiB' rc -c -s 1048576 -n 100
pingpong 'inline: rc, 1 B' rc -c -s 1
pingpong 'inline: uc, 1 MiB' uc -c -s 1048576 -n 100
pingpong 'inline: rc by GID' rc -c -g 0

use_hca --executor thread
every_pingpong thread
pingpong 'thread: rc, 1 MiB' rc -c -s 1048576 -n 100

use_hca --link-layer ethernet
check_match 'ibv_devinfo: ethernet' 'link_layer:.*Ethernet' "${hca[@]}" ibv_devinfo
every_pingpong ethernet -g 0

use_hca --devices 2 --ports 2
check_match 'ibv_devices: two' '^ +softhca1' "${hca[@]}" ibv_devices
check_match 'ibv_devinfo: two ports' 'port:[[:space:]]+2' "${hca[@]}" ibv_devinfo -d softhca1
pingpong 'second device, second port: rc' rc -c -d softhca1 -i 2
pingpong 'second device, second port: ud' ud -c -d softhca1 -i 2

# Programs that load libibverbs themselves, and ask for its functions with and without a version. Functions that the
# device does not replace are libibverbs' own. Other libraries are still looked for where the program says.
mkdir "$tmp/beside"
cc -shared -o "$tmp/beside/libbeside.so" -x c - <<<'int beside(void) { return 42; }' &&
    cc -o "$tmp/loads" -Wl,-rpath,"$tmp/beside" -x c - <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
    void* const beside = dlopen("libbeside.so", RTLD_NOW);
    void* const verbs = dlopen(argv[1], RTLD_NOW);
    if (!beside || !verbs) return puts(dlerror()), 1;
    void** (*list)(int*) = (void** (*)(int*))dlvsym(verbs, "ibv_get_device_list", "IBVERBS_1.1");
    void** (*same)(int*) = (void** (*)(int*))dlsym(verbs, "ibv_get_device_list");
    const char* (*name)(void*) = (const char* (*)(void*))dlsym(verbs, "ibv_get_device_name");
    const char* (*status)(int) = (const char* (*)(int))dlvsym(verbs, "ibv_wc_status_str", "IBVERBS_1.1");
    if (!list || list != same || !name || !status) return puts("a function is missing"), 1;
    int count = 0;
    void** const devices = list(&count);
    printf("%s, %s, %d\n", count != 0 ? name(devices[0]) : "none", status(0), dlsym(beside, "beside") != NULL);
    return 0;
}
END
result $? 'a program that loads libibverbs compiles'
for name in libibverbs.so.1 "$(ldconfig -p | awk '/libibverbs.so.1 .*x86-64|libibverbs.so.1 .*AArch64/ { print $NF; exit }')"; do
    check_match "a program that loads $name" '^softhca0, success, 1$' "${hca[@]}" "$tmp/loads" "$name"
done
finish
