// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rwapi {

// Prints "rwapi: ..." and a newline to the standard error output, unless RWAPI_LOG is "off". Who
// detects an error logs it, once, with the peer, the cause and a remedy.
void log_error(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rwapi
