// SPDX-License-Identifier: BSD-3-Clause
#include <iterator>
#include <string_view>

#include "rwapi/include/rwapi.h"
#include "tern_config.h"

#define RWAPI_TEXT_OF(number) #number
#define RWAPI_TEXT(number) RWAPI_TEXT_OF(number)

// The header is installed as it is, so configure cannot put the numbers into it.
static_assert(
    std::string_view(PACKAGE_VERSION)
        .starts_with(RWAPI_TEXT(RWAPI_VERSION_MAJOR) "." RWAPI_TEXT(RWAPI_VERSION_MINOR) "."));

// By the number of the error, without its sign.
constexpr const char* kTexts[] = {
    "success",
    "invalid argument: see the call's comment in rwapi.h",
    "not initialised: call it between rwapi_init and rwapi_finalize",
    "out of bounds: compare with the memory's length or the slots",
    "deregistered or freed already: get a new handle, key or address",
    "made by another context or job, or damaged",
    "no such node, or the memory belongs to another node",
    "the memory was not registered with the right to do this",
    "a queue is full: make progress and call again",
    "the time limit has passed",
    "the peer is dead, or its connection has failed",
    "out of memory: also check the limit of locked memory (ulimit -l)",
    "UCX or the device has failed: set UCX_LOG_LEVEL=info for details",
    "the launcher has failed, or is none with PMIx or PMI-1",
    "the transport cannot do this",
    "events are waiting, or the memory is in use: make progress",
};
static_assert(std::size(kTexts) == 1 - RWAPI_ERR_BUSY);

extern "C" const char* rwapi_strerror(int error) {
    if (error > 0) return "not an error";
    return error >= RWAPI_ERR_BUSY ? kTexts[-error] : "unknown error";
}
