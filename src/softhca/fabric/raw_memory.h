// SPDX-License-Identifier: BSD-3-Clause
// Maps memory by raw system calls: programs patch mmap() and munmap() (UCX's memory hooks do), and
// must not be called back during a registration.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace softhca {

inline void* raw_mmap(size_t length, int protection, int flags, int fd, uint64_t offset) {
    const long address = syscall(SYS_mmap, nullptr, length, protection, flags, fd, offset);
    return address == -1 ? nullptr : reinterpret_cast<void*>(address);
}

inline void raw_munmap(void* address, size_t length) {
    syscall(SYS_munmap, address, length);
}

}  // namespace softhca
