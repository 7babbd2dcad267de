// SPDX-License-Identifier: BSD-3-Clause

// Fences. Work requests in a send queue take effect in the order of posting, but for messages in a
// block, which go cold while a put before the fence is under way (PeerBlocks::fence). A fence of
// the device (OneSided::fence) orders later ones after reads and atomics. Most fences therefore end
// at once. Later sends can overtake transfers that are not posted completely or wait for the peer
// (long puts and gets); on some devices later puts can overtake puts (PeerBlocks::puts_overtake);
// direct messages use another queue pair. Then, or if the send queue has no
// room, the fence waits in the endpoint's queue of pending requests, and later sends wait behind
// it.
//
//   state of the endpoint        fence                          later sends
//   nothing can be overtaken     ends at once                   go
//   something can be overtaken   is queued, alone               are refused, and queued behind it
//   requests are pending         is queued behind them          the same
//   a fence is queued last       needs no second one            the same
//
// All operations before a fence have begun when the fence comes to the head of the queue. There it
// waits until later sends can overtake none of them.
//
// Kept messages are queued in the same way: those by which UCP sets up endpoints, if they would be
// refused. UCP would queue them itself, and abort the program if it then closes the endpoint by
// force, because it cannot take them back.

#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "common/assert.h"
#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/uct/compat.h"
#include "tern/uct/matching.h"
#include "tern/uct/send.h"

namespace tern {

struct Fence {
    bool at_head = false;  // these are set
    uint64_t channel = 0;
    uint64_t transfers = 0;
    uint64_t direct = 0;
    bool posted = false;  // everything before it; these are set
    uint32_t sends = 0;
    bool puts = false;  // some of them may be overtaken by later ones
};
struct KeptMessage {
    std::unique_ptr<std::byte[]> bytes;
    size_t length = 0;
};

// What Tern itself has put into an endpoint's queue of pending requests.
struct OwnRequest {
    ucs_arbiter_elem_t element;
    OwnRequest* next = nullptr;
    std::variant<Fence, KeptMessage> what;

