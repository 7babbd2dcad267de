// SPDX-License-Identifier: BSD-3-Clause
// Checks that the UCX loaded into a process is the one that this library was built for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace tern {

// A UCX version. Each release may change private structures.
struct UcxVersion {
    unsigned major;
    unsigned minor;
    unsigned release;

    bool operator==(const UcxVersion&) const = default;
};

// A structure of UCX that this library extends or reads.
struct UcxClass {
    const char* name;
    size_t loaded;  // size in the libuct of this process
    size_t built;   // size in the libuct that this library was built for
};

// Returns a line that says what does not fit and what to do; nothing if everything fits.
std::optional<std::string> misfit(UcxVersion loaded, const char* loaded_text, UcxVersion built,
                                  std::span<const UcxClass> classes);

// Returns whether the loaded UCX fits. Logs a misfit, but only once in a tree of processes.
bool ucx_fits();

}  // namespace tern

// For commands that check this library before other programs load it. Returns the misfit, or null.
extern "C" __attribute__((visibility("default"))) const char* tern_misfit();
