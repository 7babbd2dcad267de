// SPDX-License-Identifier: BSD-3-Clause
// Where the libraries of this package are, and how to preload one.
#pragma once

#include <string>
#include <string_view>

namespace tools {

// The folder that holds this program.
std::string program_folder();

// A library of this package.
struct Library {
    const char* file;
    const char* build_folder;      // in the build tree, relative to its folder of commands
    const char* installed_folder;  // as configured; null: unknown
    const char* beside;            // relative to the folder of installed commands
};

// Path of a library: of the build tree that holds this program, or else the installed one.
// Empty, with *error saying where it was looked for, if there is none.
std::string find_library(const Library& library, std::string* error);

// `path` in front of a list with colons, as LD_PRELOAD holds one, unless it is in there.
std::string prepend_path(std::string_view path, std::string_view list);

}  // namespace tools
