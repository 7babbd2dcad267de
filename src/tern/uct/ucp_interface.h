/* SPDX-License-Identifier: BSD-3-Clause */
/* What the plug-in for UCP gets from the transport, and what the transport calls of the plug-in.
 * C99, because UCP's private headers are C. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uct/api/uct.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_EXPORT __attribute__((visibility("default")))

/* Bytes of the longest reply. */
#define TERN_REPLY_MOST 32

/* Endpoints and interfaces must be Tern's. As for UCT, one thread at a time uses an interface. */

/* Offers an active message of at most TERN_REPLY_MOST bytes to the peer, for the next get on this
 * endpoint, which must be for `length` bytes, have this completion (if not null) and be issued
 * before this thread does anything else with the interface. If the get takes it, the peer's handler
 * for `id` is called with a copy of the message when all bytes are here, and is not called if the
 * get fails. No get takes it if the setting PROTO is off. */
TERN_EXPORT void tern_offer_reply(uct_ep_h ep, uint8_t id, const void* reply, unsigned reply_length,
                                  size_t length, const uct_completion_t* completion);

/* Withdraws an offer that has not been used. Nonzero: the get begun since has taken it. */
TERN_EXPORT int tern_reply_taken(uct_iface_h iface);

/* The time to fetch messages of up to `upto` bytes, and more than in the range before: latency +
 * fixed + length * per_byte, in seconds. Other messages can be on their way during the latency. */
struct tern_fetch_range {
    size_t upto;
    double latency;
    double fixed;
    double per_byte;
    const char* scheme; /* in the words of UCX's tables; static */
};

/* What the plug-in gets, so that it need not be linked with the transport. */
struct tern_transport {
    /* By this function, interfaces of the transport are known. */
    uct_ep_get_zcopy_func_t get_zcopy;
    /* The times of this interface in ascending ranges, the last of which is unlimited, if a
     * processor copies `copy_bandwidth` bytes per second, as UCP assumes for its own protocols.
     * Returns their number, at most `most`; 0: the setting PROTO leaves the choice to UCX. */
    unsigned (*fetch_ranges)(uct_iface_h iface, double copy_bandwidth,
                             struct tern_fetch_range* ranges, unsigned most);
    void (*offer_reply)(uct_ep_h ep, uint8_t id, const void* reply, unsigned reply_length,
                        size_t length, const uct_completion_t* completion);
    int (*reply_taken)(uct_iface_h iface);
};

/* Exported by the plug-in as tern_ucp_install: substitutes Tern's protocols for those of UCP in
 * this process. To be called once, before the first context is created. `transport` must stay
 * valid. Returns null, or why UCP stays as it is, in a text that stays valid. */
typedef const char* (*tern_ucp_install_func_t)(const struct tern_transport* transport);

#ifdef __cplusplus
}
#endif
