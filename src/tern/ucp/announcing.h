/* SPDX-License-Identifier: BSD-3-Clause */
/* tag/rndv and am/rndv: the sender announces a message, and the receiver uses rndv/tern or another protocol.
 * Up to UCX 1.16, they show the ranges of rndv/tern in UCX's tables; later releases do that themselves. From 1.16 on,
 * UCP has a fixed threshold for sends with fast completion, in whose place the costs decide here, as for other sends.
 * Everything else is UCP's. */
#ifndef TERN_UCP_ANNOUNCING_H_
#define TERN_UCP_ANNOUNCING_H_

#include "tern/ucp/versions.h"

/* Makes a protocol from UCP's. Both must stay valid. To be called once for each, after times_use(). */
const ucp_proto_t *announcing_tag_make(const ucp_proto_t *tag_rndv);
const ucp_proto_t *announcing_am_make(const ucp_proto_t *am_rndv);

#endif
