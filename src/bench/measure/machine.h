// SPDX-License-Identifier: BSD-3-Clause
// The processors and the memory of this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/descriptor.h"

namespace bench {

// Where the two processes of a measurement run.
using Cpus = std::optional<std::pair<int, int>>;

// The first two CPUs that this process may use; none if there is only one.
Cpus choose_cpus();
// Keeps the calling thread on a CPU.
void stay_on(int cpu);

// Texts for the user: the CPUs of the processes, and the load average, since other load makes
// figures doubtful.
std::string placement_text(const Cpus& cpus);
std::string load_text();

// A file in memory, without a name: nothing is left behind, however this process ends.
class MemoryFile {
  public:
    MemoryFile();

    int fd() const { return fd_.get(); }
    // For the processes of this machine while this object lives.
    std::string path() const;
    std::string text() const;

  private:
    tools::Descriptor fd_;
};

// Memory whose pages are all present, also in the host of a virtual machine.
class Memory {
  public:
    enum class Kind { kPrivate, kShared };

    Memory(Kind kind, size_t size);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    char* data() { return data_; }

  private:
    std::optional<MemoryFile> file_;  // of kShared
    char* data_ = nullptr;
    size_t size_;
};

}  // namespace bench
