// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace bench {

// Path of libuct_tern.so.0: what LD_PRELOAD names, that of the build tree that holds this program,
// or the installed one. Throws Failure if there is none.
std::string find_tern_library();

// A value of LD_PRELOAD without Tern.
std::string without_tern(std::string_view preload);

}  // namespace bench
