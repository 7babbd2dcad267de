// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/base/log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rwapi {

void log_error(const char* format, ...) {
    const char* level = std::getenv("RWAPI_LOG");
    if (level != nullptr && std::strcmp(level, "off") == 0) return;
    // One write for the line, so that the lines of several processes do not mix.
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "rwapi: %s\n", line);
}

}  // namespace rwapi
