// SPDX-License-Identifier: BSD-3-Clause
// This machine: its processors, memory, and the programs beside this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace bench {

// Where the two processes of a measurement run.
using Cpus = std::optional<std::pair<int, int>>;

// The first two CPUs that this process may use; none if there is only one.
Cpus choose_cpus();
// Keeps the calling thread on a CPU.
void stay_on(int cpu);

// For people: where the processes run, and what else the machine is doing, which decides what the
// figures are worth.
std::string placement_text(const Cpus& cpus);
std::string load_text();

// Path of this program.
std::string program_path();
// Path of another program in the same folder; empty if there is none.
std::string program_beside(const std::string& name);

// Memory, every page of it there. Shared memory is a file in memory that others can map.
class Memory {
  public:
    enum class Kind { kPrivate, kShared };

    Memory(Kind kind, size_t size);
    // What another process has as shared memory.
    Memory(const std::string& file, size_t size);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    char* data() { return data_; }
    // The file, as another process finds it.
    std::string file() const;

  private:
    void map(int flags);

    char* data_ = nullptr;
    size_t size_;
    int fd_ = -1;
};

// Something to compute that takes a known time of a processor, as long as nobody else gets it.
class Work {
  public:
    explicit Work(double ns);

    void operator()() const { spin(turns_); }
    // What it takes.
    double ns() const { return static_cast<double>(turns_) * turn_ns(); }

  private:
    static void spin(uint64_t turns);
    // Measured once, as the least of many tries.
    static double turn_ns();

    uint64_t turns_;
};

}  // namespace bench
