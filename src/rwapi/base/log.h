// SPDX-License-Identifier: BSD-3-Clause
// The log of rwapi, on the standard error output. Each line begins with "rwapi: ".
#pragma once

namespace rwapi {

// Logs an error unless RWAPI_LOG is "off". The code that detects an error logs it once, with the
// peer, the cause and a remedy.
void log_error(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Logs a state change of a peer or a region if RWAPI_LOG is "debug". Not for the path of a message.
void log_debug(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rwapi
