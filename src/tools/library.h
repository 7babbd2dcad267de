// SPDX-License-Identifier: BSD-3-Clause
// Where the library to preload is.
#pragma once

#include <string>
#include <string_view>

namespace softhca {

/// Path of libsofthca.so: of the build tree that holds this program, or else the installed one.
/// Empty, with *error saying where it was looked for, if there is none.
std::string find_library(std::string* error);

/// `library` in front of what LD_PRELOAD holds already.
std::string prepend_preload(std::string_view library, std::string_view existing);

}  // namespace softhca
