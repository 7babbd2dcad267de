// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/operations.h"

#include <utility>

namespace rwapi {

int error_of(ucs_status_t status) {
    switch (status) {
        case UCS_OK:
            return RWAPI_OK;
        case UCS_ERR_NO_MEMORY:
            return RWAPI_ERR_MEMORY;
        case UCS_ERR_UNSUPPORTED:
            return RWAPI_ERR_UNSUPPORTED;
        case UCS_ERR_INVALID_PARAM:
            return RWAPI_ERR_TRANSPORT;
        default:
            return RWAPI_ERR_PEER;
    }
}

Operation* Operations::allocate(Task task, Peer& peer, bool has_id) {
    int lost = RWAPI_OK;
    Operation* const operation = pool_.allocate(&lost);
    if (operation == nullptr) return nullptr;
    if (lost != RWAPI_OK) [[unlikely]]
        operation->peer->keep_error(lost);
    *operation = {};
    operation->completion.func = on_completion;
    operation->owner = this;
    operation->peer = &peer;
    operation->task = task;
    operation->has_id = has_id;
    return operation;
}

void Operations::on_completion(uct_completion_t* completion) {
    Operation& operation = *reinterpret_cast<Operation*>(completion);
    operation.owner->complete(operation, completion->status);
}

// UCT has completed all that was posted with the operation's completion.
void Operations::complete(Operation& operation, ucs_status_t status) {
    TERN_ASSERT(operation.outstanding);
    operation.outstanding = false;
    if (status != UCS_OK) [[unlikely]] {
        const int error = error_of(status);
        if (operation.status == RWAPI_OK) operation.status = error;
        // UCT reports the error of the endpoint later.
        if (error == RWAPI_ERR_PEER) peers_.mark_failed(*operation.peer, status);
    } else {
        operation.peer->heard = true;
    }
    if (operation.abandoned) {
        pool_.finish(&operation, operation.status, operation.has_id);
    } else if (operation.stage == Stage::kFlush) {
        operation.stage = operation.is_notified() ? Stage::kNotify : Stage::kPosted;
    } else if (operation.stage == Stage::kPosted) {
        operation.peer->under_way.remove(&operation);
        finish(operation, operation.status);
    }
}

void Operations::finish(Operation& operation, int result) {
    TERN_ASSERT(operation.next == nullptr && operation.previous == nullptr);
    if (operation.task == Task::kFlush) {
        if (const int earlier = operation.peer->take_error()) result = earlier;
    }
    // The call, the user by the id, or the whole flush will learn of the result.
    const bool known = operation.in_call || operation.has_id || operation.whole.parent != nullptr;
    if (result != RWAPI_OK && !known) operation.peer->keep_error(result);
    if (Piece* const pieces = std::exchange(operation.pieces.first, nullptr)) [[unlikely]] {
        release(pieces);
        operation.local = {};
        operation.target = {};
    } else {
        release(operation.local, operation.target);
    }
    if (Operation* const whole = std::exchange(operation.whole.parent, nullptr)) {
        if (result != RWAPI_OK) tell(*whole, *operation.peer, result);
        finish_part(*whole);
    }
    if (operation.abandoned || operation.outstanding) {
        // UCT may still call the completion, so the place stays in use.
        operation.abandoned = true;
        pool_.set_result(&operation, result == RWAPI_OK ? 1 : result);
    } else if (result == RWAPI_OK && !operation.has_id) {
        pool_.finish_unnamed(&operation);
    } else {
        pool_.finish(&operation, result, operation.has_id);
    }
}

void Operations::release(Operation::Local& local, Operation::Target& target) {
    if (local.temporary != nullptr) uct_md_mem_dereg(transport_.domain(), local.temporary);
    local.temporary = nullptr;
    if (OwnRegion* const region = std::exchange(local.region, nullptr)) Regions::release(*region);
    if (RemoteRegion* const region = std::exchange(target.region, nullptr))
        remotes_.release(*region);
}

void Operations::release(Piece* first) {
    while (first != nullptr) {
        Piece* const next = first->next;
        release(first->local, first->target);
        pieces_.give_back(first);
        first = next;
    }
}

int Operations::lost_error() const {
    int lost = RWAPI_OK;
    pool_.for_each_unread([&](const Operation& operation, int error) {
        if (!operation.peer->failed && lost == RWAPI_OK) lost = error;
    });
    return lost;
}

void Operations::tell(Operation& whole, Peer& peer, int error) {
    if (whole.status != RWAPI_OK) return peer.keep_error(error);
    whole.status = error;
    whole.peer = &peer;
}

void Operations::finish_part(Operation& whole) {
    TERN_ASSERT(whole.task == Task::kFlushAll && whole.whole.parts > 0);
    if (--whole.whole.parts != 0) return;
    if (whole.status != RWAPI_OK && !whole.in_call && !whole.has_id)
        whole.peer->keep_error(whole.status);
    pool_.finish(&whole, whole.status, whole.has_id);
}

void Operations::finish_all(Peer& peer) {
    TERN_ASSERT(peer.failed && !peer.connection.endpoint);
    while (Operation* const operation = peer.under_way.first()) {
        peer.under_way.remove(operation);
        finish(*operation, operation->status != RWAPI_OK ? operation->status : RWAPI_ERR_PEER);
    }
    while (Operation* const operation = peer.waiting.first()) {
        peer.leave(*operation);
        finish(*operation, RWAPI_ERR_PEER);
    }
}

}  // namespace rwapi
