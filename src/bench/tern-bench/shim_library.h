// SPDX-License-Identifier: BSD-3-Clause
// The libraries (shim.h) of the MPIs and of the OpenSHMEM of this machine.
#pragma once

#include <deque>
#include <string>

#include "bench/tern-bench/toolchain.h"

namespace bench {

struct ShimLibrary {
    Toolchain toolchain;
    bool has_messages;
    Compiled compiled;
};

// Compiles a library with each that is installed. Adds a line to *notes for each that is not.
// Throws Failure with the errors of a compiler.
std::deque<ShimLibrary> compile_shims(std::string* notes);

}  // namespace bench
