// SPDX-License-Identifier: BSD-3-Clause
// `tern-run --check`: whether this machine can run programs over Tern, and what to do if not.
#pragma once

#include <string>

namespace tern {

// Prints a line for each thing that matters, and what to do about what is not good. `program`: one
// that is to be run over Tern; empty: none. `only`: see set_up_tern(). Returns the exit status: 0,
// or 1 if something prevents the use of Tern.
int check(const std::string& program, bool only);

}  // namespace tern
