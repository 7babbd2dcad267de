// SPDX-License-Identifier: BSD-3-Clause
// Some programs look for what a kernel with InfiniBand has: UCX for the device's node in
// /dev/infiniband, Open MPI's btl openib for the folder of all devices in sysfs, without which it
// does not ask libibverbs for devices. Neither needs more than that it exists. These functions
// answer calls about the two, and pass others on.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "softhca/verbs/export.h"

namespace softhca {

namespace {

bool is_device_node(const char* path) {
    static constexpr char kPrefix[] = "/dev/infiniband/softhca-uverbs";
    return path != nullptr && std::strncmp(path, kPrefix, sizeof kPrefix - 1) == 0;
}

// The machine's own folder, if there is one, is as good.
bool is_device_folder(const char* path) {
    return path != nullptr && std::strcmp(path, "/sys/class/infiniband") == 0;
}

bool is_answered(const char* path) {
    return is_device_node(path) || is_device_folder(path);
}

template <typename Stat>
int describe(const char* path, Stat* status) {
    std::memset(status, 0, sizeof *status);
    const bool folder = is_device_folder(path);
    status->st_mode = folder ? S_IFDIR | 0555 : S_IFCHR | 0666;
    status->st_nlink = folder ? 2 : 1;
    return 0;
}

template <typename Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

SOFTHCA_EXPORT int stat(const char* path, struct stat* status) {
    static auto* const real = next<int(const char*, struct stat*)>("stat");
    return is_answered(path) ? describe(path, status) : real(path, status);
}

SOFTHCA_EXPORT int stat64(const char* path, struct stat64* status) {
    static auto* const real = next<int(const char*, struct stat64*)>("stat64");
    return is_answered(path) ? describe(path, status) : real(path, status);
}

SOFTHCA_EXPORT int __xstat(int version, const char* path, struct stat* status);
SOFTHCA_EXPORT int __xstat(int version, const char* path, struct stat* status) {
    static auto* const real = next<int(int, const char*, struct stat*)>("__xstat");
    return is_answered(path) ? describe(path, status) : real(version, path, status);
}

SOFTHCA_EXPORT int access(const char* path, int mode) {
    static auto* const real = next<int(const char*, int)>("access");
    return is_device_node(path) ? 0 : real(path, mode);
}

}  // namespace softhca
