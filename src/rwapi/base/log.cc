// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/base/log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rwapi {
namespace {

bool level_is(const char* name) {
    const char* level = std::getenv("RWAPI_LOG");
    return level != nullptr && std::strcmp(level, name) == 0;
}

// Writes the line at once, so that the lines of several processes do not mix.
void print(const char* format, va_list arguments) {
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    std::fprintf(stderr, "rwapi: %s\n", line);
}

}  // namespace

void log_error(const char* format, ...) {
    if (level_is("off")) return;
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

void log_debug(const char* format, ...) {
    if (!level_is("debug")) return;
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

}  // namespace rwapi
