// SPDX-License-Identifier: BSD-3-Clause
// Functions for entries of UCX's tables that the transport does not implement. UCX's own
// ucs_empty_function*() would have to be cast, and a table with casts is not initialised at compile
// time, before constructors run.
#pragma once

#include "tern/uct/ucx_headers.h"

namespace tern {

// Takes any parameters and returns `status`.
template <ucs_status_t status, typename... Arguments>
ucs_status_t stub(Arguments...) {
    return status;
}

template <typename... Arguments>
void void_stub(Arguments...) {}

// Takes any parameters and answers no.
template <typename... Arguments>
int no(Arguments...) {
    return 0;
}

}  // namespace tern
