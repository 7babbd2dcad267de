// SPDX-License-Identifier: BSD-3-Clause
// The memory that messages come from and go to.
#pragma once

#include <cstddef>

namespace bench {

/// Anonymous memory, every page of it there.
class Memory {
  public:
    enum class Kind { private_, shared };

    /// Shared memory is shared with processes forked later.
    Memory(Kind kind, size_t size);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    char* data() { return data_; }
    size_t size() const { return size_; }

  private:
    char* data_;
    size_t size_;
};

}  // namespace bench
