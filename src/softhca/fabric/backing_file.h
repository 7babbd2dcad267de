// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether memory to be registered is shared already, and by which file others can map it.
#pragma once

#include <cstdint>

namespace softhca {

struct BackingFile {
    int fd = -1;         ///< -1: private memory, or no way to it
    uint64_t inode = 0;  ///< of that file
    uint64_t offset = 0;
};

/// [address, address + length) as part of one shared, writable mapping of a file in memory. Never
/// changes the mapping. Registrations of one file file a descriptor; each gives it back with
/// release_backing_file().
BackingFile find_backing_file(uint64_t address, uint64_t length);
void release_backing_file(const BackingFile& file);

}  // namespace softhca
