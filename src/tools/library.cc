// SPDX-License-Identifier: BSD-3-Clause
#include "library.h"

#include <unistd.h>

#include <climits>
#include <vector>

namespace softhca {
namespace {

constexpr const char* kLibrary = "libsofthca.so";

std::string directory_of_program() {
    char path[PATH_MAX];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0) return ".";
    const std::string program(path, static_cast<size_t>(length));
    return program.substr(0, program.rfind('/'));
}

std::vector<std::string> candidates() {
    const std::string here = directory_of_program();
    std::vector<std::string> paths;
    // In a build tree, where libtool may keep this program in a .libs too.
    for (const char* folder : {"/../softhca/.libs/", "/../../softhca/.libs/"}) {
        paths.push_back(here + folder + kLibrary);
    }
#ifdef SOFTHCA_LIBDIR
    paths.push_back(std::string(SOFTHCA_LIBDIR "/") + kLibrary);
#endif
    paths.push_back(here + "/../lib/" + kLibrary);
    return paths;
}

}  // namespace

std::string find_library(std::string* error) {
    *error = std::string("cannot find ") + kLibrary + "; looked for";
    for (const std::string& path : candidates()) {
        char resolved[PATH_MAX];
        if (::access(path.c_str(), R_OK) == 0 && ::realpath(path.c_str(), resolved) != nullptr) {
            // The dynamic linker splits LD_PRELOAD at these and has no way to quote them.
            if (std::string_view(resolved).find_first_of(" :") != std::string_view::npos) {
                *error =
                    std::string("a path with blanks or colons cannot be preloaded: ") + resolved;
                return {};
            }
            return resolved;
        }
        *error += "\n  " + path;
    }
    return {};
}

std::string prepend_preload(std::string_view library, std::string_view existing) {
    std::string list(library);
    const std::string_view first = existing.substr(0, existing.find_first_of(" :"));
    if (existing.empty() || first == library)
        return existing.empty() ? list : std::string(existing);
    return list.append(":").append(existing);
}

}  // namespace softhca
