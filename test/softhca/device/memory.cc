// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace conformance::softhca {
namespace {

constexpr std::array kNames{"Private", "Anonymous", "Memfd", "ShmFile", "SysV"};

int make_file(Memory::Kind kind, std::size_t size) {
    int fd = -1;
    if (kind == Memory::kMemfd) {
        fd = memfd_create("softhca-test", MFD_CLOEXEC);
    } else {
        std::string path = "/dev/shm/softhca-test-XXXXXX";
        fd = mkostemp(path.data(), O_CLOEXEC);
        if (fd >= 0) unlink(path.c_str());
    }
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(size))) fail_errno("file in memory");
    return fd;
}

void* attach_sysv(std::size_t size, const void* at) {
    const int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
    if (id < 0) fail_errno("shmget");
    void* memory = shmat(id, at, at ? SHM_REMAP : 0);
    shmctl(id, IPC_RMID, nullptr);
    if (memory == reinterpret_cast<void*>(-1)) fail_errno("shmat");
    return memory;
}

}  // namespace

Memory::Memory(Kind kind, std::size_t size, void* at) : kind_(kind), size_(size) {
    if (kind == kSysV) {
        data_ = static_cast<uint8_t*>(attach_sysv(size, at));
        return;
    }
    const bool in_file = kind == kMemfd || kind == kShmFile;
    if (in_file) fd_ = make_file(kind, size);
    const int flags = (kind == kPrivate ? MAP_PRIVATE : MAP_SHARED) |
                      (in_file ? 0 : MAP_ANONYMOUS) | (at ? MAP_FIXED : 0);
    void* memory = mmap(at, size, PROT_READ | PROT_WRITE, flags, fd_, 0);
    if (memory == MAP_FAILED) fail_errno("mmap");
    data_ = static_cast<uint8_t*>(memory);
}

Memory::~Memory() {
    unmap();
    if (fd_ >= 0) close(fd_);
}

void Memory::unmap() {
    if (!data_) return;
    if (kind_ == kSysV)
        shmdt(data_);
    else
        munmap(data_, size_);
    data_ = nullptr;
}

Mr Memory::enroll(ibv_pd* pd, std::size_t offset, std::size_t length) const {
    Mr mr(ibv_reg_mr(pd, data_ + offset, length, kAllAccess));
    if (!mr) fail_errno("ibv_reg_mr");
    return mr;
}

uint8_t Memory::in_file(std::size_t offset) const {
    uint8_t byte = 0;
    if (pread(fd_, &byte, 1, static_cast<off_t>(offset)) != 1) fail_errno("pread");
    return byte;
}

const char* name(Memory::Kind kind) {
    return kNames.at(kind);
}

std::size_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::size_t mappings_of(const std::string& text) {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find(text) != std::string::npos;
    return count;
}

}  // namespace conformance::softhca
