// SPDX-License-Identifier: BSD-3-Clause
// Local operations on memory windows: bind and invalidate.
#include "softhca/transport/adapter.h"
#include "softhca/transport/execute.h"
#include "softhca/transport/qp.h"

namespace softhca {

namespace {

// Withdraws a window's key, and waits for accesses to end.
void withdraw(Host& host, KeyEntry& window) {
    window.key.store(0, std::memory_order_seq_cst);
    host.wait_for_accesses();
}

}  // namespace

Outcome execute_bind(Qp& qp, Wqe& wqe) {
    Host& host = qp.adapter().host();
    const WindowBind& bind = wqe.bind;
    KeyEntry* window = host.key(bind.window_key, host.slot());
    if (window == nullptr || window->kind == KeyKind::kRegion || window->pd != qp.attributes().pd ||
        KeyNumber::index(bind.new_key) != KeyNumber::index(bind.window_key))
        return Outcome::complete(WcStatus::kMwBindError);
    if (window->kind == KeyKind::kWindowType2 && window->key.load(std::memory_order_acquire) != 0) {
        return Outcome::complete(
            WcStatus::kMwBindError);  // bound type 2 windows must be invalidated first
    }
    // o10-37.2.40: a bind does not unbind a type 2 window.
    if (window->kind == KeyKind::kWindowType2 && bind.length == 0)
        return Outcome::complete(WcStatus::kMwBindError);
    withdraw(host, *window);
    if (bind.length == 0) return Outcome::complete();  // length 0 unbinds
    const std::lock_guard lock(qp.adapter().bind_mutex);
    KeyEntry* region = host.key(bind.region_key, host.slot());
    uint32_t need = access_flag::kMwBind;
    if ((bind.access & (access_flag::kRemoteWrite | access_flag::kRemoteAtomic)) != 0)
        need |= access_flag::kLocalWrite;
    uint64_t address;
    if (region == nullptr || region->kind != KeyKind::kRegion ||
        !check_key(*region, bind.region_key, qp.attributes().pd, qp.number(), bind.address,
                   bind.length, need, &address))
        return Outcome::complete(WcStatus::kMwBindError);
    window->access = bind.access | (region->access & access_flag::kRelaxedOrdering);
    window->start = (bind.access & access_flag::kZeroBased) != 0 ? 0 : bind.address;
    window->length = bind.length;
    window->host = address;
    window->bound_qp = qp.number();
    window->region_key = bind.region_key;
    window->share_id = 0;
    window->paged = region->paged.load(std::memory_order_relaxed);
    window->key.store(bind.new_key, std::memory_order_release);
    return Outcome::complete();
}

Outcome execute_invalidate(Qp& qp, Wqe& wqe) {
    Host& host = qp.adapter().host();
    KeyEntry* window = host.key(wqe.imm, host.slot());
    if (window == nullptr || window->kind != KeyKind::kWindowType2 ||
        window->pd != qp.attributes().pd || window->bound_qp != qp.number() ||
        window->key.load(std::memory_order_acquire) != wqe.imm)
        return Outcome::complete(WcStatus::kMwBindError);
    withdraw(host, *window);
    return Outcome::complete();
}

}  // namespace softhca
