// SPDX-License-Identifier: BSD-3-Clause
// The options of the subcommands that look at a fabric.
#pragma once

#include <string>

namespace softhca {

struct FabricRequest {
    std::string fabric;  ///< by option, or else as SOFTHCA_FABRIC says
    bool named = false;  ///< by option
    bool json = false;
    bool help = false;
    char** arguments = nullptr;  ///< what follows the options, null-terminated
};

/// Parses --fabric, --help and, if `with_json`, --json. Returns an error text, or nothing.
std::string parse_fabric_options(int argc, char** argv, bool with_json, FabricRequest* request);

}  // namespace softhca
