// SPDX-License-Identifier: BSD-3-Clause
// Whether the UCX that a process has loaded is the one that this library was built for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace tern {

/// A UCX version. Private structures may change with each release.
struct UcxVersion {
    unsigned major;
    unsigned minor;
    unsigned release;

    bool operator==(const UcxVersion&) const = default;
};

/// A structure of UCX's that this library extends or looks into.
struct UcxClass {
    const char* name;
    size_t loaded;  ///< its size in the libuct of this process
    size_t built;   ///< and in this library
};

/// What does not fit and what to do, in one line; nothing if all fits.
std::optional<std::string> misfit(UcxVersion loaded, const char* loaded_text, UcxVersion built,
                                  std::span<const UcxClass> classes);

/// Looks at the loaded UCX. The first of a tree of processes to find a misfit logs it.
bool ucx_fits();

}  // namespace tern

/// For commands that look at this library before others load it: the misfit, or null.
extern "C" __attribute__((visibility("default"))) const char* tern_misfit();
