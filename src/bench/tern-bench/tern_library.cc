// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/tern_library.h"

#include <algorithm>
#include <cstdlib>

#include "bench/measure/failure.h"
#include "tools/common/library.h"

namespace bench {
namespace {

constexpr tools::Library kLibrary = {"libuct_tern.so.0", "../.libs", TERN_LIBDIR,
                                       "../lib/ucx-tern"};

// Calls visit(entry) for each entry of a value of LD_PRELOAD.
template <typename Visit>
void for_each_preload(std::string_view list, Visit&& visit) {
    while (!list.empty()) {
        const size_t end = std::min(list.find_first_of(" :"), list.size());
        if (end != 0) visit(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
}

bool is_tern(std::string_view path) {
    return path.substr(path.rfind('/') + 1).starts_with("libuct_tern.so");
}

}  // namespace

std::string find_tern_library() {
    std::string preloaded;
    const char* preload = std::getenv("LD_PRELOAD");
    for_each_preload(preload != nullptr ? preload : "", [&](std::string_view path) {
        if (is_tern(path)) preloaded = path;
    });
    if (!preloaded.empty()) return preloaded;
    std::string error;
    const std::string found = tools::find_library(kLibrary, &error);
    if (found.empty()) throw Failure(error);
    return found;
}

std::string without_tern(std::string_view preload) {
    std::string result;
    for_each_preload(preload, [&](std::string_view path) {
        if (!is_tern(path)) result.append(result.empty() ? "" : ":").append(path);
    });
    return result;
}

}  // namespace bench
