/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives UCP the times of Tern's cost model for protocols that UCP has just initialised. */
#ifndef TERN_UCP_TIMES_H_
#define TERN_UCP_TIMES_H_

#include "tern/ucp/versions.h"
#include "tern/uct/ucp_interface.h"

#define TIMES_MOST 8

/* The times of one interface; none if `count` is 0. */
struct times {
    struct tern_fetch_range ranges[TIMES_MOST];
    unsigned count;
};

/* To be called before the other functions. `transport` must stay valid. */
void times_use(const struct tern_transport *transport);

/* Whether requests have the layout that this library was built for; logs once if not. Checked with the first worker: no
 * worker exists when the plug-in is installed. */
int times_check_layout(ucp_worker_h worker);
/* What the first call of times_check_layout() has returned; false before. */
int times_layout_fits(void);

/* Whether the memory of both sides is the host's. The device reads and writes other memory in place, at the rate of the
 * wire, which UCP's own times are for. */
int times_is_of_host(const ucp_proto_init_params_t *params);

/* The times of a lane's interface; none if it is not Tern's. The layout must fit. */
void times_of_lane(ucp_worker_h worker, const ucp_ep_config_key_lane_t *lane, struct times *times);

/* The range of a message. */
const struct tern_fetch_range *times_range(const struct times *times, size_t length);

/* Finds the times of a protocol of which UCP has just filled in `priv`; sets `count` to 0 if UCP's are to stay. */
typedef void (*times_find_func_t)(const ucp_proto_init_params_t *params, const void *priv, struct times *times);

/* Starts the original protocol for a configuration, and replaces the times of what UCP has thereby got. If there is no
 * memory for them, the old ones stay. */
#if TERN_UCP_PROBES
void times_probe(const ucp_proto_t *original, const ucp_proto_init_params_t *params, times_find_func_t find);
#else
ucs_status_t times_init_protocol(const ucp_proto_t *original, const ucp_proto_init_params_t *params,
                                 times_find_func_t find);
#endif

#endif
