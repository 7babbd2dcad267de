// SPDX-License-Identifier: BSD-3-Clause
// The backing file of memory to be registered, by which other processes can map the memory.
#pragma once

#include <cstdint>

namespace softhca {

struct BackingFile {
    int fd = -1;         // -1: the memory is private, or its file cannot be opened
    uint64_t inode = 0;  // of the file
    uint64_t offset = 0;
};

// The backing file of [address, address + length), if one shared, writable mapping of a file in
// memory holds this range. Never changes the mapping. Registrations of one file share the
// descriptor; the caller returns each with release_backing_file().
BackingFile find_backing_file(uint64_t address, uint64_t length);
void release_backing_file(const BackingFile& file);

}  // namespace softhca
