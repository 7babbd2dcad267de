// SPDX-License-Identifier: BSD-3-Clause
#include "tern/base/trace.h"

#include <cstdarg>
#include <cstdio>

namespace tern::base {

void trace(TraceLevel level, const char* file, int line, const char* function, const char* format,
           ...) {
    char text[512];  // a longer line is cut
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (g_trace.sink != nullptr) g_trace.sink(level, file, line, function, text);
}

}  // namespace tern::base
