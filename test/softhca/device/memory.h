// SPDX-License-Identifier: BSD-3-Clause
// All kinds of memory, shared between processes or private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../conformance/device.h"

namespace conformance::softhca {

// A mapping, zero at first, which exists as long as the object; so does its open file, if it has
// one.
class Memory {
  public:
    enum Kind { kPrivate, kAnonymous, kMemfd, kShmFile, kSysV };

    // With `at`, the mapping replaces the present mappings there.
    Memory(Kind kind, std::size_t size, void* at = nullptr);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    uint8_t* data() const { return data_; }
    uint64_t addr(std::size_t offset = 0) const {
        return reinterpret_cast<uintptr_t>(data_) + offset;
    }
    std::size_t size() const { return size_; }

    // Registers a part of the mapping, by default all of it.
    Mr enroll(ibv_pd* pd, std::size_t offset, std::size_t length) const;
    Mr enroll(ibv_pd* pd) const { return enroll(pd, 0, size_); }

    // Unmaps early; the file stays open.
    void unmap();

    // Call after another mapping has replaced this one, so that the destructor does not unmap it.
    void forget() { data_ = nullptr; }

    // The byte at `offset` of the file.
    uint8_t in_file(std::size_t offset) const;

  private:
    Kind kind_;
    std::size_t size_;
    int fd_ = -1;
    uint8_t* data_ = nullptr;
};

const char* name(Memory::Kind kind);

// The number of open file descriptors of this process.
std::size_t open_files();

// The number of mappings of this process whose file name contains `text`.
std::size_t mappings_of(const std::string& text);

}  // namespace conformance::softhca
