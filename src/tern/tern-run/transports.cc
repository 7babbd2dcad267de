// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tern-run/transports.h"

#include <dlfcn.h>

#include <cstdlib>

namespace tern {
namespace {

// Whether the module is there, and the GPU's own libraries with it. Nothing of the GPU is
// initialised.
bool has_module(const std::string& folder, const std::string& kind) {
    const std::string path = folder + "/libuct_" + kind + ".so.0";
    return ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

}  // namespace

std::string default_transports(unsigned major, unsigned minor, const std::string& module_folder) {
    if (major > 1 || minor >= 18) return TERN_OTHER_TLS;
    const char* const also = std::getenv("UCX_MODULE_DIR");
    std::string transports = "tern,self";
    for (const char* kind : {"cuda", "rocm", "ze"})
        if (has_module(module_folder, kind) || (also != nullptr && has_module(also, kind)))
            transports.append(",").append(kind);
    return transports;
}

}  // namespace tern
