// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/sequencer.h"

#include "rwapi/engine/pieces.h"

namespace rwapi {
namespace {

// The stage after the data and their order.
Stage after_order(const Operation& operation) {
    return operation.is_notified() ? Stage::kNotify : Stage::kPosted;
}

}  // namespace

rwapi_id Sequencer::start(Operation& operation) {
    Peer& peer = *operation.peer;
    const rwapi_id id = operations_.id(operation);
    if (!connector_.connect(peer) || peer.failed) {
        operations_.finish(operation, RWAPI_ERR_PEER);
        return RWAPI_ERR_PEER;
    }
    peer.wait(operation);
    // Until the call returns, an error is the call's, and the user does not have the id.
    const bool has_id = operation.has_id;
    operation.has_id = false;
    operation.in_call = true;
    if (peer.waiting.first() != &operation || peer.state != PeerState::kReady ||
        advance(operation) == Step::kBlocked)
        peers_.add_work(peer);
    operation.in_call = false;
    const int result = operations_.test(id);
    if (result != 0) return result == 1 ? 0 : result;
    operation.has_id = has_id;
    return id;
}

bool Sequencer::post_waiting(Peer& peer) {
    while (peer.state == PeerState::kReady && !peer.failed) {
        Operation* const operation = peer.waiting.first();
        if (operation == nullptr) return false;
        if (advance(*operation) == Step::kBlocked) return true;
    }
    return !peer.failed && !peer.waiting.empty();
}

// Posts as much as possible of the first operation that waits. kOver: it does not wait any more.
Sequencer::Step Sequencer::advance(Operation& operation) {
    TERN_ASSERT(operation.peer->waiting.first() == &operation);
    if (operation.status != RWAPI_OK) return fail(operation, UCS_OK);
    if (operation.target.region == nullptr && operation.target.name != 0) {
        const Step step = resolve(operation);
        if (operation.target.region == nullptr) return step;
    }
    while (operation.stage != Stage::kPosted) {
        const ucs_status_t status = post_stage(operation);
        if (status == UCS_ERR_NO_RESOURCE || status == UCS_INPROGRESS) return Step::kBlocked;
        if (status < 0) return fail(operation, status);
    }
    return leave(operation);
}

// Posts the next stage. UCS_OK: operation.stage is the following one. UCS_INPROGRESS: it waits for
// the flush.
ucs_status_t Sequencer::post_stage(Operation& operation) {
    switch (operation.stage) {
        case Stage::kData:
            return post_data_stage(operation);
        case Stage::kOrder:
            return post_order_stage(operation);
        case Stage::kFlush:
            return UCS_INPROGRESS;
        case Stage::kNotify: {
            const ucs_status_t status = operation.task == Task::kSmall
                                            ? small_.post(*operation.peer, operation.small)
                                            : posting_.post_notification(operation);
            if (status == UCS_OK) operation.stage = Stage::kPosted;
            return status;
        }
        case Stage::kPosted:
            break;
    }
    TERN_ASSERT(false);
    return UCS_OK;
}

ucs_status_t Sequencer::post_data_stage(Operation& operation) {
    const bool notified = operation.kind != NotificationKind::kNone;
    if (notified && operation.target.region != nullptr) {
        ucs_status_t status = posting_.post_together(operation);
        if (status == UCS_INPROGRESS) status = UCS_OK;
        if (status == UCS_OK) operation.stage = Stage::kPosted;
        if (status != UCS_ERR_UNSUPPORTED) return status;
    }
    if (operation.task == Task::kFence) return post_order_stage(operation);
    ucs_status_t status = post_data(operation);
    while (status >= 0 && next_piece(operation)) {
        const RemoteRegion* const region = operation.target.region;
        if (region != nullptr && region->stale) {
            operation.status = RWAPI_ERR_STALE;
            return UCS_ERR_CANCELED;
        }
        status = post_data(operation);
    }
    if (status < 0) return status;
    operation.stage = notified ? Stage::kOrder : Stage::kPosted;
    return UCS_OK;
}

ucs_status_t Sequencer::post_data(Operation& operation) {
    switch (operation.task) {
        case Task::kPut:
            // A put of no bytes notifies of the puts before it.
            return operation.local.length > 0 ? posting_.post_put(operation) : UCS_OK;
        case Task::kGet:
            return posting_.post_get(operation);
        case Task::kFetchAdd:
        case Task::kCompareSwap:
            return posting_.post_atomic(operation);
        case Task::kSmall:
            return small_.post(*operation.peer, operation.small);
        case Task::kFlush:
            return posting_.post_flush(operation);
        case Task::kFence:
        case Task::kFlushAll:
            break;
    }
    TERN_ASSERT(false);
    return UCS_OK;
}

ucs_status_t Sequencer::post_order_stage(Operation& operation) {
    const ucs_status_t status = posting_.post_order(operation);
    if (status == UCS_OK) operation.stage = after_order(operation);
    if (status == UCS_INPROGRESS) operation.stage = Stage::kFlush;
    return status;
}

// Finds the key of a region that is known by its name, or requests it from the peer.
Sequencer::Step Sequencer::resolve(Operation& operation) {
    return operation.pieces.first != nullptr
               ? resolve_pieces(operation)
               : resolve(operation, operation.target, operation.local.length);
}

// Resolves all pieces of a put or get, none of which is posted before.
Sequencer::Step Sequencer::resolve_pieces(Operation& operation) {
    for (Piece* each = operation.pieces.first; each != nullptr; each = each->next) {
        if (each->target.region == nullptr) {
            const Step step = resolve(operation, each->target, each->extent());
            if (each->target.region == nullptr) return step;
        } else if (each->target.region->stale) {
            operation.status = RWAPI_ERR_STALE;
            return fail(operation, UCS_OK);
        }
    }
    begin_piece(operation, *operation.pieces.first);
    return Step::kOver;
}

Sequencer::Step Sequencer::resolve(Operation& operation, Operation::Target& target,
                                   uint64_t length) {
    Peer& peer = *operation.peer;
    RemoteRegion* region;
    operation.status = RemoteRegions::find(peer, NetAddress::of_name(target.name), region);
    if (operation.status == RWAPI_OK && region == nullptr) {
        remotes_.request(peer, target.name);
        return Step::kBlocked;
    }
    Transfer what = transfer_of(operation);
    what.offset = target.offset;
    what.length = length;
    if (operation.status == RWAPI_OK)
        operation.status = check_access(region->key, operation.task, what);
    if (operation.status != RWAPI_OK) return fail(operation, UCS_OK);
    target.region = region;
    RemoteRegions::use(*region);
    return Step::kOver;
}

// Removes an operation from `waiting`: UCT has all of it, or it ends here.
Sequencer::Step Sequencer::leave(Operation& operation) {
    operation.peer->leave(operation);
    if (operation.outstanding) {
        operation.stage = Stage::kPosted;
        operation.peer->under_way.append(&operation);
    } else {
        operations_.finish(operation, operation.status);
    }
    return Step::kOver;
}

// Ends an operation that waits with its own error, or with that of this status.
Sequencer::Step Sequencer::fail(Operation& operation, ucs_status_t status) {
    if (operation.status == RWAPI_OK) operation.status = error_of(status);
    if (status != UCS_OK && operation.status == RWAPI_ERR_PEER)
        peers_.mark_failed(*operation.peer, status);
    return leave(operation);
}

}  // namespace rwapi
