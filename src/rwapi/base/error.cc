// SPDX-License-Identifier: BSD-3-Clause
#include <string_view>

#include "rwapi/include/rwapi.h"
#include "tern_config.h"

#define RWAPI_TEXT_OF(number) #number
#define RWAPI_TEXT(number) RWAPI_TEXT_OF(number)

// The header is installed as it is, so configure cannot put the numbers into it.
static_assert(
    std::string_view(PACKAGE_VERSION)
        .starts_with(RWAPI_TEXT(RWAPI_VERSION_MAJOR) "." RWAPI_TEXT(RWAPI_VERSION_MINOR) "."));

extern "C" const char* rwapi_strerror(int error) {
    switch (error) {
        case RWAPI_OK:
            return "success";
        case RWAPI_ERR_INVALID:
            return "invalid argument: see the call's comment in rwapi.h";
        case RWAPI_ERR_STATE:
            return "not initialised: call it between rwapi_init and rwapi_finalize";
        case RWAPI_ERR_RANGE:
            return "out of bounds: compare with the memory's length or the slots";
        case RWAPI_ERR_STALE:
            return "deregistered or freed already: get a new handle, key or address";
        case RWAPI_ERR_FOREIGN:
            return "made by another context or job, or damaged";
        case RWAPI_ERR_NODE:
            return "no such node, or the memory belongs to another node";
        case RWAPI_ERR_RIGHTS:
            return "the memory was not registered with the right to do this";
        case RWAPI_ERR_AGAIN:
            return "a queue is full: make progress and call again";
        case RWAPI_ERR_TIMEOUT:
            return "the time limit has passed";
        case RWAPI_ERR_PEER:
            return "the peer is dead, or its connection has failed";
        case RWAPI_ERR_MEMORY:
            return "out of memory: also check the limit of locked memory (ulimit -l)";
        case RWAPI_ERR_TRANSPORT:
            return "UCX or the device has failed: set UCX_LOG_LEVEL=info for details";
        case RWAPI_ERR_START:
            return "the start-up failed: use a launcher with PMIx or PMI-1";
        case RWAPI_ERR_UNSUPPORTED:
            return "the transport cannot do this";
        case RWAPI_ERR_BUSY:
            return "events are waiting, or the memory is in use: make progress";
        default:
            return error > 0 ? "not an error" : "unknown error";
    }
}
