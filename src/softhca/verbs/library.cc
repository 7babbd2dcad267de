// SPDX-License-Identifier: BSD-3-Clause
// Programs that load libibverbs or librdmacm themselves (NCCL, for example) ask the handle for
// their functions. They get a handle of all global symbols, among which this library's come first.
#include <dlfcn.h>

#include <cstring>

#include "softhca/verbs/export.h"

// For all other libraries, the C library must see the program as its caller, because it looks for
// them in the caller's RUNPATH: the function must end in a jump.
#ifdef __clang__
#define SOFTHCA_JUMPS __attribute__((no_sanitize("address", "undefined", "thread")))
#define SOFTHCA_JUMP [[clang::musttail]] return
#else
#define SOFTHCA_JUMPS __attribute__((optimize("O2"), no_sanitize("address", "undefined", "thread")))
#define SOFTHCA_JUMP return
#endif

namespace softhca {

namespace {

using Dlopen = void*(const char*, int);

Dlopen* real_dlopen() {
    static auto* const real = reinterpret_cast<Dlopen*>(dlsym(RTLD_NEXT, "dlopen"));
    return real;
}

bool is_replaced(const char* path) {
    if (path == nullptr) return false;
    const char* const slash = std::strrchr(path, '/');
    const char* const name = slash != nullptr ? slash + 1 : path;
    constexpr const char* kReplaced[] = {"libibverbs.so", "libibverbs.so.1", "librdmacm.so",
                                         "librdmacm.so.1"};
    for (const char* replaced : kReplaced)
        if (std::strcmp(name, replaced) == 0) return true;
    return false;
}

// The library stays, as others may use its symbols from now on.
void* open_replaced(const char* path, int flags) {
    if (real_dlopen()(path, flags | RTLD_GLOBAL) == nullptr) return nullptr;
    return real_dlopen()(nullptr, RTLD_NOW);
}

}  // namespace

// dlopen() by a name of its own: the C library's declaration promises to throw nothing, which clang
// takes for something to do after the jump.
SOFTHCA_EXPORT void* softhca_dlopen(const char* path, int flags) __asm__("dlopen");
SOFTHCA_JUMPS void* softhca_dlopen(const char* path, int flags) {
    if (is_replaced(path)) [[unlikely]]
        return open_replaced(path, flags);
    SOFTHCA_JUMP real_dlopen()(path, flags);
}

}  // namespace softhca
