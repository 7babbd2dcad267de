#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Every public function of libibverbs and librdmacm that looks into a context or an identifier is the device's: those of
# the installed libraries, and those of symbols.txt, of which programs here can have the newest only by dlvsym().
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
require nm ldconfig

symbols=$srcdir/softhca/symbols.txt
# shellcheck disable=SC2016 # for the inner shell
library=$("${hca[@]}" sh -c 'echo "${LD_PRELOAD%%:*}"')
nm -D --defined-only "$library" | awk '{ print $3 }' >"$tmp/exported"

for name in libibverbs librdmacm; do
    path=$(ldconfig -p | awk -v name="$name.so.1" '$1 == name { print $NF; exit }')
    nm -D --defined-only "$path" | awk '$2 != "A" && $3 !~ /PRIVATE/ { sub("@.*", "", $3); print $3 }' | sort -u >"$tmp/$name"
    { sed 's/@.*//' "$tmp/exported"; awk '$3 == "library" { print $2 }' "$symbols"; } | sort -u |
        comm -23 "$tmp/$name" - >"$tmp/missing"
    [ -s "$tmp/$name" ] && [ ! -s "$tmp/missing" ]
    result $? "the installed $name has no function that is nobody's" "$tmp/missing"
done

awk '$3 == "device" { print $2 "@@" $1 }' "$symbols" | sort | comm -23 - <(sort "$tmp/exported") >"$tmp/missing"
[ ! -s "$tmp/missing" ]
result $? 'the device has what symbols.txt says' "$tmp/missing"

cc -o "$tmp/calls" -x c - -libverbs <<'END_OF_C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static void* find(const char* version, const char* name) {
    void* const found = dlvsym(RTLD_DEFAULT, name, version);
    if (!found) printf("there is no %s of %s\n", name, version);
    return found;
}
/* As ibv_mr_init_attr. */
struct request { size_t length; int access; uint64_t mask, iova; void* addr; int fd; uint64_t offset; void *dmah, *buf; };
static int buffers(struct ibv_pd* pd) {
    void* (*alloc)(struct ibv_pd*, size_t, void**) = find("IBVERBS_1.17", "ibv_alloc_buf");
    void (*release)(void*) = find("IBVERBS_1.17", "ibv_free_buf");
    struct ibv_mr* (*reg)(struct ibv_pd*, void*, void*, size_t, int) = find("IBVERBS_1.17", "ibv_reg_buf_mr");
    struct ibv_mr* (*reg_ex)(struct ibv_pd*, struct request*) = find("IBVERBS_1.15", "ibv_reg_mr_ex");
    void* buf;
    if (!alloc || !release || !reg || !reg_ex) return 1;
    char* const bytes = alloc(pd, 10000, &buf);
    if (!bytes || (uintptr_t)bytes % 4096 != 0) return puts("no buffer"), 1;
    struct ibv_mr* mr = reg(pd, buf, bytes + 100, 9900, IBV_ACCESS_LOCAL_WRITE);
    if (!mr || mr->addr != bytes + 100 || mr->length != 9900 || ibv_dereg_mr(mr)) return puts("not registered"), 1;
    errno = 0;
    if (reg(pd, buf, bytes + 100, 9901, 0) || errno != EINVAL) return puts("beyond its end"), 1;
    errno = 0;
    if (reg(pd, buf, bytes - 1, 1, 0) || errno != EINVAL) return puts("before its begin"), 1;
    struct request request = {.length = 8, .mask = 3, .addr = bytes, .iova = 1 << 20, .fd = -1};
    mr = reg_ex(pd, &request);
    if (!mr || ibv_dereg_mr(mr)) return puts("not registered at its address"), 1;
    const uint64_t wrong[] = {1, 2 | 8, 4, 4 | 8, 1 | 2 | 4 | 8, 2 | 16, 2 | 64};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        request.mask = wrong[i];
        errno = 0;
        if (reg_ex(pd, &request) || errno != (wrong[i] > 15 ? EOPNOTSUPP : EINVAL)) return puts("a wrong mask"), 1;
    }
    release(buf);
    return 0;
}
/* A structure that has grown: what the device does not know of it is zero. */
static int grown(struct ibv_context* context) {
    struct { struct ibv_port_attr attr; char more[64]; } port;
    memset(&port, 0xff, sizeof port);
    struct verbs_context* const verbs = verbs_get_ctx_op(context, query_port);
    if (!verbs || verbs->query_port(context, 1, &port.attr, sizeof port)) return puts("no port"), 1;
    for (unsigned i = 0; i < sizeof port.more; ++i)
        if (port.more[i] != 0) return puts("not zero"), 1;
    return 0;
}
int main(int argc, char** argv) {
    struct ibv_device** const list = ibv_get_device_list(NULL);
    struct ibv_context* const context = list && *list ? ibv_open_device(*list) : NULL;
    struct ibv_pd* const pd = context ? ibv_alloc_pd(context) : NULL;
    if (!pd) return puts("no device"), 1;
    if (!strcmp(argv[1], "buffers")) return buffers(pd);
    if (!strcmp(argv[1], "grown")) return grown(context);
    /* Refused before anything is looked at. */
    intptr_t (*refused)(void*, void*, void*) = find(argv[1], argv[2]);
    if (!refused) return 1;
    errno = 0;
    const intptr_t result = refused(context, NULL, NULL);
    const int wanted = argc > 3 ? ENODATA : EOPNOTSUPP;
    printf("%ld, errno %d\n", (long)result, errno);
    return errno != wanted || (result != 0 && (int)result != -1 && (int)result != wanted);
}
END_OF_C
result $? 'a program that calls what newer libraries have compiles'
check 'buffers of the device: ibv_alloc_buf, ibv_reg_buf_mr, ibv_reg_mr_ex' "${hca[@]}" "$tmp/calls" buffers
check 'a port has nothing in what is new in its attributes' "${hca[@]}" "$tmp/calls" grown
while read -r version name; do
    # shellcheck disable=SC2046 # another error, or none
    check "$name is refused" "${hca[@]}" "$tmp/calls" "$version" "$name" \
        $([ "$name" != ibv_export_buf_dmabuf_fd ] || echo ENODATA)
done < <(awk '$1 ~ /^(IBVERBS_1.1[5-8]|RDMACM_1.4)$/ && $2 !~ /ibv_(alloc_buf|free_buf|reg_buf_mr|reg_mr_ex)$/ { print $1, $2 }' "$symbols")
finish
