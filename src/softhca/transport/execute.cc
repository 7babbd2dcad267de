// SPDX-License-Identifier: BSD-3-Clause
// What all operations need: looking up the peer, listing local memory, and placing data as
// the timing model and the faults require.
#include "softhca/transport/execute.h"

#include <algorithm>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/paging.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/responder.h"

namespace softhca {

namespace {

// for out-of-order placement if there is no fault `segment`
constexpr uint64_t kDefaultSegmentBytes = 64;
// copied under one AccessGuard: limits how long a deregistration waits
constexpr uint64_t kMaxCopyBytes = 4 << 20;

bool ports_up(Host& host, uint32_t mine, uint32_t peer) {
    const uint64_t down = host.header().faults.ports_down.load(std::memory_order_relaxed);
    return peer < kMaxLinks && ((down >> mine | down >> peer) & 1) == 0 &&
           same_subnet(host.header().config, mine, peer);
}

QpType partner(QpType type) {
    return type == QpType::kXrcSend ? QpType::kXrcRecv : type;
}

// Whether the responder takes the requester's packets for those that it expects.
bool in_step(const Personality& personality, const QpShared& sender, const QpShared& receiver) {
    const ResponderAttributes::Paths& there = receiver.attributes.paths;
    const ResponderAttributes::Paths& here = sender.attributes.paths;
    if (here.own != there.peer || here.peer != there.own) return false;
    return personality.connection.psn == 0 || sender.type == QpType::kUc ||
           sender.attributes.send_psn == receiver.attributes.receive_psn;
}

// Whether the attributes of both sides fit the request.
bool sides_agree(const Personality& personality, const Qp& qp, const QpShared& sender,
                 const QpShared& receiver, const Wqe& wqe) {
    if (personality.connection.path_mtu != 0 &&
        sender.attributes.path_mtu != receiver.attributes.path_mtu &&
        wqe.length >
            mtu_bytes(std::min<uint8_t>(sender.attributes.path_mtu, receiver.attributes.path_mtu)))
        return false;
    return personality.connection.rd_atomic_match == 0 || !wqe.reads() ||
           qp.requester.attributes().max_rd_atomic <= receiver.attributes.max_dest_rd_atomic;
}

}  // namespace

Target::Target(Qp& sender)
    : qp_number(sender.shared().attributes.peer_number),
      slot(ObjectNumber::process(qp_number)),
      guard_(sender.adapter().host(), slot) {}

bool Target::find(Qp& sender, const Wqe& wqe) {
    Host& host = sender.adapter().host();
    const QpShared& mine = sender.shared();
    if (!host.alive(slot) || qp_dropped(host.header().faults, sender.number()) ||
        !ports_up(host, mine.attributes.link, mine.attributes.peer_link))
        return false;
    qp = host.qp(qp_number);
    if (qp == nullptr || qp->type != partner(mine.type) ||
        qp->attributes.link != mine.attributes.peer_link ||
        qp->attributes.peer_number != sender.number() ||
        qp->attributes.peer_link != mine.attributes.link ||
        !responds(qp->state.load(std::memory_order_acquire)))
        return false;
    const Personality& personality = host.personality();
    if (!in_step(personality, mine, *qp)) return false;
    bad_request = !sides_agree(personality, sender, mine, *qp, wqe);
    pd = qp->pd;
    cq = qp->recv_cq;
    if (mine.type != QpType::kXrcSend) {
        srq = qp->srq;
        return true;
    }
    // The SRQ that the message addresses determines the memory and the protection domain.
    srq = wqe.srq;
    slot = ObjectNumber::process(srq);
    srq_guard_.emplace(host, slot);
    const SrqShared* shared = host.alive(slot) ? host.srq(srq) : nullptr;
    bad_request |=
        shared == nullptr || shared->xrc_domain == 0 || shared->xrc_domain != qp->xrc_domain;
    if (!bad_request) {
        pd = shared->pd;
        cq = shared->cq;
    }
    return true;
}

bool build_gather_list(Qp& qp, Wqe& wqe, uint32_t need, IovList* list) {
    if (wqe.is_inline) {
        list->add(reinterpret_cast<uint64_t>(wqe.inline_data()), wqe.length);
        return true;
    }
    Host& host = qp.adapter().host();
    for (uint32_t i = 0; i < wqe.num_sge; ++i) {
        const Sge& sge = wqe.sges()[i];
        if (sge.length == 0) continue;
        KeyEntry* entry = host.key(sge.lkey, host.slot());
        uint64_t address;
        if (entry == nullptr ||
            !check_local_key(*entry, sge.lkey, qp.attributes().pd, qp.number(), sge.addr,
                             sge.length, need, &address) ||
            !pages_for(qp, *entry))
            return false;
        list->add(address, sge.length, entry->relaxed());
    }
    return true;
}

bool under_way(Qp& qp, const Wqe& wqe) {
    return qp.adapter().host().models_time() && now_ns() < wqe.arrival_end();
}

bool shows_at_completion(const Wqe& wqe) {
    return wqe.sends() && !is_virtual_time();
}

uint64_t next_arrival(Qp& qp, const Wqe& wqe) {
    return wqe.arrival_at(qp.adapter().host().header().config.nic,
                          std::min(wqe.state.progress + kPacketBytes, uint64_t{wqe.length}));
}

uint64_t receive_visible_at(Qp& qp, const Wqe& wqe, uint64_t now) {
    Adapter& adapter = qp.adapter();
    if (!adapter.delays_completions()) return 0;
    FabricHeader& header = adapter.host().header();
    const uint64_t delay = header.faults.delay_completions_ns.load(std::memory_order_relaxed);
    const uint64_t end =
        wqe.booking.arrival_end + receive_ns(header.config.nic, RequestKind::kSend);
    now = std::max(now, now_ns());
    if (adapter.host().models_time() && wqe.sends())
        record(adapter.host().self().lateness, wqe.posted_at, end, now);
    return std::max(end, now) + delay;
}

Outcome place_message(Qp& qp, Wqe& wqe, const Target& target, const KeyEntry* key,
                      const IovList& local, const IovList& remote, uint64_t now,
                      CopyResult* failed) {
    Adapter& adapter = qp.adapter();
    Host& host = adapter.host();
    const Faults& faults = host.header().faults;
    const uint64_t total = wqe.length;
    if (wqe.state.progress == 0)
        wqe.state.backwards = faults.out_of_order.load(std::memory_order_relaxed) != 0;
    uint64_t segment = faults.segment_bytes.load(std::memory_order_relaxed);
    if (wqe.state.backwards && segment == 0) segment = kDefaultSegmentBytes;
    const uint64_t pause = faults.segment_pause_ns.load(std::memory_order_relaxed);
    const bool by_packet = host.models_time() && !shows_at_completion(wqe);
    // A program may poll any word of an RDMA write, and only the end of other messages.
    const Order order = wqe.sends() || wqe.reads() ? Order::kPages : Order::kAscending;
    *failed = CopyResult::kOk;
    for (;;) {
        const uint64_t rest = total - wqe.state.progress;
        uint64_t length = std::min(rest, kMaxCopyBytes);
        if (by_packet) {
            // Before the next packet's arrival, waits for it; afterwards places all packets that
            // have arrived.
            const NicParameters& nic = host.header().config.nic;
            const uint64_t packet = std::min(rest, kPacketBytes);
            const uint64_t due = wqe.arrival_at(nic, wqe.state.progress + packet);
            if (now < due && (now = now_ns()) < due) return Outcome::again(due);
            const uint64_t arrived =
                std::min(arrived_by(wqe.booking, nic, total, now), *wqe.departed);
            length =
                std::min(length, std::max(packet, arrived - std::min(arrived, wqe.state.progress)));
        }
        if (segment != 0) length = std::min(length, segment);
        const uint64_t offset = wqe.state.backwards ? rest - length : wqe.state.progress;
        const bool whole = length == total;
        const IovList from = whole ? local : local.slice(offset, length);
        const IovList to = whole ? remote : remote.slice(offset, length);
        *failed = wqe.reads() ? adapter.process_memory().read(target.slot, key, to, from)
                              : adapter.process_memory().write(target.slot, key, from, to, order);
        if (*failed != CopyResult::kOk) return Outcome::no_response();
        if (by_packet && !wqe.reads()) note_seen(target.slot, now_ns());
        wqe.state.progress += length;
        if (wqe.state.progress >= total) break;
        if (segment == 0 && !by_packet) return Outcome::again(0);
        if (segment != 0 && pause != 0) return Outcome::again(now_ns() + pause);
    }
    // That of a send is judged with its completion.
    if (by_packet && !wqe.sends())
        record(host.self().lateness, wqe.posted_at, wqe.booking.arrival_end, now_ns());
    return Outcome::complete();
}

Outcome execute(Qp& qp, Wqe& wqe, uint64_t now) {
    if (const auto fault = fault_local(qp, wqe)) return *fault;
    switch (wqe.opcode) {
        case WrOpcode::kSend:
        case WrOpcode::kSendImm:
        case WrOpcode::kSendInvalidate:
            return qp.attributes().type == QpType::kUd ? execute_datagram(qp, wqe, now)
                                                       : execute_send(qp, wqe, now);
        case WrOpcode::kRdmaWrite:
        case WrOpcode::kRdmaWriteImm:
            return execute_write(qp, wqe, now);
        case WrOpcode::kRdmaRead:
        case WrOpcode::kCompareSwap:
        case WrOpcode::kFetchAdd:
            return execute_answered(qp, wqe, now);
        case WrOpcode::kBindMw:
            return execute_bind(qp, wqe);
        case WrOpcode::kLocalInvalidate:
            return execute_invalidate(qp, wqe);
    }
    return Outcome::complete(WcStatus::kLocalQpOperationError);
}

}  // namespace softhca
