// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "common/assert.h"
#include "tern/engine/channel.h"
#include "tern/engine/send_pool.h"
#include "tern/pinning/cache/pin_table.h"
#include "tern/verbs/xrc.h"

namespace tern {

// What the completion of a direct send releases or reports.
struct TupleSend {
    Channel* channel = nullptr;  // of the receiver; held until completion. Null: a drain
    SendPool::Buffer* buffer = nullptr;
    Pin* pin = nullptr;
    void* cookie = nullptr;  // the user's
};

// The XRC queue pair that carries direct messages to all processes of a node. Its other end belongs
// to one process there, the `host`, and the link lasts as long as the connection to the host. Every
// send is signaled; sends complete in order.
//
//   kAsking   the host has made the other end                          kUp
//             the host refuses, or its channel ends                    kOver
//   kUp       a send fails, the host's channel ends, or, to this
//             process, a drain finds no queue                          kOver
//   kOver     the last send has completed                              destroyed
class XrcLink {
  public:
    enum class State : uint8_t {
        kAsking,  // the host has yet to make the other end
        kUp,
        kOver,  // nothing more is sent; destroyed when idle
    };

    // Null and errno if the device refuses. `index` is part of the work request ids. A device that
    // refuses the inline bytes, with whatever error, gets half of them, and at last none: such a
    // message is copied.
    static std::unique_ptr<XrcLink> create(ibv_pd* pd, ibv_cq* cq, uint32_t index, uint32_t sends,
                                           uint32_t inline_bytes);

    // Work request ids: bit 63 is 0, bits 32..62 the link's index, bits 0..31 the send's number.
    static uint32_t index_of(uint64_t id) { return static_cast<uint32_t>(id >> 32); }

    uint32_t index() const { return index_; }
    ibv_qp* qp() const { return qp_.get(); }
    void close() { qp_.reset(); }
    uint32_t psn() const { return psn_; }
    uint32_t max_inline() const { return max_inline_; }

    // True if a message may be posted: there is room, and the host's connection is not ending.
    bool usable() const { return state == State::kUp && room() != 0 && host_stays(); }
    uint32_t room() const { return depth_ - under_way(); }
    bool idle() const { return posted_ == completed_; }
    uint32_t under_way() const { return posted_ - completed_; }

    // Posts a send to a queue. The caller sets the pieces and flags of `request`. Returns 0, or the
    // device's error.
    int post(ibv_send_wr& request, uint32_t queue, const TupleSend& send) {
        TERN_ASSERT(state == State::kUp && room() != 0);
        request.wr_id = uint64_t{index_} << 32 | posted_;
        request.opcode = IBV_WR_SEND_WITH_IMM;
        request.send_flags |= IBV_SEND_SIGNALED;
        request.qp_type.xrc.remote_srqn = queue;
        ibv_send_wr* refused = nullptr;
        const int error = ibv_post_send(qp_.get(), &request, &refused);
        if (error != 0) return error;
        sends_[posted_++ % depth_] = send;
        return 0;
    }
    // Call when the oldest send is complete.
    TupleSend take() {
        TERN_ASSERT(!idle());
        return sends_[completed_++ % depth_];
    }
    // True if `is` holds for any send that is not complete.
    template <class Is>
    bool any_under_way(Is&& is) const {
        for (uint32_t i = completed_; i != posted_; ++i)
            if (is(sends_[i % depth_])) return true;
        return false;
    }

    State state = State::kAsking;
    Channel* host = nullptr;  // null: this process
    uint64_t node = 0;        // its XRC domain
    PortAddress port;
    uint32_t number = 0;    // of the attempt, in frames; 0: not asked yet
    bool in_doubt = false;  // over, and it is unknown whether the last sends arrived

  private:
    XrcLink() = default;
    bool host_stays() const {
        return host == nullptr || (host->up() && !host->ending && !host->failed);
    }

    uint32_t index_ = 0;
    uint32_t psn_ = 0;
    uint32_t max_inline_ = 0;
    uint32_t depth_ = 0;  // a power of two
    uint32_t posted_ = 0;
    uint32_t completed_ = 0;
    std::unique_ptr<TupleSend[]> sends_;
    verbs::QueuePair qp_;
};

}  // namespace tern
