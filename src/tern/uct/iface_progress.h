// SPDX-License-Identifier: BSD-3-Clause
// The progress of an interface, for each type of its own: TernIface, TagIface or DirectIface. Data
// path.
#pragma once

#include <new>

#include "tern/uct/matching.h"
#include "tern/uct/rma_post.h"
#include "tern/uct/send.h"

inline void TernIface::message(uint32_t id, const void* data, uint32_t length) {
    tern::dump_message(*this, UCT_AM_TRACE_TYPE_RECV, static_cast<uint8_t>(id), data, length,
                       "RX: AM");
    (void)uct_iface_invoke_am(&super, static_cast<uint8_t>(id), const_cast<void*>(data), length, 0);
}

inline bool TernIface::keeps(uint32_t id, std::byte* data, uint32_t length) {
    tern::dump_message(*this, UCT_AM_TRACE_TYPE_RECV, static_cast<uint8_t>(id), data, length,
                       "RX: AM");
    if (uct_iface_invoke_am(&super, static_cast<uint8_t>(id), data, length,
                            UCT_CB_PARAM_FLAG_DESC) != UCS_INPROGRESS)
        return false;
    uct_recv_desc(data - kept.headroom) = &kept.owner;
    return true;
}

[[gnu::always_inline]] inline void TernIface::complete(void* completion, tern::Status status) {
    if (completion == nullptr) return;
    auto* const users = static_cast<uct_completion_t*>(completion);
    if (status == tern::Status::kOk) [[likely]]
        return uct_invoke_completion(users, UCS_OK);
    tern::note_loss(*this, status);
    uct_invoke_completion(users, tern::to_ucs(status));
}

inline void TernIface::completed(void* cookie, tern::Status status) {
    if (tern::Rma::is_cookie(cookie)) [[likely]]
        return complete(rma->done(cookie, status == tern::Status::kOk), status);
    if (tern::kind_of(cookie) == tern::CookieKind::kUser) return complete(cookie, status);
    completed_rarely(cookie, status);
}

inline bool TernIface::control(tern::Channel& channel, uint32_t id, const std::byte* data,
                               uint32_t length) {
    if (id >= static_cast<uint32_t>(tern::ControlId::kFirstTag))
        return matching->control(*engine, channel, id, data, length);
    return rendezvous->control(channel, id, data, length);
}

namespace tern {

// What follows the engine's poll.
template <class Iface>
[[gnu::always_inline]] inline unsigned progress_others(Iface& iface, unsigned count) {
    count += iface.progress_sends();
    if (!ucs_arbiter_is_empty(&iface.arbiter)) [[unlikely]]
        count += dispatch_pending(iface);
    return count + iface.progress_receives();
}
template <class Iface>
[[gnu::always_inline]] inline unsigned progress_all(Iface& iface, unsigned count) {
    if (iface.rendezvous->has_work()) count += iface.rendezvous->progress();
    return progress_others(iface, count);
}

// A poll whose first steps are `poll(iface, args...)`, which returns what it has handled.
template <class Iface, class Poll, class... Args>
[[gnu::noinline]] unsigned progress_after(Iface& iface, Poll poll, Args... args) try {
    return progress_all(iface, poll(iface, args...));
} catch (const std::bad_alloc&) {
    (void)out_of_memory(&iface.super.super);
    return 1;
}

// A poll that takes all steps.
template <class Iface>
[[gnu::noinline]] unsigned progress(Iface& iface) try {
    unsigned count = 0;
    iface.rma->progress();
    // The rendezvous has something to do at each poll only while transfers are under way.
    return iface.engine->poll(iface, count) ? progress_others(iface, count)
                                            : progress_all(iface, count);
} catch (const std::bad_alloc&) {
    (void)out_of_memory(&iface.super.super);
    return 1;
}

// Progress after a look at the blocks has found nothing, if the rest is due: in the usual case, the
// completion queue is empty, and there is nothing else.
template <class Iface>
[[gnu::noinline]] unsigned progress_queue(Iface& iface) {
    Engine& engine = *iface.engine;
    if (!engine.poller()->only_queue_is_due() || iface.rma->holds_pins()) [[unlikely]]
        return progress_after(iface, [](Iface& all) {
            all.rma->progress();
            return all.engine->poller()->poll_rest(all);
        });
    ibv_wc completions[Poller::kBurst];
    const int count = engine.poller()->take(completions);
    if (count != 0) [[unlikely]]
        return progress_after(
            iface,
            [](Iface& all, const ibv_wc* first, int taken) {
                return all.engine->poller()->handle(first, taken, all);
            },
            static_cast<const ibv_wc*>(completions), count);
    if (iface.rendezvous->has_work() || Iface::kMatches || !ucs_arbiter_is_empty(&iface.arbiter))
        [[unlikely]]
        return progress_after(iface, [](Iface&) { return 0u; });
    return 0;
}

// A caller that is about to sleep relies on a result of 0: every callback and every pending request
// that was sent counts.
template <class Iface>
unsigned iface_progress(uct_iface_h uct_iface) {
    auto& iface = static_cast<Iface&>(iface_of(uct_iface));
    if (ucs_arbiter_is_empty(&iface.arbiter) && !iface.rma->has_work() &&
        !iface.matching_has_work()) [[likely]] {
        const Poller::Look found = iface.engine->poller()->look();
        if (found == Poller::Look::kNothing) [[likely]]
            return 0;
        if (found == Poller::Look::kRest) return progress_queue(iface);
    }
    return progress(iface);
}

}  // namespace tern
