// SPDX-License-Identifier: BSD-3-Clause
// The owner's handle of a shared receive queue, basic or XRC.
#pragma once

#include <mutex>

#include "softhca/fabric/host.h"

namespace softhca {

class Adapter;
class Cq;

class Srq {
  public:
    struct Attributes {
        uint32_t pd = 0;
        uint32_t max_wr = 0;
        uint32_t max_sge = 0;
        uint32_t limit = 0;
        uint32_t xrc_domain = 0;  // 0: a basic SRQ
        Cq* cq = nullptr;         // of an XRC SRQ: the completion queue of its receives
        uint64_t memory = 0;      // bytes that a driver takes for it
    };
    // An empty queue; nullptr if there is no number or memory left.
    static Srq* create(Adapter& adapter, const Attributes& attributes);
    ~Srq();
    Srq(const Srq&) = delete;
    Srq& operator=(const Srq&) = delete;

    // Posts receives one after the other, while nobody else does.
    class Posts {
      public:
        explicit Posts(Srq& srq) : srq_(srq), lock_(srq.post_mutex_) {}
        // 0, or the personality's error for a full queue or too many elements.
        int post(uint64_t wr_id, const Sge* sges, uint32_t count);

      private:
        Srq& srq_;
        const std::lock_guard<std::mutex> lock_;
    };
    // Releases the slot of a polled receive.
    void release(uint32_t slot);
    // Requests one limit event when fewer than `limit` receives are left; 0: none. EINVAL above
    // the capacity.
    int set_limit(uint32_t limit);
    // 0, EINVAL if `max_wr` is too few for the posted receives, or ENOMEM.
    // `memory`: as in Attributes.
    int resize(uint32_t max_wr, uint64_t memory);
    uint32_t limit() const { return shared_->limit.load(std::memory_order_relaxed); }
    uint32_t number() const { return number_; }
    SrqShared& shared() { return *shared_; }
    Cq* cq() const { return cq_; }

    std::atomic<uint32_t> users{0};
    void* cookie = nullptr;

  private:
    Srq(Adapter& adapter, SrqShared* shared, uint32_t number, Cq* cq, uint64_t memory)
        : adapter_(adapter), shared_(shared), number_(number), cq_(cq), memory_(memory) {}
    Adapter& adapter_;
    SrqShared* shared_;
    uint32_t number_;
    Cq* cq_;
    uint64_t memory_;
    std::mutex post_mutex_;  // for posting to, releasing and moving slots
};

// Allocates the slots of a ring for `max_wr` receives in this process's arena. False if there is no
// room.
bool allocate_ring(Host& host, RecvRing& ring, uint32_t max_wr, uint32_t max_sge);
// Appends a receive; the caller serializes posts. 0, or the error for a full ring or for too many
// elements.
struct RingErrors {
    int full, sge;
};
int post_to_ring(Host& host, RecvRing& ring, uint64_t wr_id, const Sge* sges, uint32_t count,
                 const RingErrors& errors);

}  // namespace softhca
