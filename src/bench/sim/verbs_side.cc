// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes and sends by verbs, and nothing else: the limit.
#include <infiniband/verbs.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "bench/measure/link.h"
#include "bench/sim/side.h"
#include "tern/verbs/queue_pair.h"

namespace bench::sim {
namespace {

constexpr uint32_t kDepth = 512;
constexpr uint32_t kSignalEach = 64;
constexpr uint32_t kReceivesEach = 16;  // receives that are posted by one call
constexpr uint32_t kInlineBytes = 512;  // from there on, the adapter fetches data as fast
constexpr uint32_t kDatagramKey = 0x1234;

// A queue pair with a completion queue of its own.
class Queue {
  public:
    // Receives take their data to `into`, or have no memory if it is empty. All use the same place:
    // what comes is counted, and not looked at.
    Queue(Device& device, ibv_qp_type type, const ibv_sge& into = {})
        : device_(device), type_(type), into_(into) {
        cq_.reset(ibv_create_cq(device.context(), 2 * kDepth, nullptr, nullptr, 0));
        if (!cq_) throw call_failed("ibv_create_cq");
        ibv_qp_cap granted = {};
        qp_ = tern::verbs::create_queue_pair(device.pd(), type, cq_.get(), nullptr,
                                             {kDepth, kDepth, kInlineBytes, 1}, granted);
        if (!qp_) throw call_failed("ibv_create_qp");
        inline_ = std::min(granted.max_inline_data, kInlineBytes);
    }

    void connect(const Queue& peer) {
        const tern::verbs::Port& port = device_.port();
        const tern::verbs::Port& other = peer.device_.port();
        const ibv_ah_attr to = port.address_vector(other.attributes.lid, other.gid, port.ethernet);
        peer_number_ = peer.qp_->qp_num;
        if (type_ == IBV_QPT_RC)
            connect_reliable(port, to);
        else if (type_ == IBV_QPT_UC)
            connect_unreliable(port, to);
        else
            start_datagrams(port, to);
        for (uint32_t i = 0; i < kDepth; i += kReceivesEach) post_receives();
    }

    bool has_room(uint32_t requests) const { return outstanding() + requests <= kDepth; }
    uint32_t outstanding() const { return static_cast<uint32_t>(posted_ - done_); }
    // Posts work requests by one call.
    template <size_t kMost>
    void post(ibv_send_wr (&works)[kMost], uint32_t requests) {
        for (uint32_t i = 0; i < requests; ++i) {
            ibv_send_wr& work = works[i];
            work.wr_id = ++posted_;
            if (type_ == IBV_QPT_UD) work.wr.ud = {address_.get(), peer_number_, kDatagramKey};
            if (work.sg_list->length <= inline_) work.send_flags |= IBV_SEND_INLINE;
            if (posted_ % kSignalEach == 0) work.send_flags |= IBV_SEND_SIGNALED;
            if (i + 1 < requests) work.next = &works[i + 1];
        }
        ibv_send_wr* bad = nullptr;
        errno = ibv_post_send(qp_.get(), works, &bad);
        if (errno != 0) throw call_failed("ibv_post_send");
    }
    // Takes completions. Returns how many there were, and adds those of receives to `came`.
    int reap(uint64_t& came) {
        ibv_wc completions[kReceivesEach];
        const int got = ibv_poll_cq(cq_.get(), kReceivesEach, completions);
        for (int i = 0; i < got; ++i) {
            if (completions[i].status != IBV_WC_SUCCESS) throw Failure("a write has failed");
            if ((completions[i].opcode & IBV_WC_RECV) == 0) {
                done_ = completions[i].wr_id;
                continue;
            }
            ++came;
            if (++received_ % kReceivesEach == 0) post_receives();
        }
        if (got < 0) throw Failure("a write has failed");
        return got;
    }

  private:
    void connect_reliable(const tern::verbs::Port& port, const ibv_ah_attr& to) {
        errno = tern::verbs::init_reliable(qp_.get(), port);
        if (errno != 0) throw call_failed("ibv_modify_qp to INIT");
        errno = tern::verbs::connect_reliable(
            qp_.get(), port, {.timeout = 14, .retries = 7, .rnr_timer = 1, .rnr_retries = 7}, to,
            peer_number_, 0, 0, port.mtu, port.reads);
        if (errno != 0) throw call_failed("ibv_modify_qp to RTR or RTS");
    }
    void connect_unreliable(const tern::verbs::Port& port, const ibv_ah_attr& to) {
        ibv_qp_attr attributes = {};
        const auto modify = [&](ibv_qp_state state, int mask) {
            attributes.qp_state = state;
            errno = ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | mask);
            if (errno != 0) throw call_failed("ibv_modify_qp of an unreliable connection");
        };
        attributes.pkey_index = port.pkey_index;
        attributes.port_num = port.number;
        attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        attributes.ah_attr = to;
        attributes.path_mtu = port.mtu;
        attributes.dest_qp_num = peer_number_;
        modify(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
        modify(IBV_QPS_RTS, IBV_QP_SQ_PSN);
    }
    void start_datagrams(const tern::verbs::Port& port, ibv_ah_attr to) {
        errno = tern::verbs::start_datagrams(qp_.get(), port, kDatagramKey, 0);
        if (errno != 0) throw call_failed("ibv_modify_qp of a datagram queue pair");
        address_.reset(ibv_create_ah(device_.pd(), &to));
        if (!address_) throw call_failed("ibv_create_ah");
    }
    void post_receives() {
        ibv_recv_wr receives[kReceivesEach] = {};
        for (uint32_t i = 0; i < kReceivesEach; ++i) {
            if (into_.length != 0) receives[i] = {.sg_list = &into_, .num_sge = 1};
            if (i + 1 < kReceivesEach) receives[i].next = &receives[i + 1];
        }
        ibv_recv_wr* bad = nullptr;
        errno = ibv_post_recv(qp_.get(), receives, &bad);
        if (errno != 0) throw call_failed("ibv_post_recv");
    }

