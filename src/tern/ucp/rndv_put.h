/* SPDX-License-Identifier: BSD-3-Clause */
/* rndv/put/zcopy: the sender writes to memory whose key the receiver has sent. Tern asks the owner of such memory
 * before it writes, and then uses the same schemes as for a fetch, so the time is that of a fetch and of the further
 * messages. Everything else is UCP's. */
#ifndef TERN_UCP_RNDV_PUT_H_
#define TERN_UCP_RNDV_PUT_H_

#include "tern/ucp/versions.h"

/* Makes the protocol from UCP's. Both must stay valid. To be called once, after times_use(). */
const ucp_proto_t *rndv_put_make(const ucp_proto_t *put_zcopy);

#endif
