// SPDX-License-Identifier: BSD-3-Clause
// Finds the libraries of this package, and preloads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tools {

// The path of this program, and its folder; "." if they are unknown.
std::string program_path();
std::string program_folder();

// A library of this package.
struct Library {
    const char* file;
    const char* build_folder;      // relative to the folder of the commands in the build tree
    const char* installed_folder;  // as configured
};

// The path of a library: from the build tree that holds this program, otherwise the installed one,
// also if the installation has been moved as a whole. Empty: it was not found, and *error has the
// places that were searched.
std::string find_library(const Library& library, std::string* error);

// The path of libuct_tern.so.0, which programs load and which loads the transport, as
// find_library().
std::string find_transport(std::string* error);
// Whether this release of UCX loads plug-ins from UCX_PLUGIN_PATH. For other releases, the library
// is preloaded.
bool finds_plug_ins(unsigned major, unsigned minor);

// The paths in a list like that of LD_PRELOAD.
std::vector<std::string> paths_of(std::string_view list);
// Puts `path` before `list`, which LD_PRELOAD or a similar variable holds, but behind run-time
// libraries of sanitizers, which begin the list if they are in it at all; `list` alone if it has
// `path` already.
std::string prepend_path(std::string_view path, std::string_view list);

// The variable by which the address sanitizer takes options, and a value that has it start although
// something is preloaded before it. `options`: the value so far, which wins.
constexpr const char* kSanitizerOptions = "ASAN_OPTIONS";
std::string allow_preloads(std::string_view options);

}  // namespace tools
