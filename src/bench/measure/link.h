// SPDX-License-Identifier: BSD-3-Clause
// A reliable connection between the two processes.
#pragma once

#include "bench/measure/device.h"
#include "bench/measure/peer.h"

namespace bench {

struct DestroyCq {
    void operator()(ibv_cq* cq) const { ibv_destroy_cq(cq); }
};
struct DestroyQp {
    void operator()(ibv_qp* qp) const { ibv_destroy_qp(qp); }
};

class Link {
  public:
    static constexpr uint32_t kDepth = 512;  ///< of the send queue and of the receive queue

    /// Connects. The first half of the memory is what messages come from, the second half where
    /// they go to; it stays the caller's. Both processes call it at the same time.
    Link(Device& device, Peer& peer, int gid_index, char* memory, size_t size);

    char* out() { return memory_; }
    char* in() { return memory_ + half_; }
    size_t half() const { return half_; }
    uint64_t remote_in() const { return remote_.in; }
    uint64_t remote_out() const { return remote_.in - half_; }

    /// Posts one request for `length` bytes at `offset` of out() and of the peer's in(); a read
    /// brings the peer's out() to in(). Waits for room in the send queue. One that is not signaled
    /// is done when a later one is.
    void post(ibv_wr_opcode opcode, uint64_t offset, uint32_t length, bool signaled = true);
    /// The same for a write between memory that is registered elsewhere.
    void post_write(const void* from, uint32_t key, uint64_t to, uint32_t remote_key,
                    uint32_t length);
    /// Takes what completions there are; how many requests they mean. Throws if one failed.
    int reap();
    /// Waits until at most so many requests are under way.
    void reap_until(uint32_t outstanding);
    uint32_t outstanding() const { return static_cast<uint32_t>(posted_ - done_); }

    void post_receive(uint64_t offset, uint32_t length);
    /// Takes what completions of receives there are; how many.
    int reap_receives();

    /// The last word that went back and forth. Only grows, so that what other messages leave in
    /// memory is never taken for the next word.
    uint64_t sequence = 0;

  private:
    struct Address {
        uint16_t lid;
        ibv_gid gid;
        uint32_t qp_number;
        uint32_t key;
        uint64_t in;
    };
    void post(ibv_wr_opcode opcode, ibv_sge piece, uint64_t remote, uint32_t remote_key,
              bool signaled);
    std::unique_ptr<ibv_cq, DestroyCq> make_cq(Device& device);
    void make_qp(Device& device);
    void connect(Device& device, int gid_index);

    char* const memory_;
    const size_t half_;
    UniqueMr mr_;
    std::unique_ptr<ibv_cq, DestroyCq> send_cq_;
    std::unique_ptr<ibv_cq, DestroyCq> receive_cq_;
    std::unique_ptr<ibv_qp, DestroyQp> qp_;
    Address remote_ = {};
    uint32_t inline_limit_ = 0;
    uint64_t posted_ = 0;
    uint64_t done_ = 0;
};

}  // namespace bench
