// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/api/uct.h>

#include "rwapi/core/messages.h"

namespace rwapi {

// The seam at which a transport offers more than UCT: a short write and its notification as one
// posted chain. A transport that has it exports tern_uct_ep_put_am_short, which is to be looked up
// in the library that an endpoint's functions come from (dladdr, then dlsym). No transport has it
// today, so that the answer is always "not done", and the caller puts, fences and sends.
//
// UCS_OK: both are posted. UCS_ERR_UNSUPPORTED: neither is, use the other way.
// UCS_ERR_NO_RESOURCE: neither is, try again later.
inline ucs_status_t put_notified_short(uct_ep_h, const void*, unsigned, uint64_t, uct_rkey_t,
                                       const Header&, const Notice&) {
    return UCS_ERR_UNSUPPORTED;
}

}  // namespace rwapi
