// SPDX-License-Identifier: BSD-3-Clause
// The program of `tern-bench mpi`, compiled with an MPI.
#pragma once

#include <string>

#include "bench/tern-bench/toolchain.h"

namespace bench {

class MpiProgram {
  public:
    // Compiles the program. Throws Failure with the compiler's errors.
    explicit MpiProgram(const Toolchain& mpi);

    const std::string& name() const { return name_; }
    // Runs two ranks with changes to this process's environment. Returns their output. Throws
    // Failure with the end of it if they fail or take too long.
    std::string run(const Words& arguments, Environment environment) const;

  private:
    const std::string name_;
    const Words launch_;
    const Compiled program_;
};

}  // namespace bench
