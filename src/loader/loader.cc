// SPDX-License-Identifier: BSD-3-Clause
// Loads the transport that fits the UCX of the process. UCX may be there from the beginning (the
// program is linked with it), come later (an MPI library loads a component that is), or have loaded
// this library as a plug-in. When this library is loaded, it looks for UCX. As long as there is
// none, it waits for the function by which every user of UCX asks for the transports; preloaded, it
// comes before libuct, and calls reach it first. Processes without UCX get nothing but this file.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "base/explain_record.h"
#include "loader/releases.h"

// ucs_status_t uct_query_components(uct_component_h** components_p, unsigned* num_components_p).
// The status is one byte; this passes on the whole register.
extern "C" __attribute__((visibility("default"))) int uct_query_components(void* components,
                                                                           unsigned* count);

namespace tern::loader {
namespace {

using Query = int (*)(void*, unsigned*);
using GetVersion = void (*)(unsigned*, unsigned*, unsigned*);

constexpr const char* kToldVariable = "TERN_MISFIT_TOLD";  // inherited; see uct/abi_check.cc
constexpr int kNoResource = -2;                            // UCS_ERR_NO_RESOURCE

std::string folder_of(const std::string& path) {
    return path.substr(0, path.rfind('/'));
}

std::string file_of(const void* address) {
    Dl_info info{};
    return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Links are followed: UCX may find this library by one.
std::string own_folder() {
    // Of a variable that has no other name: in the eyes of a plug-in, the function is UCX's.
    static const char kHere = 0;
    char real[PATH_MAX];
    const std::string file = file_of(&kHere);
    return folder_of(::realpath(file.c_str(), real) != nullptr ? real : file);
}

// The path of a library of this process whose file name begins like that; empty: there is none.
std::string find_loaded(std::string_view name) {
    struct Search {
        std::string_view name;
        std::string path;
    };
    Search search{name, {}};
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* argument) {
            Search& wanted = *static_cast<Search*>(argument);
            const std::string_view path = info->dlpi_name;
            if (!path.substr(path.rfind('/') + 1).starts_with(wanted.name)) return 0;
            wanted.path = path;
            return 1;
        },
        &search);
    return search.path;
}

// The libucp that belongs to a libuct. A program of UCT alone may have none yet.
void* open_ucp(const std::string& libuct) {
    std::string libucp = find_loaded("libucp.so");
    if (libucp.empty()) libucp = folder_of(libuct) + "/libucp.so.0";
    void* const handle = ::dlopen(libucp.c_str(), RTLD_LAZY | RTLD_LOCAL);
    return handle != nullptr ? handle : ::dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL);
}

// Only the first process of a tree says so, as its children would only repeat it.
void tell(const std::string& reason) {
    base::ExplainRecord("misfit")
        .add("program", program_invocation_short_name)
        .add("why", reason)
        .write();
    if (std::getenv(kToldVariable) == nullptr) std::fprintf(stderr, "tern: %s\n", reason.c_str());
    ::setenv(kToldVariable, "1", 0);
}

void load(const std::string& libuct) {
    void* const ucp = open_ucp(libuct);
    const auto get_version =
        ucp != nullptr ? reinterpret_cast<GetVersion>(::dlsym(ucp, "ucp_get_version")) : nullptr;
    if (get_version == nullptr)
        return tell("transport tern is not available: there is no libucp.so.0 with " + libuct +
                    "; install it");
    unsigned major = 0;
    unsigned minor = 0;
    unsigned patch = 0;
    get_version(&major, &minor, &patch);
    const std::string release =
        std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
    const std::string folder = own_folder();
    const auto releases = releases_in(folder);
    if (std::ranges::find(releases, release) == releases.end())
        return tell(misfit(releases, release));
    // Its constructor registers the transport, or says why it does not.
    const std::string path = transport_path(folder, release);
    if (::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr)
        tell(std::string("transport tern is not available: ") + ::dlerror());
}

// UCX is looked for once; what a second UCX of the process would need is not loaded.
void load_once(const std::string& libuct) noexcept {
    static std::recursive_mutex mutex;  // recursive: loading runs constructors
    static bool loaded = false;
    const std::lock_guard lock(mutex);
    if (loaded) return;
    loaded = true;
    load(libuct);
}

// The function of UCX that a caller would have got if this library did not stand before it: in the
// libraries that all of the process sees, or in those that came with the caller.
Query find_query(const void* caller) {
    void* const next = ::dlsym(RTLD_NEXT, "uct_query_components");
    if (next != nullptr) return reinterpret_cast<Query>(next);
    void* const handle = ::dlopen(file_of(caller).c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return nullptr;
    const auto found = reinterpret_cast<Query>(::dlsym(handle, "uct_query_components"));
    ::dlclose(handle);
    return found != &uct_query_components ? found : nullptr;
}

__attribute__((constructor)) void start() noexcept {
    base::ExplainRecord("loaded").add("program", program_invocation_short_name).write();
    // The dynamic linker initialises UCX before the transport that depends on it, also now.
    if (const std::string libuct = find_loaded("libuct.so"); !libuct.empty()) load_once(libuct);
}

}  // namespace
}  // namespace tern::loader

int uct_query_components(void* components, unsigned* count) {
    const tern::loader::Query query = tern::loader::find_query(__builtin_return_address(0));
    if (query == nullptr) return tern::loader::kNoResource;
    tern::loader::load_once(tern::loader::file_of(reinterpret_cast<const void*>(query)));
    return query(components, count);
}
