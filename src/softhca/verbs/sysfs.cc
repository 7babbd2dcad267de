// SPDX-License-Identifier: BSD-3-Clause
// Some programs, like UCX, open the device's node in /dev/infiniband, and there is none. These
// functions answer calls about the node, and pass others on.
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

template <typename Stat>
int describe_node(Stat* status) {
    std::memset(status, 0, sizeof *status);
    status->st_mode = S_IFCHR | 0666;
    status->st_nlink = 1;
    return 0;
}

template <typename Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

SOFTHCA_EXPORT int stat(const char* path, struct stat* status) {
    static auto* const real = next<int(const char*, struct stat*)>("stat");
    return is_device_node(path) ? describe_node(status) : real(path, status);
}

SOFTHCA_EXPORT int stat64(const char* path, struct stat64* status) {
    static auto* const real = next<int(const char*, struct stat64*)>("stat64");
    return is_device_node(path) ? describe_node(status) : real(path, status);
}

SOFTHCA_EXPORT int __xstat(int version, const char* path, struct stat* status);
SOFTHCA_EXPORT int __xstat(int version, const char* path, struct stat* status) {
    static auto* const real = next<int(int, const char*, struct stat*)>("__xstat");
    return is_device_node(path) ? describe_node(status) : real(version, path, status);
}

SOFTHCA_EXPORT int access(const char* path, int mode) {
    static auto* const real = next<int(const char*, int)>("access");
    return is_device_node(path) ? 0 : real(path, mode);
}

}  // namespace softhca
