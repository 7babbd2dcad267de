// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/posting.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "rwapi/base/log.h"
#include "rwapi/engine/pieces.h"

namespace rwapi {
namespace {

constexpr size_t kMostCopied = 1024;  // bytes of a put; Tern copies so few in any case

uct_ep_h endpoint_of(const Operation& operation) {
    TERN_ASSERT(operation.peer->state == PeerState::kReady);
    return operation.peer->connection.endpoint.get();
}

uint64_t remote_address(const Operation& operation) {
    return operation.target.region->key.address + operation.target.offset;
}

uct_iov_t iov_of(const Operation& operation, size_t length) {
    const Operation::Local& local = operation.local;
    uct_iov_t iov{};
    iov.buffer = local.memory + local.posted;
    iov.length = length;
    iov.memh = local.region != nullptr ? local.region->memory : local.temporary;
    iov.count = 1;
    return iov;
}

// Calls post(), which posts something with the operation's completion. UCT calls the completion
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

// Posts the rest of a transfer in pieces of at most `most` bytes. If the send queue fills up, the
// pieces posted so far may be complete before the rest is posted.
template <class Post>
ucs_status_t post_pieces(Operation& operation, size_t most, Post post) {
    Operation::Local& local = operation.local;
    while (local.posted < local.length) {
        const size_t piece = std::min(local.length - local.posted, most);
        const ucs_status_t status = with_completion(operation, [&] { return post(piece); });
        if (status < 0) return status;
        local.posted += piece;
    }
    return UCS_OK;
}

size_t pack_local(void* to, void* from) {
    const Operation::Local& local = static_cast<const Operation*>(from)->local;
    std::memcpy(to, local.memory, local.length);
    return local.length;
}

void unpack_local(void* to, const void* data, size_t length) {
    std::memcpy(to, data, length);
}

}  // namespace

int Posting::open() {
    const char* notify = std::getenv("RWAPI_NOTIFY");
    if (notify != nullptr && std::strcmp(notify, "flush") == 0) {
        flush_before_notification_ = true;
    } else if (notify != nullptr && std::strcmp(notify, "fence") != 0) {
        log_error("RWAPI_NOTIFY=%s: choose fence or flush", notify);
        return RWAPI_ERR_INVALID;
    }
    // Functions that post two writes are only Tern's.
    flush_before_write_ = transport_.put_functions().put_word == nullptr;
    const Limits& limits = transport_.limits();
    put_short_max_ = limits.put_short;
    if (flush_before_notification_ || flush_before_write_) return RWAPI_OK;
    together_ = transport_.put_functions();
    put_then_max_ = put_short_max_;
    word_behind_max_ = std::max(put_short_max_, sizeof(uint64_t)) - sizeof(uint64_t);
    copied_max_ = std::min(limits.put_bcopy, kMostCopied);
    return RWAPI_OK;
}

ucs_status_t Posting::post_copied(const RemoteRegion& region, const Transfer& transfer,
                                  size_t most) const {
    auto* const put = transfer.length <= put_then_max_ ? together_.put_am
                      : transfer.length <= most        ? together_.put_am_copy
                                                       : nullptr;
    if (put == nullptr) return UCS_ERR_UNSUPPORTED;
    const Notification notification = notification_of(region, transfer);
    return put(region.peer->connection.endpoint.get(), transfer.local,
               static_cast<unsigned>(transfer.length), region.key.address + transfer.offset,
               region.rkey.rkey, kNotificationMessage, header_of(transfer.kind), &notification,
               sizeof notification);
}

// Data and a word that the target polls.
ucs_status_t Posting::post_word(const RemoteRegion& region, const Transfer& transfer) const {
    auto* const put = transfer.length <= word_behind_max_ ? together_.put_word
                      : transfer.length <= copied_max_    ? together_.put_word_copy
                                                          : nullptr;
    if (put == nullptr) return UCS_ERR_UNSUPPORTED;
    return put(region.peer->connection.endpoint.get(), transfer.local,
               static_cast<unsigned>(transfer.length), region.key.address + transfer.offset,
               region.rkey.rkey, region.key.address + transfer.place, transfer.value);
}

ucs_status_t Posting::post_together(Operation& operation) const {
    const RemoteRegion& region = *operation.target.region;
    const Operation::Local& local = operation.local;
    const Limits& limits = transport_.limits();
    const Transfer transfer = transfer_of(operation);
    const ucs_status_t status = post_notified(region, transfer);
    if (status != UCS_ERR_UNSUPPORTED || together_.put_am == nullptr || local.posted != 0)
        return status;
    const bool with_word = sets_directly(region, operation.kind);
    uct_ep_h const ep = endpoint_of(operation);
    const uint64_t at = remote_address(operation), word_at = region.key.address + transfer.place;
    if (local.region == nullptr) {
        if (!with_word) return post_copied(region, transfer, limits.put_bcopy);
        if (local.length > limits.put_bcopy) return UCS_ERR_UNSUPPORTED;
        return together_.put_word_copy(ep, local.memory, static_cast<unsigned>(local.length), at,
                                       region.rkey.rkey, word_at, transfer.value);
    }
    if (local.length > limits.put_zcopy) return UCS_ERR_UNSUPPORTED;
    const uct_iov_t iov = iov_of(operation, local.length);
    return with_completion(operation, [&] {
        if (with_word)
            return together_.put_word_in_place(ep, &iov, at, region.rkey.rkey, word_at,
                                               transfer.value, &operation.completion);
        return together_.put_am_in_place(ep, &iov, at, region.rkey.rkey, kNotificationMessage,
                                         header_of(operation.kind), &operation.notification,
                                         sizeof operation.notification, &operation.completion);
    });
}

ucs_status_t Posting::post_put(Operation& operation) const {
    const Limits& limits = transport_.limits();
    const Operation::Local& local = operation.local;
    uct_ep_h const ep = endpoint_of(operation);
    const uint64_t address = remote_address(operation);
    const uct_rkey_t rkey = operation.target.region->rkey.rkey;
    if (local.length <= limits.put_short)
        return uct_ep_put_short(ep, local.memory, static_cast<unsigned>(local.length), address,
                                rkey);
    if (local.region == nullptr && local.length <= limits.put_bcopy) {
        const ssize_t sent = uct_ep_put_bcopy(ep, pack_local, &operation, address, rkey);
        return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
    }
    const ucs_status_t status = register_local(operation.local, local.length, operation.task);
    if (status != UCS_OK) return status;
    return post_pieces(operation, limits.put_zcopy, [&](size_t piece) {
        const uct_iov_t iov = iov_of(operation, piece);
        return uct_ep_put_zcopy(ep, &iov, 1, address + local.posted, rkey, &operation.completion);
    });
}

ucs_status_t Posting::post_get(Operation& operation) const {
    const Limits& limits = transport_.limits();
    const Operation::Local& local = operation.local;
    uct_ep_h const ep = endpoint_of(operation);
    const uint64_t address = remote_address(operation);
    const uct_rkey_t rkey = operation.target.region->rkey.rkey;
    const auto copy = [&](size_t piece) {
        return uct_ep_get_bcopy(ep, unpack_local, local.memory + local.posted, piece,
                                address + local.posted, rkey, &operation.completion);
    };
    if (local.length < limits.get_zcopy_min ||
        (local.region == nullptr && local.length <= limits.get_bcopy))
        return post_pieces(operation, limits.get_bcopy, copy);
    const ucs_status_t status = register_local(operation.local, local.length, operation.task);
    if (status != UCS_OK) return status;
    return post_pieces(operation, limits.get_zcopy, [&](size_t piece) {
        if (piece < limits.get_zcopy_min) return copy(piece);  // the last one
        const uct_iov_t iov = iov_of(operation, piece);
        return uct_ep_get_zcopy(ep, &iov, 1, address + local.posted, rkey, &operation.completion);
    });
}

ucs_status_t Posting::post_atomic(Operation& operation) const {
    uct_ep_h const ep = endpoint_of(operation);
    const uint64_t address = remote_address(operation);
    const uct_rkey_t rkey = operation.target.region->rkey.rkey;
    Notification& operands = operation.notification;
    // The user may not want the result, but UCT stores it.
    auto* const result = operation.local.memory != nullptr
                             ? reinterpret_cast<uint64_t*>(operation.local.memory)
                             : &operands.bytes;
    return with_completion(operation, [&] {
        return operation.task == Task::kFetchAdd
                   ? uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, operands.value, result, address,
                                           rkey, &operation.completion)
                   : uct_ep_atomic_cswap64(ep, operands.place, operands.value, address, rkey,
                                           result, &operation.completion);
    });
}

