// SPDX-License-Identifier: BSD-3-Clause
#include "common/library.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>

namespace tools {
namespace {

constexpr const char* kSeparators = " :";  // of LD_PRELOAD, which cannot quote them

std::vector<std::string> folders(const Library& library) {
    const std::string here = program_folder();
    std::vector<std::string> folders;
    // In a build tree, libtool may put this program into a folder .libs.
    for (const char* commands : {"/", "/../"})
        folders.push_back(here + commands + library.build_folder);
    folders.emplace_back(library.installed_folder);
    const std::filesystem::path installed = library.installed_folder;
    folders.push_back(here + "/" + installed.lexically_relative(TERN_BINDIR).string());
    return folders;
}

// Whether the file is a run-time library of a sanitizer, by the names that gcc and clang give to
// these.
bool is_of_sanitizer(const std::string& path) {
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    return std::ranges::any_of(
        std::array{"libasan.", "libtsan.", "liblsan.", "libhwasan.", "libubsan.", "libclang_rt."},
        [&](const char* start) { return name.starts_with(start); });
}

}  // namespace

std::string program_path() {
    char path[PATH_MAX];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    return length <= 0 ? "." : std::string(path, static_cast<size_t>(length));
}

std::string program_folder() {
    const std::string program = program_path();
    return program.substr(0, program.rfind('/'));
}

std::string find_library(const Library& library, std::string* error) {
    *error = std::string("cannot find ") + library.file + " in any of these places:";
    for (const std::string& folder : folders(library)) {
        const std::string path = folder + "/" + library.file;
        char resolved[PATH_MAX];
        if (::access(path.c_str(), R_OK) != 0 || ::realpath(folder.c_str(), resolved) == nullptr) {
            *error += "\n  " + path;
            continue;
        }
        // Symbolic links are resolved in the folders only: UCX identifies a plug-in by the name of
        // its file.
        std::string found = std::string(resolved) + "/" + library.file;
        if (found.find_first_of(kSeparators) == std::string::npos) return found;
        *error = "LD_PRELOAD cannot have a path with blanks or colons: " + found;
        break;
    }
    return {};
}

std::string find_transport(std::string* error) {
    return find_library({"libuct_tern.so.0", "../.libs", TERN_LIBDIR}, error);
}

bool finds_plug_ins(unsigned major, unsigned minor) {
    return major > 1 || (major == 1 && minor >= 22);
}

std::vector<std::string> paths_of(std::string_view list) {
    std::vector<std::string> paths;
    while (!list.empty()) {
        const size_t end = std::min(list.find_first_of(kSeparators), list.size());
        if (end != 0) paths.emplace_back(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return paths;
}

std::string prepend_path(std::string_view path, std::string_view list) {
    const std::vector<std::string> paths = paths_of(list);
    if (std::ranges::count(paths, path) != 0) return std::string(list);
    std::string first;
    std::string rest;
    for (const std::string& other : paths)
        (is_of_sanitizer(other) ? first : rest).append(":").append(other);
    return (first + ":").append(path).append(rest).substr(1);
}

std::string allow_preloads(std::string_view options) {
    constexpr std::string_view kAllow = "verify_asan_link_order=0";
    if (options.find(kAllow) != std::string_view::npos) return std::string(options);
    std::string result(kAllow);
    if (!options.empty()) result.append(":").append(options);
    return result;
}

}  // namespace tools