    bool is_fence() const { return std::holds_alternative<Fence>(what); }
};

namespace {

// A send on this channel now could overtake an earlier one, and the device cannot prevent it.
[[gnu::always_inline]] inline bool may_overtake(const TernIface& iface, const Channel& channel) {
    const Rendezvous& rendezvous = *iface.rendezvous;
    // Most often there is no transfer, and idle() is inline.
    if (!rendezvous.idle() && rendezvous.may_be_overtaken(channel, rendezvous.begun())) return true;
    if (iface.in_order) [[likely]]
        return false;
    const Matching& matching = *iface.matching;
    return !matching.arrived(channel, matching.sent(channel)) ||
           (matching.may_overtake(channel) && !channel.sends.idle());
}

// Has the device order later work requests after reads and atomics. False: there is no room.
bool fence_queue(const TernIface& iface, Channel& channel) {
    PeerBlocks::fence(channel);
    return channel.replies == 0 || iface.engine->one_sided()->fence(channel);
}

// Whether all operations before this fence, at the head of the queue, are over, or cannot be
// overtaken.
bool is_over(TernEp& ep, Fence& fence) {
    const TernIface& iface = iface_of(&ep.super.super);
    if (ep.failed != UCS_OK || ep.channel == nullptr) return true;
    Channel& channel = *ep.channel;
    if (!fence.at_head) {
        fence.at_head = true;
        fence.channel = channel.tag;
        fence.transfers = iface.rendezvous->begun();
        fence.direct = iface.matching->sent(channel);
    }
    // The connection is another one, or has failed: all operations of the old one are over.
    if (fence.channel != channel.tag || channel.failed) return true;
    if (iface.rendezvous->may_be_overtaken(channel, fence.transfers)) return false;
    if (!fence.posted) {
        fence.posted = true;
        fence.sends = channel.sends.next();
        fence.puts = PeerBlocks::puts_overtake(channel);
    }
    if (!iface.matching->arrived(channel, fence.direct)) return false;
    if (!fence.puts && !iface.matching->may_overtake(channel)) return fence_queue(iface, channel);
    // The last work request may be unsignalled: a flush gets a completion for it.
    return channel.sends.done(fence.sends) ||
           iface.engine->flushing()->flush(channel, {}) == Status::kOk;
}

// Whether the message, at the head of the queue, is sent, or has nobody to go to.
bool is_over(TernEp& ep, const KeptMessage& kept) {
    if (ep.failed != UCS_OK) return true;
    if (!attach(ep)) {
        // UCX's arbiter is at work: its user is told behind it.
        ep.untold = true;
        return true;
    }
    uint32_t length = 0;
    return iface_of(&ep.super.super)
               .engine->am_bcopy(
                   *ep.channel, compat::kUcpWireup,
                   [&kept](void* to) {
                       memcpy(to, kept.bytes.get(), kept.length);
                       return static_cast<uint32_t>(kept.length);
                   },
                   length) != Status::kNoResource;
}

// Behind all that is queued.
void queue(TernEp& ep, OwnRequest* own) {
    (ep.last_own != nullptr ? ep.last_own->next : ep.own) = own;
    ep.last_own = own;
    ep.fence_is_last = own->is_fence();
    ep.ready = nullptr;
    ucs_arbiter_elem_init(&own->element);
    ucs_arbiter_group_push_elem_always(&ep.pending, &own->element);
    ucs_arbiter_group_schedule(&iface_of(&ep.super.super).arbiter, &ep.pending);
}

void remove_first(TernEp& ep) {
    OwnRequest* own = ep.own;
    TERN_ASSERT(own != nullptr && (own->next == nullptr) == (own == ep.last_own));
    ep.own = own->next;
    if (ep.own == nullptr) ep.last_own = nullptr;
    delete own;
}

}  // namespace

ucs_status_t ep_fence(uct_ep_h uct_ep, unsigned) try {
    TernEp& ep = ep_of(uct_ep);
    TernIface& iface = iface_of(uct_ep);
    if (ep.failed != UCS_OK) return UCS_OK;
    // While a pending request has its turn, nothing before it waits.
    const bool waiting = ep.ready == nullptr && !ucs_arbiter_group_is_empty(&ep.pending);
    if (!waiting) {
        Channel* channel = ep.channel;
        if (channel == nullptr || channel->failed) return UCS_OK;
        if (!may_overtake(iface, *channel) && !PeerBlocks::puts_overtake(*channel) &&
            fence_queue(iface, *channel))
            return UCS_OK;
    }
    ep.ready = nullptr;
    if (ep.fence_is_last) return UCS_OK;
    auto* fence = new (std::nothrow) OwnRequest{};
    if (fence == nullptr) return UCS_ERR_NO_MEMORY;
    TERN_TRACE("endpoint %p: a fence waits behind pending operations", static_cast<void*>(&ep));
    queue(ep, fence);
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return out_of_memory(uct_ep);
}

bool may_keep(const TernEp& ep) {
    unsigned kept = 0;
    for (const OwnRequest* each = ep.own; each != nullptr; each = each->next)
        kept += !each->is_fence();
    return kept < kMostKept;
}

ssize_t keep_message(TernEp& ep, uct_pack_callback_t pack, void* argument) {
    TernIface& iface = iface_of(&ep.super.super);
    const size_t most = iface.engine->settings().segment_size;
    std::unique_ptr<std::byte[]> packed(new (std::nothrow) std::byte[most]);
    std::unique_ptr<OwnRequest> own(new (std::nothrow) OwnRequest{});
    if (!packed || !own) return UCS_ERR_NO_RESOURCE;
    const size_t length = pack(packed.get(), argument);
    dump_message(iface, UCT_AM_TRACE_TYPE_SEND, compat::kUcpWireup, packed.get(), length,
                 "TX: AM_BCOPY, kept");
    if (std::unique_ptr<std::byte[]> fits(new (std::nothrow) std::byte[length]); fits) {
        memcpy(fits.get(), packed.get(), length);
        packed = std::move(fits);
    }
    own->what = KeptMessage{std::move(packed), length};
    TERN_DEBUG("endpoint %p: a message of %zu bytes that sets up endpoints is kept",
               static_cast<void*>(&ep), length);
    queue(ep, own.release());
    return static_cast<ssize_t>(length);
}

ucs_status_t iface_fence(uct_iface_h uct_iface, unsigned) {
    TernIface& iface = iface_of(uct_iface);
    if (iface.rendezvous->idle() && iface.atomics->under_way() == 0 &&
        iface.rma->under_way() == 0 && iface.in_order && nothing_pending(iface) &&
        iface.engine->one_sided()->fence_all())
        return UCS_OK;
    ucs_status_t status = UCS_OK;
    TernEp* ep;
    ucs_list_for_each(ep, &iface.endpoints, in_interface) {
        const ucs_status_t fenced = ep_fence(&ep->super.super, 0);
        if (fenced != UCS_OK) status = fenced;
    }
    return status;
}

bool nothing_to_fence(TernEp& ep, const Channel& channel) {
    return ucs_arbiter_group_is_empty(&ep.pending) && channel.replies == 0 &&
           !may_overtake(iface_of(&ep.super.super), channel);
}

OwnState try_own(TernEp& ep, const ucs_arbiter_elem_t* element) {
    if (ep.own == nullptr || element != &ep.own->element) return OwnState::kNone;
    if (!std::visit([&ep](auto& what) { return is_over(ep, what); }, ep.own->what))
        return OwnState::kWaits;
    if (ep.own == ep.last_own) ep.fence_is_last = false;
    TERN_TRACE("endpoint %p: the %s", static_cast<void*>(&ep),
               ep.own->is_fence() ? "fence has passed" : "kept message is sent");
    remove_first(ep);
    return OwnState::kOver;
}

bool is_own(const TernEp& ep, const ucs_arbiter_elem_t* element) {
    for (const OwnRequest* own = ep.own; own != nullptr; own = own->next)
        if (element == &own->element) return true;
    return false;
}

bool only_own_wait(TernEp& ep) {
    struct Count {
        TernEp& ep;
        bool others;
    } count{ep, false};
    ucs_arbiter_group_purge(
        &iface_of(&ep.super.super).arbiter, &ep.pending,
        [](ucs_arbiter_t*, ucs_arbiter_group_t*, ucs_arbiter_elem_t* element, void* what) {
            auto& each = *static_cast<Count*>(what);
            each.others |= !is_own(each.ep, element);
            return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
        },
        &count);
    return !count.others;
}

void only_own_stay(TernEp& ep) {
    ep.fence_is_last = ep.last_own != nullptr && ep.last_own->is_fence();
}

void drop_own(TernEp& ep) {
    ucs_arbiter_group_purge(
        &iface_of(&ep.super.super).arbiter, &ep.pending,
        [](ucs_arbiter_t*, ucs_arbiter_group_t*, ucs_arbiter_elem_t*, void*) {
            return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
        },
        nullptr);
    while (ep.own != nullptr) remove_first(ep);
    ep.fence_is_last = false;
}

}  // namespace tern
