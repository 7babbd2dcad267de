// SPDX-License-Identifier: BSD-3-Clause
// What stands in tables of functions where the transport has nothing to do. UCX's own
// ucs_empty_function*() would have to be cast, and tables with casts are not initialised before
// constructors run.
#pragma once

#include "uct/ucx_headers.h"

namespace tern {

/// A function with whatever parameters its place in the table has, which returns `status`.
template <ucs_status_t status, typename... Arguments>
ucs_status_t stub(Arguments...) {
    return status;
}

template <typename... Arguments>
void void_stub(Arguments...) {}

/// The answer to a question.
template <typename... Arguments>
int no(Arguments...) {
    return 0;
}

}  // namespace tern
