// SPDX-License-Identifier: BSD-3-Clause
// Invariants of Tern's own. A debug build (configure --enable-debug) checks them; any other build
// compiles no code for them. UCX's ENABLE_ASSERT decides only about the assertions in UCX's own
// headers: Debian's UCX has it on. An assertion is never about what a peer, a user or a device may
// cause: that is an error, with a status.
#pragma once

#include <cstdio>
#include <cstdlib>

#if defined(TERN_ENABLE_ASSERT) && TERN_ENABLE_ASSERT
namespace tern::base {
[[noreturn, gnu::cold, gnu::noinline]] inline void assertion_failed(const char* condition,
                                                                    const char* file, int line,
                                                                    const char* function) {
    std::fprintf(stderr, "tern: %s:%d: %s: assertion failed: %s\n", file, line, function,
                 condition);
    std::abort();
}
}  // namespace tern::base

#define TERN_ASSERT(condition)    \
    (static_cast<bool>(condition) \
         ? void(0)                \
         : ::tern::base::assertion_failed(#condition, __FILE__, __LINE__, __func__))
#else
// The condition is parsed, so that it stays valid, and never evaluated.
#define TERN_ASSERT(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#endif
