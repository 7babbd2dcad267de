/* SPDX-License-Identifier: BSD-3-Clause */
/* What Tern offers to UCP beyond UCT. C99. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uct/api/uct_def.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_EXPORT __attribute__((visibility("default")))

/* Bytes of the longest reply. */
#define TERN_REPLY_MOST 32

/* The endpoints must be Tern's. As for UCT, one thread at a time uses an interface. */

/* Offers an active message of at most TERN_REPLY_MOST bytes to the peer, for the next get on this
 * endpoint, which must be for `length` bytes and be issued before this thread does anything else
 * with the interface. If the get takes it, the peer's handler for `id` is called with a copy of the
 * message when all bytes are here, and is not called if the get fails. */
TERN_EXPORT void tern_offer_reply(uct_ep_h ep, uint8_t id, const void* reply, unsigned reply_length,
                                  size_t length);

/* Withdraws an offer that has not been used. Nonzero: the get begun since has taken it. */
TERN_EXPORT int tern_reply_taken(uct_ep_h ep);

#ifdef __cplusplus
}
#endif
