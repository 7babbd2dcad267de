/* SPDX-License-Identifier: BSD-3-Clause */
/* A put and the active message or the word that announces it, in one call: what UCT has no function
 * for. A program finds the function at run time, in the library that the functions of an endpoint
 * come from. C99. */
#pragma once

#include <uct/api/uct.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As uct_ep_put_short, uct_ep_fence and uct_ep_am_short one after the other, by one call of the
 * device: the peer's handler for `id` is called when the data are there, and when those of all
 * earlier puts are. `ep` must be Tern's. UCS_OK: both are posted. UCS_ERR_UNSUPPORTED: nothing was
 * done, and the three functions may be called instead; this is the case for a peer that is not
 * connected or allows no further messages, memory that is not open, a full send queue, and whatever
 * would make a fence wait. Other errors: as of uct_ep_put_short. Messages of 32 bytes that come
 * again with the same bytes, but for a number in the last 8 that is the same or slightly higher,
 * become one write with immediate data, unless the tunable put_repeat is 0; UCS_ERR_NO_RESOURCE
 * then means that there is room for such a write after some progress. */
__attribute__((visibility("default"))) ucs_status_t tern_uct_ep_put_am_short(
    uct_ep_h ep, const void* data, unsigned length, uint64_t to, uct_rkey_t rkey, uint8_t id,
    uint64_t header, const void* payload, unsigned payload_length);

/* tern_uct_ep_put_am_short for as many bytes as uct_ep_put_bcopy takes: they are copied. */
__attribute__((visibility("default"))) ucs_status_t tern_uct_ep_put_am_bcopy(
    uct_ep_h ep, const void* data, unsigned length, uint64_t to, uct_rkey_t rkey, uint8_t id,
    uint64_t header, const void* payload, unsigned payload_length);

/* tern_uct_ep_put_am_short for one piece of memory, as uct_ep_put_zcopy. UCS_INPROGRESS: both are
 * posted, and the completion, which must not be null, is called when the memory may be used again.
 * UCS_OK: the bytes were copied. UCS_ERR_UNSUPPORTED also if there are too many for that, and the
 * device cannot read them in place, by one request. */
__attribute__((visibility("default"))) ucs_status_t tern_uct_ep_put_am_zcopy(
    uct_ep_h ep, const uct_iov_t* from, uint64_t to, uct_rkey_t rkey, uint8_t id, uint64_t header,
    const void* payload, unsigned payload_length, uct_completion_t* completion);

/* As uct_ep_put_short, uct_ep_fence and uct_ep_put_short of a word one after the other, by one call
 * of the device. If word_to is to + length and the peer's device promises the order of bytes, it is
 * one write: the peer's processor sees the word after the data. Otherwise, and as to earlier puts,
 * it does so if the device makes one write visible after the other, which most do and none
 * promises. `length` and the word together have at most as many bytes as uct_ep_put_short takes.
 * The key is for both places. Results: as above. */
__attribute__((visibility("default"))) ucs_status_t tern_uct_ep_put_word_short(
    uct_ep_h ep, const void* data, unsigned length, uint64_t to, uct_rkey_t rkey, uint64_t word_to,
    uint64_t word);

/* tern_uct_ep_put_word_short for as many bytes as uct_ep_put_bcopy takes, which are copied. More
 * than go inline are one write only if `to` and word_to are multiples of 8. */
__attribute__((visibility("default"))) ucs_status_t tern_uct_ep_put_word_bcopy(
    uct_ep_h ep, const void* data, unsigned length, uint64_t to, uct_rkey_t rkey, uint64_t word_to,
    uint64_t word);

/* tern_uct_ep_put_word_short for one piece of memory, as tern_uct_ep_put_am_zcopy. */
__attribute__((visibility("default"))) ucs_status_t tern_uct_ep_put_word_zcopy(
    uct_ep_h ep, const uct_iov_t* from, uint64_t to, uct_rkey_t rkey, uint64_t word_to,
    uint64_t word, uct_completion_t* completion);

#ifdef __cplusplus
}
#endif
