// SPDX-License-Identifier: BSD-3-Clause
// The MPI libraries of this machine, and the program of `tern-bench mpi` compiled with them.
#pragma once

#include <string>
#include <vector>

#include "bench/series/process.h"

namespace bench {

struct Mpi {
    std::string name;
    std::string compiler;  // paths of its commands; empty: not installed
    std::string launcher;

    bool installed() const { return !compiler.empty() && !launcher.empty(); }
};

// Open MPI and MPICH by the names that Debian gives their commands; `mpicc` and `mpirun` if there
// is neither. Those that are not installed are included.
std::vector<Mpi> find_mpis();

class MpiProgram {
  public:
    // Compiles the program. Throws Failure with the compiler's errors.
    explicit MpiProgram(const Mpi& mpi);
    ~MpiProgram();
    MpiProgram(const MpiProgram&) = delete;
    MpiProgram& operator=(const MpiProgram&) = delete;

    const std::string& name() const { return name_; }
    // Runs two ranks with changes to this process's environment. Returns their output. Throws
    // Failure with the end of it if they fail or take too long.
    std::string run(const Words& arguments, Environment environment) const;

  private:
    std::string name_;
    std::string launcher_;
    // The executable, whose name is gone: nothing is left behind, however this process ends.
    int file_ = -1;
};

}  // namespace bench
