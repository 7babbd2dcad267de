// SPDX-License-Identifier: BSD-3-Clause

// The control path of endpoints: creation, pending requests, flush, failure of the peer.

#include <algorithm>
#include <utility>

#include "common/assert.h"
#include "tern/base/shortage.h"
#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/connection/address.h"
#include "tern/uct/iface_state.h"
#include "tern/verbs/port.h"

namespace tern {

// The endpoint's pending requests are in the arbiter now, or there are none.
static void end_wait(TernEp& ep) {
    if (!std::exchange(ep.waits, false)) return;
    TERN_ASSERT(iface_of(&ep.super.super).waiting != 0);
    --iface_of(&ep.super.super).waiting;
}

}  // namespace tern

UCS_CLASS_INIT_FUNC(TernEp, const uct_ep_params_t* params) {
    UCT_EP_PARAMS_CHECK_DEV_IFACE_ADDRS(params);
    TernIface& iface = tern::iface_of(params->iface);
    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, &iface.super)
    const auto* device = reinterpret_cast<const std::byte*>(params->dev_addr);
    const auto port = tern::read_device_address(device);
    if (!port) {
        ucs_error("tern: the peer's device address is malformed: its first byte is 0x%02x",
                  static_cast<unsigned>(*device));
        return UCS_ERR_INVALID_ADDR;
    }
    const unsigned path = UCT_EP_PARAMS_GET_PATH_INDEX(params);
    if (path >= tern::verbs::kMostPaths) {
        ucs_error("tern: the path index is %u and must be below %u", path, tern::verbs::kMostPaths);
        return UCS_ERR_INVALID_PARAM;
    }
    self->peer = {
        *port,
        tern::InterfaceAddress::unpack(reinterpret_cast<const std::byte*>(params->iface_addr)),
        static_cast<uint8_t>(path)};
    self->ready = nullptr;
    self->channel = nullptr;
    self->failed = UCS_OK;
    ucs_arbiter_group_init(&self->pending);
    self->waits = false;
    self->own = nullptr;
    self->last_own = nullptr;
    self->fence_is_last = false;
    self->untold = false;
    ucs_list_add_tail(&iface.endpoints, &self->in_interface);
    ++iface.endpoint_count;
    TERN_DEBUG("endpoint %p to %s is made", static_cast<void*>(self),
               self->peer.to_string().c_str());
    return UCS_OK;
}

// Ends the operations of an endpoint that is destroyed, and calls their completions. If other
// endpoints share the channel, only the endpoint's flushes end now: operations that use memory
// continue until they are complete or the last endpoint leaves.
static void leave_channel(TernEp& ep) {
    TernIface& iface = tern::iface_of(&ep.super.super);
    tern::Channel* channel = ep.channel;
    if (channel == nullptr) return iface.engine->leave(channel, &ep);
    const auto is_users = [](void* cookie) { return !tern::Rendezvous::is_cookie(cookie); };
    const bool alone = channel->users.size() == 1;
    if (alone && (channel->any_cookie(is_users) || iface.rendezvous->busy(*channel)))
        iface.engine->leave_at_once(*channel, &ep);
    else
        iface.engine->leave(channel, &ep);
    iface.matching->cancel_flushes(*channel, &ep);
    iface.rendezvous->cancel_flushes(*channel, &ep);
    iface.engine->flushing()->cancel(*channel, &ep);
}

static UCS_CLASS_CLEANUP_FUNC(TernEp) {
    TernIface& iface = tern::iface_of(&self->super.super);
    TERN_DEBUG("endpoint %p to %s is destroyed", static_cast<void*>(self),
               self->peer.to_string().c_str());
    tern::ep_pending_purge(
        &self->super.super, [](uct_pending_req_t*, void*) {}, nullptr);
    tern::drop_own(*self);
    tern::end_wait(*self);
    ucs_arbiter_group_cleanup(&self->pending);
    ucs_list_del(&self->in_interface);
    --iface.endpoint_count;
    if (iface.offer.ep == &self->super.super) iface.offer = {};
    iface.matching->left(*self);
    try {
        leave_channel(*self);
    } catch (const std::bad_alloc&) {
        (void)tern::out_of_memory(&self->super.super);
        iface.engine->leave(self->channel, self);
    }
}

UCS_CLASS_DEFINE(TernEp, uct_base_ep_t);
UCS_CLASS_DEFINE_NEW_FUNC(TernEp, uct_ep_t, const uct_ep_params_t*);
UCS_CLASS_DEFINE_DELETE_FUNC(TernEp, uct_ep_t);

