// SPDX-License-Identifier: BSD-3-Clause

// 64-bit atomic operations, by the device, on open memory. Data path.

#include "tern/uct/memory.h"
#include "tern/uct/send.h"

namespace tern {

namespace {

[[gnu::always_inline]] inline ucs_status_t atomic(uct_ep_h ep, ibv_wr_opcode opcode,
                                                  uint64_t compare_add, uint64_t swap,
                                                  uint64_t* result, uint64_t to, uct_rkey_t rkey,
                                                  uct_completion_t* completion) {
    const RemoteKey& key = remote_key(rkey);
    if (key.rkey == 0) [[unlikely]] {
        ucs_error(
            "tern: an atomic operation on memory that its owner has not mapped for them, or whose "
            "device could not register it (ulimit -l)");
        return UCS_ERR_UNSUPPORTED;
    }
    UCT_CHECK_PARAM(to % sizeof(uint64_t) == 0, "Address of an atomic is not aligned: 0x%lx", to);
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    TernIface& iface = iface_of(ep);
    Atomics::Operation* operation = iface.atomics->take(*channel, result, completion);
    if (operation == nullptr) [[unlikely]]
        return UCS_ERR_NO_RESOURCE;
    ibv_sge word{
        .addr = address_of(operation->word), .length = sizeof(uint64_t), .lkey = operation->lkey};
    const Status posted = iface.engine->one_sided()->atomic(
        *channel, opcode, word, compare_add, swap, to, key.rkey, Atomics::cookie_of(*operation));
    if (posted != Status::kOk) [[unlikely]] {
        iface.atomics->give(*operation);
        return to_ucs(posted);
    }
    iface.atomics->posted();
    return UCS_INPROGRESS;
}

}  // namespace

ucs_status_t ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t to,
                              uct_rkey_t rkey) {
    if (opcode != UCT_ATOMIC_OP_ADD) return UCS_ERR_UNSUPPORTED;
    const ucs_status_t status =
        atomic(ep, IBV_WR_ATOMIC_FETCH_AND_ADD, value, 0, nullptr, to, rkey, nullptr);
    return status == UCS_INPROGRESS ? UCS_OK : status;
}

ucs_status_t ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t* result,
                               uint64_t to, uct_rkey_t rkey, uct_completion_t* completion) {
    if (opcode != UCT_ATOMIC_OP_ADD) return UCS_ERR_UNSUPPORTED;
    return atomic(ep, IBV_WR_ATOMIC_FETCH_AND_ADD, value, 0, result, to, rkey, completion);
}

ucs_status_t ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t to,
                               uct_rkey_t rkey, uint64_t* result, uct_completion_t* completion) {
    return atomic(ep, IBV_WR_ATOMIC_CMP_AND_SWP, compare, swap, result, to, rkey, completion);
}

}  // namespace tern
