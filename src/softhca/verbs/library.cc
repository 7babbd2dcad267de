// SPDX-License-Identifier: BSD-3-Clause
// Programs that load libibverbs themselves (NCCL, for example) ask the handle for its functions.
// They get a handle of all global symbols, among which this library's come first.
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

bool is_libibverbs(const char* path) {
    if (path == nullptr) return false;
    const char* const slash = std::strrchr(path, '/');
    const char* const name = slash != nullptr ? slash + 1 : path;
    return std::strcmp(name, "libibverbs.so") == 0 || std::strcmp(name, "libibverbs.so.1") == 0;
}

// The library stays, as others may use its symbols from now on.
void* open_libibverbs(const char* path, int flags) {
    if (real_dlopen()(path, flags | RTLD_GLOBAL) == nullptr) return nullptr;
    return real_dlopen()(nullptr, RTLD_NOW);
}

}  // namespace

// dlopen() by a name of its own: the C library's declaration promises to throw nothing, which clang
// takes for something to do after the jump.
SOFTHCA_EXPORT void* softhca_dlopen(const char* path, int flags) __asm__("dlopen");
SOFTHCA_JUMPS void* softhca_dlopen(const char* path, int flags) {
    if (is_libibverbs(path)) [[unlikely]]
        return open_libibverbs(path, flags);
    SOFTHCA_JUMP real_dlopen()(path, flags);
}

}  // namespace softhca