// Registers the local memory for this operation, unless the user or an earlier call has. length: of
// it, and of what is between blocks.
ucs_status_t Posting::register_local(Operation::Local& local, size_t length, Task task) const {
    if (local.region != nullptr || local.temporary != nullptr) return UCS_OK;
    unsigned flags = UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_FLAG_HIDE_ERRORS;
    if (task == Task::kGet) flags |= UCT_MD_MEM_ACCESS_LOCAL_WRITE;
    const ucs_status_t status =
        uct_md_mem_reg(transport_.domain(), local.memory, length, flags, &local.temporary);
    return status == UCS_OK ? UCS_OK : UCS_ERR_NO_MEMORY;
}

ucs_status_t Posting::prepare(Piece& piece, Task task) const {
    const Limits& limits = transport_.limits();
    const size_t most_copied =
        task == Task::kGet ? limits.get_bcopy : std::max(limits.put_short, limits.put_bcopy);
    return piece.local.length <= most_copied
               ? UCS_OK
               : register_local(piece.local, piece.local_extent(), task);
}

ucs_status_t Posting::post_order(Operation& operation) const {
    const bool writes_follow =
        operation.task == Task::kFence ||
        (operation.task == Task::kPut && sets_directly(*operation.target.region, operation.kind));
    return flush_before_notification_ || (flush_before_write_ && writes_follow)
               ? post_flush(operation)
               : uct_ep_fence(endpoint_of(operation), 0);
}

ucs_status_t Posting::post_flush(Operation& operation) const {
    return with_completion(
        operation, [&] { return uct_ep_flush(endpoint_of(operation), 0, &operation.completion); });
}

ucs_status_t Posting::post_notification(const Operation& operation) const {
    const RemoteRegion& region = *operation.target.region;
    if (sets_directly(region, operation.kind)) {
        return uct_ep_put_short(endpoint_of(operation), &operation.notification.value,
                                sizeof operation.notification.value,
                                region.key.address + operation.notification.place,
                                region.rkey.rkey);
    }
    return uct_ep_am_short(endpoint_of(operation), kNotificationMessage, header_of(operation.kind),
                           &operation.notification, sizeof operation.notification);
}

}  // namespace rwapi
