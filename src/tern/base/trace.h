// SPDX-License-Identifier: BSD-3-Clause
// Lines for the log from the layers below uct, which do not include UCX's headers. The component
// connects them to UCX's log when it is registered (uct/component.cc); without it, as in unit
// tests, nothing is printed. Levels are those of UCX_LOG_LEVEL.
//
//   TERN_DEBUG("connection to %s is up", name)   debug: what happens once per peer or tuple
//   TERN_TRACE("block of %u bytes granted", n)   trace: what happens again and again
//   TERN_TRACE_DATA(...)                         trace_data: frames; only where a test of
//                                                trace_on(kData) costs no message anything
//
// Errors, warnings and information go through the owners' interfaces (EngineOwner and others),
// because they need the names of the device and the endpoint.
#pragma once

#include <cstdint>

namespace tern::base {

enum class TraceLevel : uint8_t { kNone, kDebug, kTrace, kData };

// Writes one line. `text` has no line feed.
using TraceSink = void (*)(TraceLevel level, const char* file, int line, const char* function,
                           const char* text);

// Set once, at the component's registration, before there are other threads. Read-only afterwards.
struct TraceState {
    TraceLevel most = TraceLevel::kNone;
    TraceSink sink = nullptr;
};
inline TraceState g_trace;

inline bool trace_on(TraceLevel level) {
    return g_trace.most >= level;
}

[[gnu::cold, gnu::noinline, gnu::format(printf, 5, 6)]] void trace(TraceLevel level,
                                                                   const char* file, int line,
                                                                   const char* function,
                                                                   const char* format, ...);

}  // namespace tern::base

#define TERN_TRACE_AT(level, ...)                                                \
    (::tern::base::trace_on(level)                                               \
         ? ::tern::base::trace(level, __FILE__, __LINE__, __func__, __VA_ARGS__) \
         : void(0))
#define TERN_DEBUG(...) TERN_TRACE_AT(::tern::base::TraceLevel::kDebug, __VA_ARGS__)
#define TERN_TRACE(...) TERN_TRACE_AT(::tern::base::TraceLevel::kTrace, __VA_ARGS__)
#define TERN_TRACE_DATA(...) TERN_TRACE_AT(::tern::base::TraceLevel::kData, __VA_ARGS__)
