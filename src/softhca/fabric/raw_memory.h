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

#ifdef __SANITIZE_THREAD__
// The thread sanitizer must see that the memory at an address is another one. Programs patch
// nothing when it runs.
inline void* raw_mmap(size_t length, int protection, int flags, int fd, uint64_t offset) {
    void* const address = mmap(nullptr, length, protection, flags, fd, static_cast<off_t>(offset));
    return address == MAP_FAILED ? nullptr : address;
}

inline void raw_munmap(void* address, size_t length) {
    munmap(address, length);
}
#else
inline void* raw_mmap(size_t length, int protection, int flags, int fd, uint64_t offset) {
    const long address = syscall(SYS_mmap, nullptr, length, protection, flags, fd, offset);
    return address == -1 ? nullptr : reinterpret_cast<void*>(address);
}

inline void raw_munmap(void* address, size_t length) {
    syscall(SYS_munmap, address, length);
}
#endif

}  // namespace softhca
