// SPDX-License-Identifier: BSD-3-Clause
// The transport's library and the UCX that it meets here.
#pragma once

#include <string>

namespace tern {

struct Transport {
    std::string library;   ///< its path
    bool plug_in = false;  ///< this UCX loads it itself; others must have it preloaded
};

/// Finds the library and tries it out. Returns an error text, or nothing.
std::string find_transport(Transport* transport);

}  // namespace tern
