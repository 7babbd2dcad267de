// SPDX-License-Identifier: BSD-3-Clause
// This program and those beside it.
#pragma once

#include <string>

namespace bench {

/// Path of this program.
std::string program_path();
/// Path of another program in the same folder; empty if there is none.
std::string program_beside(const std::string& name);

}  // namespace bench
