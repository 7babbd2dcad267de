// SPDX-License-Identifier: BSD-3-Clause
#include "tools/tern_run/transport.h"

#include <dlfcn.h>

#include <cstdlib>

#include "tools/common/library.h"

namespace tern {
namespace {

constexpr tools::Library kLibrary = {"libuct_tern.so.0", "../.libs", TERN_LIBDIR,
                                     "../lib/ucx-tern"};
constexpr unsigned kFirstMinorWithPlugIns = 22;  // of UCX 1

template <typename Function>
Function* function(void* handle, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(handle, name));
}

}  // namespace

std::string find_transport(Transport* transport) {
    std::string error;
    transport->library = tools::find_library(kLibrary, &error);
    if (transport->library.empty()) return error;
    ::setenv("TERN_MISFIT_TOLD", "1", 0);  // by this program, if there is one
    // Loaded with the UCX that the dynamic linker finds for it, as the command will have it.
    void* handle = ::dlopen(transport->library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) return ::dlerror();
    const auto misfit = function<const char*()>(handle, "tern_misfit");
    const auto get_version =
        function<void(unsigned*, unsigned*, unsigned*)>(handle, "ucp_get_version");
    if (misfit == nullptr || get_version == nullptr)
        return transport->library + " is not the transport";
    if (misfit() != nullptr) return misfit();
    ::unsetenv("TERN_MISFIT_TOLD");
    unsigned major, minor, release;
    get_version(&major, &minor, &release);
    transport->plug_in = major > 1 || minor >= kFirstMinorWithPlugIns;
    return {};
}

}  // namespace tern
