/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocols of UCP in whose place Tern puts others. What is made from one of UCP's needs it, and is made once. */
#ifndef TERN_UCP_PROTOCOLS_H_
#define TERN_UCP_PROTOCOLS_H_

#include "tern/ucp/versions.h"
#include "tern/uct/ucp_interface.h"

/* rndv/tern: the receiver fetches a message. It stands in the place of rndv/get/zcopy, and is that protocol on lanes
 * that are not Tern's. On a lane of Tern it has the times of Tern's cost model, range by range; the schemes stand in
 * UCX's tables by name; and the last frame of the fetch carries UCP's acknowledgement, if the peer understands that. */
const ucp_proto_t *rndv_tern_make(const ucp_proto_t *stock, const struct tern_transport *transport);

/* Whether this is rndv/tern, on a lane of Tern and with its times. `priv` is what UCP keeps for the protocol. */
int rndv_tern_fetches(ucp_worker_h worker, const ucp_ep_config_key_t *config, const ucp_proto_t *protocol,
                      const void *priv);

/* The others are made after it. rndv/put/zcopy: the sender writes to memory whose key the receiver has sent.
 * Tern asks the owner of such memory before it writes, and then uses the same schemes as for a fetch, so the time is
 * that of a fetch and of the further messages. Everything else is UCP's. */
const ucp_proto_t *rndv_put_make(const ucp_proto_t *stock);

/* tag/rndv and am/rndv: the sender announces a message, and the receiver uses rndv/tern or another protocol.
 * Up to UCX 1.16, they show the ranges of rndv/tern in UCX's tables; later releases do that themselves. From 1.16 on,
 * UCP has a fixed threshold for sends with fast completion, in whose place the costs decide here, as for other sends.
 * Everything else is UCP's. */
const ucp_proto_t *announcing_make(const ucp_proto_t *stock, int of_am);

#endif