    Device& device_;
    const ibv_qp_type type_;
    ibv_sge into_;
    tern::verbs::CompletionQueue cq_;
    tern::verbs::QueuePair qp_;
    tern::verbs::AddressHandle address_;
    uint32_t peer_number_ = 0;
    uint32_t inline_ = 0;
    uint64_t posted_ = 0;
    uint64_t done_ = 0;
    uint64_t received_ = 0;
};

class VerbsSide : public Side {
  public:
    VerbsSide(Machine& machine, uint32_t rank) : Side(machine) {
        machine.become(rank);
        device_.emplace(DeviceName("softhca0:1"), 0);
        region_ = device_->register_memory(memory_, kBytes);
        const ibv_sge all_of_in = {reinterpret_cast<uint64_t>(in()), kRoom, region_->lkey};
        reliable_.emplace(*device_, IBV_QPT_RC);
        reliable_sends_.emplace(*device_, IBV_QPT_RC, all_of_in);
        unreliable_.emplace(*device_, IBV_QPT_UC);
        datagrams_.emplace(*device_, IBV_QPT_UD, all_of_in);
    }

    void connect(VerbsSide& peer) {
        peer_ = &peer;
        for (const auto queue : {&VerbsSide::reliable_, &VerbsSide::reliable_sends_,
                                 &VerbsSide::unreliable_, &VerbsSide::datagrams_})
            (this->*queue)->connect(*(peer.*queue));
    }

  private:
    static constexpr uint64_t kWordsAt = 2 * kRoom;  // the word that comes, and the one that goes
    static constexpr uint64_t kBytes = kWordsAt + 2 * kWord;

    char* out() override { return memory_; }
    char* in() override { return memory_ + kRoom; }
    char* word() { return memory_ + kWordsAt; }

    Queue& queue() {
        switch (task().way) {
            case Way::kWriteUc:
                return *unreliable_;
            case Way::kSend:
                return *reliable_sends_;
            case Way::kSendUd:
                return *datagrams_;
            default:
                return *reliable_;
        }
    }
    ibv_wr_opcode opcode() const {
        switch (task().way) {
            case Way::kImmediate:
                return IBV_WR_RDMA_WRITE_WITH_IMM;
            case Way::kSend:
            case Way::kSendUd:
                return IBV_WR_SEND;
            default:
                return IBV_WR_RDMA_WRITE;
        }
    }
    // Whether a message is found by its completion, and not in memory.
    bool is_completed() const { return task().way == Way::kImmediate || opcode() == IBV_WR_SEND; }

    bool begin_send() override {
        const uint32_t requests = task().way == Way::kChain ? 2 : 1;
        if (!queue().has_room(requests)) {
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
            works[i].opcode = opcode();
            works[i].sg_list = &pieces[i];
            works[i].num_sge = 1;
            works[i].wr.rdma.remote_addr = reinterpret_cast<uint64_t>(targets[i]);
            works[i].wr.rdma.rkey = peer_->region_->rkey;
        }
        queue().post(works, requests);
        return true;
    }
    bool has_come(uint64_t end) override {
        if (task().way == Way::kChain)
            return word_at(word()).load(std::memory_order_acquire) >= end;
        return is_completed() ? came_ >= end : is_there(end - 1);
    }
    void prepare() override { came_ = first_to_come(); }
    // Looks at memory, and takes the completions that keep its queue from being full; or looks at
    // the completions.
    void poll() override {
        if (!is_completed()) spend(kLook);
        if (is_completed() || queue().outstanding() > kDepth / 2) reap();
    }
    void reap() { counted(queue().reap(came_) > 0); }

    char* const memory_ = shared_memory(kBytes);
    std::optional<Device> device_;
    tern::verbs::MemoryRegion region_;
    // Receives of `reliable_` are for writes with immediate data, which need no memory.
    std::optional<Queue> reliable_, reliable_sends_, unreliable_, datagrams_;
    VerbsSide* peer_ = nullptr;
    uint64_t came_ = 0;  // by completions: what is below this number
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
