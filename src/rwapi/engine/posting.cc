// SPDX-License-Identifier: BSD-3-Clause

// How operations are posted, in stages, and how they end.

#include <algorithm>
#include <cstring>
#include <utility>

#include "rwapi/engine/engine.h"

namespace rwapi {
namespace {

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

uct_iov_t iov_of(const Operation& operation, size_t length) {
    uct_iov_t iov{};
    iov.buffer = operation.local + operation.posted;
    iov.length = length;
    iov.memh = operation.mine != nullptr ? operation.mine->memory : operation.temporary;
    iov.count = 1;
    return iov;
}

// Calls post(), which posts something with the operation's completion. The completion is called
// when all that was posted with it is done.
template <class Post>
ucs_status_t with_completion(Operation& operation, Post post) {
    if (!operation.outstanding) {
        operation.completion.count = 0;
        operation.completion.status = UCS_OK;
    }
    ++operation.completion.count;
    const ucs_status_t status = post();
    if (status == UCS_INPROGRESS)
        operation.outstanding = true;
    else
        --operation.completion.count;
    return status;
}

// Posts what is left of a transfer, in pieces that are not longer than `most`. What is posted when
// there is no more room may be done before the rest is posted.
template <class Post>
ucs_status_t post_pieces(Operation& operation, size_t most, Post post) {
    while (operation.posted < operation.length) {
        const size_t piece = std::min(operation.length - operation.posted, most);
        const ucs_status_t status = with_completion(operation, [&] { return post(piece); });
        if (status < 0) return status;
        operation.posted += piece;
    }
    return UCS_OK;
}

}  // namespace

// Moves on an operation that is the first that waits. kOver: it does not wait any more.
Engine::Step Engine::advance(Operation& operation) {
    if (operation.status != RWAPI_OK) return fail(operation, UCS_OK);
    if (operation.remote == nullptr && operation.name != 0) {
        const Step step = resolve(operation);
        if (operation.remote == nullptr) return step;
    }
    ucs_status_t status = UCS_OK;
    if (operation.stage == Stage::kData) {
        if (operation.kind != NoticeKind::kNone) {
            status = post_notified(
                *operation.remote,
                {0, operation.offset, operation.local, operation.length, operation.kind},
                operation.notice);
            if (status != UCS_ERR_UNSUPPORTED && status < 0) return fail(operation, status);
            if (status == UCS_OK) operation.stage = Stage::kPosted;
        }
    }
    if (operation.stage == Stage::kData) {
        status = post_data(operation);
        if (status == UCS_ERR_NO_RESOURCE) return Step::kBlocked;
        if (status < 0) return fail(operation, status);
        operation.stage = operation.kind == NoticeKind::kNone ? Stage::kPosted : Stage::kOrder;
    }
    if (operation.stage == Stage::kOrder) {
        // A write of no bytes announces the writes before it.
        status = order(operation);
        if (status == UCS_INPROGRESS) operation.stage = Stage::kOrdering;
        if (status == UCS_ERR_NO_RESOURCE) return Step::kBlocked;
        if (status < 0) return fail(operation, status);
        if (status == UCS_OK)
            operation.stage = operation.kind == NoticeKind::kNone ? Stage::kPosted : Stage::kNotice;
    }
    if (operation.stage == Stage::kOrdering) return Step::kBlocked;
    if (operation.stage == Stage::kNotice) {
        status = post_notice(operation);
        if (status == UCS_ERR_NO_RESOURCE) return Step::kBlocked;
        if (status < 0) return fail(operation, status);
        operation.stage = Stage::kPosted;
    }
    operation.peer->waiting.remove(&operation);
    if (operation.outstanding)
        operation.peer->under_way.append(&operation);
    else
        finish(operation, operation.status);
    return Step::kOver;
}

// Finds the key of a region that is known by its network address, or asks the peer for it.
Engine::Step Engine::resolve(Operation& operation) {
    Peer& peer = *operation.peer;
    const NetAddress region = NetAddress::of_name(operation.name);
    const auto found = peer.keys.find(region.index);
    if (found != peer.keys.end() && found->second.generation == region.generation) {
        int error;
        Remote* const remote = remotes_.find(found->second.region, error);
        if (remote == nullptr) {
            operation.status = RWAPI_ERR_STALE;
            return fail(operation, UCS_OK);
        }
        operation.status = check_remote(Task::kPut, *remote,
                                        {0, operation.offset, operation.local, operation.length});
        if (operation.status != RWAPI_OK) {
            if (remote->stale) operation.status = RWAPI_ERR_STALE;
            return fail(operation, UCS_OK);
        }
        operation.remote = remote;
        ++remote->users;
        return Step::kBlocked;
    }
    if (peer.key_asked) return Step::kBlocked;
    const Header header{rank_, 0, 0, 0};
    const ucs_status_t status = uct_ep_am_short(peer.endpoint.get(), kKeyRequest, header.pack(),
                                                &operation.name, sizeof operation.name);
    if (status < 0 && status != UCS_ERR_NO_RESOURCE) return fail(operation, status);
    peer.key_asked = status == UCS_OK;
    return Step::kBlocked;
}

// Posts a put that UCT copies, with its notice, to a peer that takes it now. It needs no operation,
// because it is complete. False: nothing is posted, and it must wait or be told of an error.
bool Engine::post_short(const Remote& remote, const Transfer& what) {
    if (what.kind != NoticeKind::kNone)
        return post_notified(remote, what, notice_of(remote, what)) == UCS_OK;
    return what.length <= transport_.limits().put_short &&
           uct_ep_put_short(remote.peer->endpoint.get(), what.local,
                            static_cast<unsigned>(what.length), remote.key.address + what.offset,
                            remote.rkey.rkey) == UCS_OK;
}

ucs_status_t Engine::post_data(Operation& operation) {
    ucs_status_t status = UCS_OK;
    switch (operation.task) {
        case Task::kPut:
            return operation.length > 0 ? post_put(operation) : UCS_OK;
        case Task::kGet:
            return post_get(operation);
        case Task::kSmall:
            return post_small(*operation.peer, operation.small);
        case Task::kFlush:
            return post_flush(operation);
        case Task::kFence:
            status = order(operation);
            if (status == UCS_INPROGRESS) {
                operation.kind = NoticeKind::kNone;
                operation.stage = Stage::kOrdering;
                return UCS_ERR_NO_RESOURCE;
            }
            return status;
        case Task::kFlushAll:
            break;
    }
    return status;
}

ucs_status_t Engine::post_put(Operation& operation) {
    const Limits& limits = transport_.limits();
    uct_ep_h const ep = operation.peer->endpoint.get();
    const uint64_t address = operation.remote->key.address + operation.offset;
    const uct_rkey_t rkey = operation.remote->rkey.rkey;
    const auto length = static_cast<unsigned>(operation.length);
    if (operation.length <= limits.put_short)
        return uct_ep_put_short(ep, operation.local, length, address, rkey);
    if (operation.mine == nullptr && operation.length <= limits.put_bcopy) {
        const auto pack = [](void* to, void* from) -> size_t {
            const Operation& what = *static_cast<const Operation*>(from);
            std::memcpy(to, what.local, what.length);
            return what.length;
        };
        const ssize_t sent = uct_ep_put_bcopy(ep, pack, &operation, address, rkey);
        return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
    }
    const ucs_status_t status = register_local(operation);
    if (status != UCS_OK) return status;
    return post_pieces(operation, limits.put_zcopy, [&](size_t piece) {
        const uct_iov_t iov = iov_of(operation, piece);
        return uct_ep_put_zcopy(ep, &iov, 1, address + operation.posted, rkey,
                                &operation.completion);
    });
}

ucs_status_t Engine::post_get(Operation& operation) {
    const Limits& limits = transport_.limits();
    uct_ep_h const ep = operation.peer->endpoint.get();
    const uint64_t address = operation.remote->key.address + operation.offset;
    const uct_rkey_t rkey = operation.remote->rkey.rkey;
    const auto copy = [&](size_t piece) {
        const auto unpack = [](void* to, const void* data, size_t length) {
            std::memcpy(to, data, length);
        };
        return uct_ep_get_bcopy(ep, unpack, operation.local + operation.posted, piece,
                                address + operation.posted, rkey, &operation.completion);
    };
    if (operation.length < limits.get_zcopy_min ||
        (operation.mine == nullptr && operation.length <= limits.get_bcopy))
        return post_pieces(operation, limits.get_bcopy, copy);
    const ucs_status_t status = register_local(operation);
    if (status != UCS_OK) return status;
    return post_pieces(operation, limits.get_zcopy, [&](size_t piece) {
        if (piece < limits.get_zcopy_min) return copy(piece);  // the last one
        const uct_iov_t iov = iov_of(operation, piece);
        return uct_ep_get_zcopy(ep, &iov, 1, address + operation.posted, rkey,
                                &operation.completion);
    });
}

// Registers the local memory for this operation if the user has not registered it.
ucs_status_t Engine::register_local(Operation& operation) {
    if (operation.mine != nullptr || operation.temporary != nullptr) return UCS_OK;
    unsigned flags = UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_FLAG_HIDE_ERRORS;
    if (operation.task == Task::kGet) flags |= UCT_MD_MEM_ACCESS_LOCAL_WRITE;
    const ucs_status_t status = uct_md_mem_reg(transport_.domain(), operation.local,
                                               operation.length, flags, &operation.temporary);
    return status == UCS_OK ? UCS_OK : UCS_ERR_NO_MEMORY;
}

// Has later sends of the peer take effect after this operation's data. UCS_INPROGRESS: on_done
// tells when.
ucs_status_t Engine::order(Operation& operation) {
    uct_ep_h const ep = operation.peer->endpoint.get();
    if (!flush_before_notice_) return uct_ep_fence(ep, 0);
    return with_completion(operation, [&] { return uct_ep_flush(ep, 0, &operation.completion); });
}

ucs_status_t Engine::post_flush(Operation& operation) {
    return with_completion(operation, [&] {
        return uct_ep_flush(operation.peer->endpoint.get(), 0, &operation.completion);
    });
}

// Short data and their notice at once. UCS_ERR_UNSUPPORTED: nothing is posted; one after the other.
ucs_status_t Engine::post_notified(const Remote& remote, const Transfer& what,
                                   const Notice& notice) {
    const Transport::PutAm put_am = transport_.put_am();
    if (put_am == nullptr || flush_before_notice_ || what.length > transport_.limits().put_short)
        return UCS_ERR_UNSUPPORTED;
    return put_am(remote.peer->endpoint.get(), what.local, static_cast<unsigned>(what.length),
                  remote.key.address + what.offset, remote.rkey.rkey, kNoticeMessage,
                  notice_header(what.kind), &notice, sizeof notice);
}

ucs_status_t Engine::post_notice(Operation& operation) {
    return uct_ep_am_short(operation.peer->endpoint.get(), kNoticeMessage,
                           notice_header(operation.kind), &operation.notice,
                           sizeof operation.notice);
}

uint64_t Engine::notice_header(NoticeKind kind) const {
    return Header{rank_, 0, static_cast<uint8_t>(kind), 0}.pack();
}

// A small message also gives back credit.
ucs_status_t Engine::post_small(Peer& peer, const rwapi_small& small) {
    const auto credit = static_cast<uint16_t>(peer.receiver.owed());
    const Header header{rank_, credit, 0, 0};
    const ucs_status_t status = uct_ep_am_short(peer.endpoint.get(), kSmallMessage, header.pack(),
                                                small.bytes, sizeof small);
    if (status == UCS_OK) peer.receiver.gave(credit);
    return status;
}

// Ends an operation that waits, with its own error or this status.
Engine::Step Engine::fail(Operation& operation, ucs_status_t status) {
    Peer& peer = *operation.peer;
    if (operation.status == RWAPI_OK) operation.status = error_of(status);
    if (status != UCS_OK && operation.status == RWAPI_ERR_PEER) mark_failed(peer, status);
    peer.waiting.remove(&operation);
    if (operation.outstanding) {
        operation.stage = Stage::kPosted;
        peer.under_way.append(&operation);
    } else {
        finish(operation, operation.status);
    }
    return Step::kOver;
}

// UCT has done its part of an operation.
void Engine::on_done(uct_completion_t* completion) {
    Operation& operation = *reinterpret_cast<Operation*>(completion);
    operation.outstanding = false;
    if (completion->status != UCS_OK) [[unlikely]] {
        const int error = error_of(completion->status);
        if (operation.status == RWAPI_OK) operation.status = error;
        // The transport tells of the peer later.
        if (error == RWAPI_ERR_PEER)
            operation.engine->mark_failed(*operation.peer, completion->status);
    }
    if (operation.abandoned)
        operation.engine->operations_.finish(&operation, operation.status);
    else if (operation.stage == Stage::kOrdering)
        operation.stage = operation.kind == NoticeKind::kNone ? Stage::kPosted : Stage::kNotice;
    else if (operation.stage == Stage::kPosted) {
        operation.peer->under_way.remove(&operation);
        operation.engine->finish(operation, operation.status);
    }
}

// The operation is in no list any more.
void Engine::finish(Operation& operation, int result) {
    if (operation.task == Task::kFlush) {
        if (result == RWAPI_OK) result = std::exchange(operation.peer->lost, RWAPI_OK);
    } else if (result != RWAPI_OK && !operation.known && &operation != starting_) {
        operation.peer->lost = result;
    }
    if (operation.temporary != nullptr) uct_md_mem_dereg(transport_.domain(), operation.temporary);
    operation.temporary = nullptr;
    if (operation.mine != nullptr) --operation.mine->users;
    if (operation.remote != nullptr && --operation.remote->users == 0) release(*operation.remote);
    operation.mine = nullptr;
    operation.remote = nullptr;
    if (Operation* const whole = operation.parent) {
        operation.parent = nullptr;
        if (result != RWAPI_OK) whole->status = result;
        if (--whole->children == 0) operations_.finish(whole, whole->status);
    }
    if (operation.abandoned || operation.outstanding) {
        // UCT may still call its completion.
        operation.abandoned = true;
        operations_.set_result(&operation, result == RWAPI_OK ? 1 : result);
    } else if (result == RWAPI_OK && !operation.known) {
        operations_.forget(&operation);
    } else {
        operations_.finish(&operation, result);
    }
}

}  // namespace rwapi
