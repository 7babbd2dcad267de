// SPDX-License-Identifier: BSD-3-Clause
// The MPI and OpenSHMEM libraries of this machine, and what a benchmark compiles with them when it
// runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/series/process.h"

namespace bench {

struct Toolchain {
    std::string name;
    std::string compiler;  // paths of its commands; empty: not installed
    std::string launcher;

    bool installed() const { return !compiler.empty() && !launcher.empty(); }
    // The words before a command that run two processes of it.
    Words launch() const { return {launcher, "-np", "2"}; }
};

// Open MPI and MPICH by the names that Debian gives their commands; `mpicc` and `mpirun` if there
// is neither. Those that are not installed are included.
std::vector<Toolchain> find_mpis();
Toolchain find_openshmem();
// A line for the user about one that is not installed.
std::string left_out_text(const Toolchain& toolchain);

// The changes to the environment with which all of them have no other way between their processes
// than UCX.
Environment over_ucx();

// A file that was compiled. Its name is gone: nothing is left behind, however this process ends.
class Compiled {
  public:
    // Throws Failure with the compiler's errors.
    Compiled(const Toolchain& toolchain, const char* source, const Words& flags = {});
    ~Compiled();
    Compiled(Compiled&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
    Compiled& operator=(Compiled&&) = delete;

    // For the processes of this machine while this object lives.
    std::string path() const;

  private:
    int file_ = -1;
};

// Runs a command, with changes to this process's environment and with this input. Returns its
// output. Throws Failure with the end of it if the command fails or takes too long.
std::string output_of(const std::string& what, const Words& command, const Environment& environment,
                      const std::string& input, uint64_t limit_ns);

}  // namespace bench
