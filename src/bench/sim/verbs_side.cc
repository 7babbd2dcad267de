// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes by verbs, and nothing else: the limit.
#include <infiniband/verbs.h>

#include <cerrno>
#include <optional>

#include "bench/measure/link.h"
#include "bench/sim/side.h"
#include "verbs/queue_pair.h"

namespace bench::sim {
namespace {

constexpr uint32_t kDepth = 512;
constexpr uint32_t kSignalEach = 64;
constexpr uint32_t kReceivesEach = 16;  // receives that are posted by one call
constexpr uint32_t kInlineBytes = 512;  // from there on, the adapter fetches data as fast

class VerbsSide : public Side {
  public:
    VerbsSide(Machine& machine, uint32_t rank) : Side(machine) {
        machine.become(rank);
        device_.emplace(DeviceName("softhca0:1"), 0);
        region_ = device_->register_memory(memory_, kBytes);
        cq_.reset(ibv_create_cq(device_->context(), 2 * kDepth, nullptr, nullptr, 0));
        if (!cq_) throw call_failed("ibv_create_cq");
        ibv_qp_cap granted = {};
        qp_ = tern::verbs::create_queue_pair(device_->pd(), IBV_QPT_RC, cq_.get(), nullptr,
                                             {kDepth, kDepth, kInlineBytes, 1}, granted);
        if (!qp_) throw call_failed("ibv_create_qp");
        inline_ = std::min(granted.max_inline_data, kInlineBytes);
    }

    void connect(VerbsSide& peer) {
        peer_ = &peer;
        const tern::verbs::Port& port = device_->port();
        const tern::verbs::Port& other = peer.device_->port();
        errno = tern::verbs::init_reliable(qp_.get(), port);
        if (errno != 0) throw call_failed("ibv_modify_qp to INIT");
        errno = tern::verbs::connect_reliable(
            qp_.get(), port, {.timeout = 14, .retries = 7, .rnr_timer = 1, .rnr_retries = 7},
            port.address_vector(other.attributes.lid, other.gid, port.ethernet), peer.qp_->qp_num,
            0, 0, port.mtu);
        if (errno != 0) throw call_failed("ibv_modify_qp to RTR or RTS");
        for (uint32_t i = 0; i < kDepth; i += kReceivesEach) post_receives();
    }

  private:
    static constexpr uint64_t kWordsAt = 2 * kRoom;  // the word that comes, and the one that goes
    static constexpr uint64_t kBytes = kWordsAt + 2 * kWord;

    char* out() override { return memory_; }
    char* in() override { return memory_ + kRoom; }
    char* word() { return memory_ + kWordsAt; }

    bool begin_send() override {
        const uint32_t requests = task().way == Way::kChain ? 2 : 1;
        if (posted_ + requests - done_requests_ > kDepth) {
            reap();
            return false;
        }
        mark(sent_);
        const uint64_t at = place(sent_);
        ++sent_;
        word_at(word() + kWord).store(sent_, std::memory_order_relaxed);
        ibv_sge pieces[2] = {{reinterpret_cast<uint64_t>(out() + at), task().size, region_->lkey},
                             {reinterpret_cast<uint64_t>(word() + kWord), kWord, region_->lkey}};
        const char* const targets[2] = {peer_->in() + at, peer_->word()};
        ibv_send_wr works[2] = {};
        for (uint32_t i = 0; i < requests; ++i) {
            ibv_send_wr& work = works[i];
            work.wr_id = ++posted_;
            work.opcode =
                task().way == Way::kImmediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
            work.sg_list = &pieces[i];
            work.num_sge = 1;
            work.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(targets[i]);
            work.wr.rdma.rkey = peer_->region_->rkey;
            if (pieces[i].length <= inline_) work.send_flags |= IBV_SEND_INLINE;
            if (posted_ % kSignalEach == 0) work.send_flags |= IBV_SEND_SIGNALED;
            if (i + 1 < requests) work.next = &works[i + 1];
        }
        ibv_send_wr* bad = nullptr;
        errno = ibv_post_send(qp_.get(), works, &bad);
        if (errno != 0) throw call_failed("ibv_post_send");
        return true;
    }
    bool has_come(uint64_t end) override {
        if (task().way == Way::kChain)
            return word_at(word()).load(std::memory_order_acquire) >= end;
        if (task().way == Way::kImmediate) return came_ >= end;
        return is_there(end - 1);
    }
    void prepare() override { came_ = first_to_come(); }
    // Looks at memory, and takes the completions that keep its queue from being full; or looks at
    // the completions.
    void poll() override {
        if (task().way != Way::kImmediate) spend(kLook);
        if (task().way == Way::kImmediate || posted_ - done_requests_ > kDepth / 2) reap();
    }
    void reap() {
        ibv_wc completions[kReceivesEach];
        const int got = ibv_poll_cq(cq_.get(), kReceivesEach, completions);
        for (int i = 0; i < got; ++i) {
            if (completions[i].status != IBV_WC_SUCCESS) throw Failure("a write has failed");
            if (completions[i].opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
                done_requests_ = completions[i].wr_id;
                continue;
            }
            ++came_;
            if (++received_ % kReceivesEach == 0) post_receives();
        }
        if (got < 0) throw Failure("a write has failed");
        counted(got > 0);
    }
    // A write with immediate data takes a receive without memory.
    void post_receives() {
        ibv_recv_wr receives[kReceivesEach] = {};
        for (uint32_t i = 0; i + 1 < kReceivesEach; ++i) receives[i].next = &receives[i + 1];
        ibv_recv_wr* bad = nullptr;
        errno = ibv_post_recv(qp_.get(), receives, &bad);
        if (errno != 0) throw call_failed("ibv_post_recv");
    }

    char* const memory_ = shared_memory(kBytes);
    std::optional<Device> device_;
    tern::verbs::MemoryRegion region_;
    tern::verbs::CompletionQueue cq_;
    tern::verbs::QueuePair qp_;
    VerbsSide* peer_ = nullptr;
    uint32_t inline_ = 0;
    uint64_t posted_ = 0;
    uint64_t done_requests_ = 0;
    uint64_t came_ = 0;      // with immediate data: what is below this number
    uint64_t received_ = 0;  // and how many in all
};

}  // namespace

Sides verbs_sides(Machine& machine) {
    auto one = std::make_unique<VerbsSide>(machine, 0);
    auto other = std::make_unique<VerbsSide>(machine, 1);
    one->connect(*other);
    other->connect(*one);
    return {std::move(one), std::move(other)};
}

}  // namespace bench::sim
