// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "tern/engine/send_pool.h"
#include "tern/engine/work_requests.h"

namespace tern {

// The work request of puts, prepared but for what differs between them. Of few bytes, unless
// set() has made it another; make_usual() comes after that.
class PutRequest {
  public:
    // A put that is posted together with its message, or stands for it.
    struct Put {
        ibv_sge from;
        unsigned flags;  // IBV_SEND_INLINE, or 0
        uint64_t to;
        uint32_t rkey;
        SendPool::Buffer* buffer = nullptr;  // given back, or ...
        void* cookie = nullptr;              // ... reported, when `from` may be used again
    };

    explicit PutRequest(ibv_wr_opcode opcode, ibv_send_wr* then = nullptr) {
        request_.next = then;
        request_.sg_list = &piece_;
        request_.opcode = opcode;
        make_usual();
    }
    PutRequest(const PutRequest&) = delete;
    PutRequest& operator=(const PutRequest&) = delete;

    // The caller completes it by `wr_id`, and immediate data.
    [[gnu::always_inline]] ibv_send_wr& set_usual(std::span<const std::byte> data, uint64_t to,
                                                  uint32_t rkey) {
        piece_.addr = address_of(data.data());
        piece_.length = static_cast<uint32_t>(data.size());
        request_.wr.rdma.remote_addr = to;
        request_.wr.rdma.rkey = rkey;
        return request_;
    }
    ibv_send_wr& set(const Put& put, bool signaled) {
        piece_ = put.from;
        request_.num_sge = put.from.length != 0 ? 1 : 0;
        request_.send_flags = put.flags | (signaled ? unsigned{IBV_SEND_SIGNALED} : 0);
        request_.wr.rdma.remote_addr = put.to;
        request_.wr.rdma.rkey = put.rkey;
        return request_;
    }
    // What set_usual() relies on.
    void make_usual() {
        request_.num_sge = 1;
        request_.send_flags = IBV_SEND_INLINE;
        piece_.lkey = 0;
    }

  private:
    alignas(64) ibv_send_wr request_{};
    ibv_sge piece_{};
};

}  // namespace tern
