// SPDX-License-Identifier: BSD-3-Clause
// Unreliable datagrams. A datagram is delivered whole or not at all, after 40 bytes for the GRH.
#include <algorithm>
#include <cstring>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/execute.h"
#include "softhca/transport/multicast.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/responder.h"
#include "softhca/transport/send.h"

namespace softhca {

namespace {

constexpr uint32_t kMtu = 4096;  // of every port
constexpr uint32_t kControlledQkey = 0x80000000;

struct Grh {
    uint32_t version_class_flow;
    uint16_t payload_length;
    uint8_t next_header;
    uint8_t hop_limit;
    uint8_t source[16];
    uint8_t target[16];
};
static_assert(sizeof(Grh) == kGrhBytes);

Grh make_grh(const Wqe& wqe) {
    const Destination& to = wqe.datagram.path;
    Grh grh{};
    grh.version_class_flow =
        __builtin_bswap32(6u << 28 | uint32_t{to.traffic_class} << 20 | to.flow_label);
    grh.payload_length =
        __builtin_bswap16(static_cast<uint16_t>(std::min<uint32_t>(wqe.length, 0xffff)));
    grh.next_header = 0x1b;  // next header: IBA transport
    grh.hop_limit = to.hop_limit;
    std::memcpy(grh.source, to.source_gid, sizeof grh.source);
    std::memcpy(grh.target, to.target_gid, sizeof grh.target);
    return grh;
}

bool accepts_datagram(Qp& qp, const Wqe& wqe, const QpShared* target) {
    const Destination& to = wqe.datagram.path;
    const uint32_t qkey = (wqe.datagram.qkey & kControlledQkey) != 0 ? qp.shared().attributes.qkey
                                                                     : wqe.datagram.qkey;
    // The state comes first: before, a new queue pair with this number may still be set up.
    return target != nullptr && responds(target->state.load(std::memory_order_acquire)) &&
           target->type == QpType::kUd && (to.multicast || target->attributes.link == to.link) &&
           same_subnet(qp.adapter().host().header().config, qp.shared().attributes.link,
                       target->attributes.link) &&
           (to.process == kAnyProcess || to.process == ObjectNumber::process(wqe.datagram.qp)) &&
           target->attributes.qkey == qkey;
}

bool port_is_down(Host& host, uint32_t link) {
    return (host.header().faults.ports_down.load(std::memory_order_relaxed) >> link & 1) != 0;
}

// A datagram as it comes to the receive's memory.
struct Packet {
    Packet(const Wqe& wqe, const IovList& local) {
        if (wqe.datagram.path.global) {
            grh = make_grh(wqe);
            source.add(reinterpret_cast<uint64_t>(&grh), sizeof grh);
            offset = 0;
        }
        for (uint32_t i = 0; i < local.count(); ++i) {
            source.add(reinterpret_cast<uint64_t>(local.data()[i].iov_base),
                       local.data()[i].iov_len);
        }
    }
    Grh grh;
    IovList source;
    uint64_t offset = kGrhBytes;  // without a GRH the first 40 bytes are not written
};

void complete_datagram(Qp& qp, const Wqe& wqe, QpShared& target, uint32_t number,
                       const RecvWqe& receive, uint64_t now) {
    Adapter& adapter = qp.adapter();
    Completion wc = receive_completion(target, number, receive, receive_visible_at(qp, wqe, now));
    wc.byte_len = wqe.length + kGrhBytes;
    wc.src_qp = qp.number();
    wc.slid = wqe.datagram.path.slid;
    wc.path_bits = wqe.datagram.path.path_bits;
    wc.imm = wqe.imm;
    wc.solicited = (wqe.flags & send_flag::kSolicited) != 0;
    wc.flags = (wqe.opcode == WrOpcode::kSendImm ? wc_flag::kWithImm : 0) |
               (wqe.datagram.path.global ? wc_flag::kGrh : 0);
    CqShared* cq = adapter.host().cq(target.recv_cq);
    if (cq == nullptr || !write_completion(adapter, *cq, wc))
        fail_responder(adapter, target, number, Notice::kQpFatal);
}

// Delivers the datagram, or a copy of it, to the queue pair `number`, which accepts it.
Outcome deliver_datagram(Qp& qp, Wqe& wqe, const Packet& packet, QpShared& target, uint32_t number,
                         uint64_t now) {
    Host& host = qp.adapter().host();
    const uint32_t slot = ObjectNumber::process(number);
    const ResponderLock lock(host, target);
    const RecvWqe* receive = responds(target.state.load(std::memory_order_acquire))
                                 ? claim_receive(qp.adapter(), target, target.srq)
                                 : nullptr;
    if (receive == nullptr) {
        if (under_way(qp, wqe)) return Outcome::again(wqe.arrival_end());
        return drop_message(qp);
    }
    IovList remote;
    if (receive->length() < uint64_t{wqe.length} + kGrhBytes) return drop_message(qp);
    if (!build_scatter_list(host, receive->elements(), slot, target.claim.pd, number, &remote)) {
        Completion wc = receive_completion(target, number, *receive, visible_now(qp.adapter()));
        wc.status = WcStatus::kLocalProtectionError;
        if (CqShared* cq = host.cq(target.recv_cq)) write_completion(qp.adapter(), *cq, wc);
        fail_responder(qp.adapter(), target, number, 0);
        return Outcome::complete();
    }
    if (!shows_at_completion(wqe) && under_way(qp, wqe)) return Outcome::again(wqe.arrival_end());
    const IovList space = remote.slice(packet.offset, packet.source.length());
    const CopyResult copied =
        qp.adapter().process_memory().write(slot, nullptr, packet.source, space);
    if (copied == CopyResult::kLocalFault)
        return Outcome::complete(WcStatus::kLocalProtectionError);
    if (copied != CopyResult::kOk) return drop_message(qp);  // the next datagram uses the receive
    complete_datagram(qp, wqe, target, number, *receive, now);
    return Outcome::complete();
}

// Delivers copies to all members of a group, the sender's own queue pair among them. Under the
// timing model all of them arrive with the last packet.
Outcome execute_multicast(Qp& qp, Wqe& wqe, uint64_t now) {
    if (under_way(qp, wqe)) return Outcome::again(wqe.arrival_end());
    Host& host = qp.adapter().host();
    const AccessGuard guard(host, host.slot());
    IovList local;
    if (!build_gather_list(qp, wqe, 0, &local))
        return Outcome::complete(WcStatus::kLocalProtectionError);
    if (qp_dropped(host.header().faults, qp.number()) || port_is_down(host, wqe.datagram.path.link))
        return drop_message(qp);
    const Packet packet(wqe, local);
    Outcome outcome = Outcome::complete();
    const GroupName group(wqe.datagram.path.target_gid);
    for_each_attached(host, group, [&](uint32_t number) {
        QpShared* target = host.qp(number);
        if (outcome.status == WcStatus::kSuccess && accepts_datagram(qp, wqe, target) &&
            !port_is_down(host, target->attributes.link) && !take_loss(host.header().faults))
            outcome = deliver_datagram(qp, wqe, packet, *target, number, now);
    });
    return outcome;
}

}  // namespace

Outcome execute_datagram(Qp& qp, Wqe& wqe, uint64_t now) {
    Host& host = qp.adapter().host();
    if (wqe.length > kMtu) return Outcome::complete(WcStatus::kLocalLengthError);
    if (wqe.datagram.path.multicast) return execute_multicast(qp, wqe, now);
    const uint32_t slot = ObjectNumber::process(wqe.datagram.qp);
    const AccessGuard guard(host, slot);
    IovList local;
    if (!build_gather_list(qp, wqe, 0, &local))
        return Outcome::complete(WcStatus::kLocalProtectionError);
    if (wqe.datagram.path.link >= kMaxLinks || !host.alive(slot) ||
        qp_dropped(host.header().faults, qp.number()) ||
        port_is_down(host, qp.shared().attributes.link) ||
        port_is_down(host, wqe.datagram.path.link))
        return drop_message(qp);
    QpShared* target = host.qp(wqe.datagram.qp);
    if (!accepts_datagram(qp, wqe, target)) return drop_message(qp);
    if (!wqe.state.spared && take_loss(host.header().faults)) return drop_message(qp);
    wqe.state.spared = true;
    const Packet packet(wqe, local);
    return deliver_datagram(qp, wqe, packet, *target, wqe.datagram.qp, now);
}

}  // namespace softhca
