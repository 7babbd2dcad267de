// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/ucp_interface.h"

#include <cstring>

#include "tern/uct/iface.h"

using tern::Reply;

static_assert(TERN_REPLY_MOST == Reply::kMost);

void tern_offer_reply(uct_ep_h ep, uint8_t id, const void* reply, unsigned reply_length,
                      size_t length, const uct_completion_t* completion) {
    TernIface& iface = tern::iface_of(ep);
    ReplyOffer& offer = iface.offer;
    offer.taken = false;
    offer.ep = iface.proto && id < Reply::kIds && reply_length <= Reply::kMost ? ep : nullptr;
    if (offer.ep == nullptr) return;
    offer.length = length;
    offer.completion = completion;
    offer.reply.id = id;
    offer.reply.length = static_cast<uint8_t>(reply_length);
    if (reply_length != 0) memcpy(offer.reply.bytes, reply, reply_length);
}

int tern_reply_taken(uct_iface_h iface) {
    ReplyOffer& offer = tern::iface_of(iface).offer;
    const bool taken = offer.taken;
    offer.ep = nullptr;
    offer.taken = false;
    return static_cast<int>(taken);
}
