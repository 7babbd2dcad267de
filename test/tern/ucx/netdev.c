// SPDX-License-Identifier: BSD-3-Clause
/*
 * Preloaded into UCX's tests of connections by socket address. They use network interfaces of RDMA
 * devices only, which they know by a folder in sysfs. On the software HCA, every interface of the
 * machine is as good.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>

DIR* opendir(const char* path) {
    static const char folder[] = "/device/infiniband";
    DIR* (*const next)(const char*) = (DIR * (*)(const char*)) dlsym(RTLD_NEXT, "opendir");
    const size_t length = strlen(path), end = sizeof folder - 1;
    if (length > end && strcmp(path + length - end, folder) == 0) return next("/");
    /* The tests close what they could not open. */
    DIR* const opened = next(path);
    return opened != NULL || strcmp(path, "/sys/class/infiniband") != 0 ? opened
                                                                        : next("/proc/self/task");
}
