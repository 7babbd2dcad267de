// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "verbs/xrc.h"

namespace tern {

// The XRC shared receive queues of an interface: made when they are needed, kept for the next
// tuple.
class XrcQueues {
  public:
    // What ids of receives say: bit 63 is 1, bits 32..62 the queue's generation, bits 0..31 its
    // index.
    static constexpr uint64_t kReceive = uint64_t{1} << 63;
    static constexpr uint32_t kGenerations = uint32_t{1} << 31;
    static bool is_receive(uint64_t id) { return (id & kReceive) != 0; }
    static uint32_t index_of(uint64_t id) { return static_cast<uint32_t>(id); }
    static uint32_t generation_of(uint64_t id) {
        return static_cast<uint32_t>(id >> 32) & (kGenerations - 1);
    }

    // `most` queues of `depth` entries. All completions go to `cq`.
    XrcQueues(ibv_pd* pd, const verbs::XrcDomain& domain, ibv_cq* cq, uint32_t depth, uint32_t most)
        : pd_(pd), domain_(domain), cq_(cq), depth_(depth), queues_(most) {}

    // Queue `index` is there from now on. False if the device refuses.
    bool open(uint32_t index);
    // The entries of a queue are no longer written to, whoever sends; the queue is no more.
    void destroy(uint32_t index) {
        queues_[index] = {.srq = nullptr,
                          .number = 0,
                          .generation = (queues_[index].generation + 1) % kGenerations,
                          .spoilt = false};
    }
    // What has come into the queue was not for it: nobody knows any more what its entries are for.
    void spoil(uint32_t index) { queues_[index].spoilt = true; }
    bool spoilt(uint32_t index) const { return queues_[index].spoilt; }
    // How often there was another queue in its place, modulo 2^31.
    uint32_t generation(uint32_t index) const { return queues_[index].generation; }

    bool is_open(uint32_t index) const { return queues_[index].srq != nullptr; }
    // By which senders name it.
    uint32_t number(uint32_t index) const { return queues_[index].number; }
    // Posts a receive behind the others; a piece of no bytes for a message of none. Data path.
    bool post(uint32_t index, ibv_sge& piece) {
        ibv_recv_wr request{};
        request.wr_id = kReceive | uint64_t{queues_[index].generation} << 32 | index;
        request.sg_list = &piece;
        request.num_sge = piece.length != 0 ? 1 : 0;
        ibv_recv_wr* refused = nullptr;
        return ibv_post_srq_recv(queues_[index].srq.get(), &request, &refused) == 0;
    }

  private:
    struct Queue {
        verbs::SharedReceiveQueue srq;
        uint32_t number = 0;
        uint32_t generation = 0;
        bool spoilt = false;
    };

    ibv_pd* pd_;
    const verbs::XrcDomain& domain_;
    ibv_cq* cq_;
    uint32_t depth_;
    std::vector<Queue> queues_;
};

}  // namespace tern
