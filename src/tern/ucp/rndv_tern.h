/* SPDX-License-Identifier: BSD-3-Clause */
/* rndv/tern: the receiver fetches a message. It stands in the place of rndv/get/zcopy, and is that protocol on lanes
 * that are not Tern's. On a lane of Tern it has the times of Tern's cost model, range by range; the schemes stand in
 * UCX's tables by name; and the last frame of the fetch carries UCP's acknowledgement, if the peer understands that. */
#ifndef TERN_UCP_RNDV_TERN_H_
#define TERN_UCP_RNDV_TERN_H_

#include "tern/ucp/versions.h"
#include "tern/uct/ucp_interface.h"

/* Makes the protocol from the one that it is to stand for. Both must stay valid. To be called once. */
const ucp_proto_t *rndv_tern_make(const ucp_proto_t *get_zcopy, const struct tern_transport *transport);

/* Whether this is rndv/tern, on a lane of Tern and with its times. `priv` is what UCP keeps for the protocol. */
int rndv_tern_fetches(ucp_worker_h worker, const ucp_ep_config_key_t *config, const ucp_proto_t *protocol,
                      const void *priv);

#endif
