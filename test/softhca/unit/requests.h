// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs below the verbs, their memory, and requests to them.
#pragma once

#include <sys/mman.h>

#include <mutex>

#include "softhca/transport/cq.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/region.h"
#include "softhca/transport/srq.h"

namespace softhca::test {

inline constexpr uint32_t kPd = 1;
inline constexpr uint32_t kXrcDomain = 1;
inline constexpr uint32_t kRemote =
    access_flag::kRemoteWrite | access_flag::kRemoteRead | access_flag::kRemoteAtomic;
inline constexpr uint32_t kMaxInline = 64;

inline Qp* make_qp(Adapter& adapter, Cq* cq, Srq* srq, QpType type = QpType::kRc) {
    Qp::Attributes attributes;
    attributes.type = type;
    attributes.pd = kPd;
    attributes.send_cq = cq;
    attributes.recv_cq = cq;
    attributes.srq = srq;
    attributes.xrc_domain = kXrcDomain;
    attributes.max_send_wr = 8;
    attributes.max_send_sge = 1;
    attributes.max_recv_wr = srq == nullptr ? 4 : 0;
    attributes.max_recv_sge = 1;
    attributes.max_inline = kMaxInline;
    return Qp::create(adapter, attributes);
}

inline void connect(Qp& qp, uint32_t peer) {
    QpChange change;
    change.mask = qp_attr::kState | qp_attr::kPort | qp_attr::kAccessFlags | qp_attr::kDestQpn |
                  qp_attr::kAv | qp_attr::kMinRnrTimer | qp_attr::kRetryCnt | qp_attr::kRnrRetry |
                  qp_attr::kTimeout | qp_attr::kMaxQpRdAtomic | qp_attr::kMaxDestRdAtomic;
    change.state = QpState::kRts;
    change.responder.access = kRemote;
    change.responder.peer_number = peer;
    change.responder.min_rnr_timer = 1;
    change.requester.retry_count = 1;
    change.requester.rnr_retry = 1;
    change.requester.timeout = 8;
    change.requester.max_rd_atomic = change.responder.max_dest_rd_atomic = 1;
    qp.modify(change);
}

// Posts a request that is signaled: `what` says its kind, its length and its target.
inline void post(Qp& qp, const Wqe& what, const Sge& local) {
    {
        const std::lock_guard lock(qp.requester.post_mutex);
        Wqe* wqe = qp.requester.queue().reserve();
        wqe->opcode = what.opcode;
        wqe->is_inline = what.gathers() && what.length <= kMaxInline;
        wqe->num_sge = wqe->is_inline ? 0 : 1;
        if (!wqe->is_inline) wqe->sges()[0] = local;
        wqe->length = what.length;
        wqe->remote = what.remote;
        wqe->datagram = what.datagram;
        wqe->srq = what.srq;
        wqe->atomic.compare_add = 1;
        wqe->flags = send_flag::kSignaled;
        qp.requester.commit(*wqe, qp.requester.post_time());
    }
    qp.requester.start();
}

// Memory of this process that the device may use, with its key.
struct Memory {
    explicit Memory(Adapter& adapter, size_t size = 4096)
        : bytes(static_cast<char*>(
              mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        RegionAttributes region;
        region.address = region.iova = reinterpret_cast<uint64_t>(bytes);
        region.length = size;
        region.pd = kPd;
        region.access = access_flag::kLocalWrite | kRemote;
        key = publish_region(adapter, next_key(adapter, allocate_key(adapter)), region, {});
    }
    Sge at(uint64_t offset, uint32_t length) const {
        return {reinterpret_cast<uint64_t>(bytes) + offset, length, key};
    }

    char* bytes;
    uint32_t key;
};

}  // namespace softhca::test