namespace tern {

// The device has no room: of an interface's many endpoints, the first says it.
static void tell_no_room(const TernEp& ep, const std::string& why) {
    if (std::exchange(iface_of(ep.super.super.iface).state->no_room_is_told, true)) {
        TERN_DEBUG("cannot connect to %s: %s", ep.peer.to_string().c_str(), why.c_str());
        return;
    }
    ucs_error("tern: cannot connect to %s: %s; %s", ep.peer.to_string().c_str(), why.c_str(),
              scarce::kConnection.remedy().c_str());
}

bool attach(TernEp& ep) {
    if (ep.channel != nullptr) return true;
    std::string why;
    ep.channel = iface_of(&ep.super.super).engine->attach(ep.peer, &ep, why);
    if (ep.channel != nullptr) {
        TERN_DEBUG("endpoint %p uses channel %p", static_cast<void*>(&ep),
                   static_cast<void*>(ep.channel));
        return true;
    }
    tell_no_room(ep, why);
    ep.failed = UCS_ERR_IO_ERROR;
    return false;
}

void pause(Channel& channel, bool paused) {
    TERN_DEBUG("channel %p %s", static_cast<void*>(&channel), paused ? "pauses" : "goes on");
    pause_of(channel) = {.since = 0, .sends = 0, .asked = paused};
    // Each send looks again.
    for (void* user : channel.users) static_cast<TernEp*>(user)->ready = nullptr;
}

static bool is_paused(TernEp& ep) {
    Channel* const channel = ep.channel;
    if (channel == nullptr) return false;
    ChannelPause& pause = pause_of(*channel);
    if (!pause.asked) return false;
    // Nothing else may report that the peer is dead.
    if (++pause.sends % kStallCheck == 0)
        iface_of(&ep.super.super).engine->flushing()->check_silent(*channel, pause.since);
    return true;
}

Channel* find_channel(TernEp& ep, ucs_status_t& status) try {
    TERN_ASSERT(ep.ready == nullptr);
    if (ep.failed != UCS_OK) {
        status = ep.failed;
        return nullptr;
    }
    status = UCS_ERR_NO_RESOURCE;
    if (!ucs_arbiter_group_is_empty(&ep.pending)) return nullptr;
    if (!attach(ep)) {
        status = ep.failed;
        return nullptr;
    }
    if (!is_paused(ep)) ep.ready = ep.channel;
    return ep.ready;
} catch (const std::bad_alloc&) {
    status = out_of_memory(&ep.super.super);
    return nullptr;
}

void pending_changed(TernEp& ep) {
    const bool goes = ep.failed == UCS_OK && ucs_arbiter_group_is_empty(&ep.pending);
    ep.ready = goes && !is_paused(ep) ? ep.channel : nullptr;
}

void pending_may_go(TernEp& ep) {
    if (!ep.waits) return;
    end_wait(ep);
    ucs_arbiter_group_schedule(&iface_of(&ep.super.super).arbiter, &ep.pending);
}

ucs_status_t ep_pending_add(uct_ep_h uct_ep, uct_pending_req_t* request, unsigned) {
    TernEp& ep = ep_of(uct_ep);
    TernIface& iface = iface_of(uct_ep);
    // Sends on a failed endpoint return its error. Otherwise, the caller tries again at once after
    // UCS_ERR_BUSY: whatever may have refused its operation must have room.
    if (ep.failed != UCS_OK) return UCS_ERR_BUSY;
    if (ucs_arbiter_group_is_empty(&ep.pending) && !is_paused(ep) &&
        (ep.channel == nullptr || iface.engine->has_room(*ep.channel)) &&
        iface.rendezvous->has_room() && iface.atomics->has_room())
        return UCS_ERR_BUSY;
    if (ep.channel != nullptr) ep.channel->refused_places = 1;
    uct_pending_req_arb_group_push(&ep.pending, request);
    ep.fence_is_last = false;
    ucs_arbiter_group_schedule(&iface.arbiter, &ep.pending);
    pending_changed(ep);
    TERN_TRACE("endpoint %p: request %p is pending", static_cast<void*>(&ep),
               static_cast<void*>(request));
    return UCS_OK;
}

// What one dispatch of an interface's pending requests has done.
struct Dispatch {
    unsigned sent = 0;
    bool untold = false;  // an endpoint has TernEp::untold
};

static ucs_arbiter_cb_result_t dispatch_to(TernEp& ep, ucs_arbiter_elem_t* element,
                                           Dispatch& dispatch) {
    if (ep.failed == UCS_OK && is_paused(ep)) return UCS_ARBITER_CB_RESULT_RESCHED_GROUP;
    const OwnState own = try_own(ep, element);
    if (own == OwnState::kWaits) return UCS_ARBITER_CB_RESULT_RESCHED_GROUP;
    if (own == OwnState::kOver) {
        dispatch.untold |= ep.untold;
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    }
    uct_pending_req_t* request = ucs_container_of(element, uct_pending_req_t, priv);
    TERN_ASSERT(ep.ready == nullptr);
    // The endpoint accepts sends only while the function of its pending request runs.
    if (ep.failed == UCS_OK && attach(ep)) ep.ready = ep.channel;
    const ucs_status_t status = request->func(request);
    ep.ready = nullptr;
    TERN_TRACE("endpoint %p: pending request %p: %s", static_cast<void*>(&ep),
               static_cast<void*>(request), ucs_status_string(status));
    if (!UCS_STATUS_IS_ERR(status)) ++dispatch.sent;
    if (status == UCS_OK) return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    if (status == UCS_INPROGRESS) return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
    // Requests of a failed endpoint stay until they are purged.
    if (ep.failed != UCS_OK) return UCS_ARBITER_CB_RESULT_DESCHED_GROUP;
    // Until the connection is up, or over, trying again is in vain.
    if (ep.channel == nullptr || ep.channel->up()) return UCS_ARBITER_CB_RESULT_RESCHED_GROUP;
    if (!std::exchange(ep.waits, true)) ++iface_of(&ep.super.super).waiting;
    return UCS_ARBITER_CB_RESULT_DESCHED_GROUP;
}

// UCX's arbiter calls it, and is written in C.
static ucs_arbiter_cb_result_t dispatch_one(ucs_arbiter_t*, ucs_arbiter_group_t* group,
                                            ucs_arbiter_elem_t* element, void* dispatch) {
    TernEp& ep = *ucs_container_of(group, TernEp, pending);
    try {
        return dispatch_to(ep, element, *static_cast<Dispatch*>(dispatch));
    } catch (const std::bad_alloc&) {
        (void)out_of_memory(&ep.super.super);
        return UCS_ARBITER_CB_RESULT_STOP;
    }
}

// What the user does then may destroy endpoints, this one too.
[[gnu::noinline, gnu::cold]] static void tell_untold(TernIface& iface) {
    for (bool found = true; found;) {
        found = false;
        TernEp* ep;
        ucs_list_for_each(ep, &iface.endpoints, in_interface) {
            found = std::exchange(ep->untold, false);
            if (!found) continue;
            (void)uct_iface_handle_ep_err(ep->super.super.iface, &ep->super.super, ep->failed);
            break;
        }
    }
}

unsigned dispatch_pending(TernIface& iface) {
    Dispatch dispatch;
    ucs_arbiter_dispatch(&iface.arbiter, 1, dispatch_one, &dispatch);
    if (dispatch.untold) tell_untold(iface);
    return dispatch.sent;
}

void ep_pending_purge(uct_ep_h uct_ep, uct_pending_purge_callback_t callback, void* argument) {
    TernEp& ep = ep_of(uct_ep);
    struct Purge {
        TernEp& ep;
        uct_pending_purge_callback_t callback;
        void* argument;
    } purge{ep, callback, argument};
    ucs_arbiter_group_purge(
        &iface_of(uct_ep).arbiter, &ep.pending,
        [](ucs_arbiter_t*, ucs_arbiter_group_t*, ucs_arbiter_elem_t* element, void* what) {
            const auto& each = *static_cast<Purge*>(what);
            // A fence still orders earlier sends before later ones.
            if (is_own(each.ep, element)) return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
            each.callback(ucs_container_of(element, uct_pending_req_t, priv), each.argument);
            return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
        },
        &purge);
    only_own_stay(ep);
    if (ucs_arbiter_group_is_empty(&ep.pending)) end_wait(ep);
    pending_changed(ep);
}

static Status flush(TernEp& ep, const Waiter& waiter, bool by_force = false) {
    const TernIface& iface = iface_of(&ep.super.super);
    return iface.matching->flush(*iface.rendezvous, *ep.channel, waiter, by_force);
}

// Whether all others that use the endpoint's channel have been flushed by force.
static bool others_have_ended(const TernEp& ep) {
    return std::ranges::all_of(ep.channel->users, [&ep](const void* user) {
        return user == &ep || static_cast<const TernEp*>(user)->failed != UCS_OK;
    });
}

// A failed endpoint has nothing left to cancel, and what is canceled needs no order.
[[gnu::noinline, gnu::cold]] static ucs_status_t flush_by_force(TernEp& ep,
                                                                uct_completion_t* completion) {
    if (ep.failed != UCS_OK && ep.channel == nullptr) return UCS_OK;
    if (ep.own != nullptr && ep.ready == nullptr && only_own_wait(ep)) {
        drop_own(ep);
        end_wait(ep);
        pending_changed(ep);
    }
    if (!ucs_arbiter_group_is_empty(&ep.pending) && ep.ready == nullptr) return UCS_ERR_NO_RESOURCE;
    if (ep.channel == nullptr) return UCS_OK;
    const auto is_under_way = [](Status status) {
        return status == Status::kInProgress || status == Status::kNoResource;
    };
    const bool alone = others_have_ended(ep);
    Status status = flush(ep, {completion, &ep}, !alone);
    if (!alone) {
        // The channel stays, for the others. The user takes the end of this flush for that of all
        // completions, and of what the device does with its memory. Until then, this endpoint
        // begins nothing more.
        if (status == Status::kInProgress) {
            ep.failed = UCS_ERR_CANCELED;
            ep.ready = nullptr;
        }
    } else if (is_under_way(status)) {
        iface_of(&ep.super.super).engine->cancel(*ep.channel);
        // There was no room for what would report the end. That of the channel needs none.
        if (status == Status::kNoResource) status = flush(ep, {completion, &ep});
    }
    return to_ucs(status);
}

ucs_status_t ep_flush(uct_ep_h uct_ep, unsigned flags, uct_completion_t* completion) try {
    TernEp& ep = ep_of(uct_ep);
    if ((flags & UCT_FLUSH_FLAG_CANCEL) != 0) [[unlikely]]
        return flush_by_force(ep, completion);
    if (ep.failed != UCS_OK) return ep.failed;
    if (!ucs_arbiter_group_is_empty(&ep.pending) && ep.ready == nullptr) return UCS_ERR_NO_RESOURCE;
    if (ep.channel == nullptr) return UCS_OK;
    return to_ucs(flush(ep, {completion, &ep}));
} catch (const std::bad_alloc&) {
    return out_of_memory(uct_ep);
}

ucs_status_t ep_check(uct_ep_h uct_ep, unsigned flags, uct_completion_t* completion) try {
    TernEp& ep = ep_of(uct_ep);
    UCT_CHECK_PARAM(flags == 0, "Unsupported flags: %x", flags);
    if (ep.failed != UCS_OK) return ep.failed;
    Engine& engine = *iface_of(uct_ep).engine;
    // The peer's connection serves too: its device answers even if the peer cannot.
    if (ep.channel == nullptr && engine.flushing()->is_connected(ep.peer) && !attach(ep))
        return ep.failed;
    if (completion == nullptr)
        return to_ucs(engine.flushing()->check_peer(ep.channel, ep.peer, &ep));
    // A completion also reports that the peer lives, which needs a connection.
    if (ep.channel == nullptr && !attach(ep)) return ep.failed;
    return to_ucs(engine.flushing()->check(*ep.channel, {completion, &ep}));
} catch (const std::bad_alloc&) {
    return out_of_memory(uct_ep);
}

int ep_is_connected(uct_ep_h uct_ep, const uct_device_addr_t* device,
                    const uct_iface_addr_t* address) {
    const auto port = read_device_address(reinterpret_cast<const std::byte*>(device));
    const auto* const bytes = reinterpret_cast<const std::byte*>(address);
    return port && ep_of(uct_ep).peer.has_interface_of({*port, InterfaceAddress::unpack(bytes)});
}

void ep_closed(TernEp& ep, ucs_status_t status) {
    TERN_DEBUG("endpoint %p leaves channel %p: %s", static_cast<void*>(&ep),
               static_cast<void*>(ep.channel), ucs_status_string(status));
    ep.channel = nullptr;
    ep.ready = nullptr;
    pending_may_go(ep);
    // An endpoint that was flushed by force has ended before.
    if (status == UCS_OK || ep.failed != UCS_OK) return;
    ep.failed = status;
    if (status != UCS_ERR_CANCELED)
        (void)uct_iface_handle_ep_err(ep.super.super.iface, &ep.super.super, status);
}

}  // namespace tern
