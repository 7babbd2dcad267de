// SPDX-License-Identifier: BSD-3-Clause
// Memory of every kind that may be shared between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../conformance/device.h"

namespace conformance::softhca {

// A mapping, zero at first, which ends with the object. Its file, if it has one, is open meanwhile.
class Memory {
  public:
    enum Kind { kPrivate, kAnonymous, kMemfd, kShmFile, kSysV };

    // With `at`, the mapping replaces whatever is mapped there.
    Memory(Kind kind, std::size_t size, void* at = nullptr);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    uint8_t* data() const { return data_; }
    uint64_t addr(std::size_t offset = 0) const {
        return reinterpret_cast<uintptr_t>(data_) + offset;
    }
    std::size_t size() const { return size_; }

    // Registers a part, by default all.
    Mr enroll(ibv_pd* pd, std::size_t offset, std::size_t length) const;
    Mr enroll(ibv_pd* pd) const { return enroll(pd, 0, size_); }

    // Ends the mapping before the object.
    void unmap();

    // Another mapping has taken the place of this one.
    void forget() { data_ = nullptr; }

    // Byte `offset` of the file.
    uint8_t in_file(std::size_t offset) const;

  private:
    Kind kind_;
    std::size_t size_;
    int fd_ = -1;
    uint8_t* data_ = nullptr;
};

const char* name(Memory::Kind kind);

// How many descriptors this process has open.
std::size_t open_files();

// How many mappings of this process are of a file whose name contains `text`.
std::size_t mappings_of(const std::string& text);

}  // namespace conformance::softhca
